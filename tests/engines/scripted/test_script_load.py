"""A script that cannot be played is refused with what is wrong, where, and how to mend it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import yaml

from engines.scripted.script import Script
from engines.scripted.script_load import ScriptError, load, read

README = Path(__file__).parents[3] / "engines" / "scripted" / "README.md"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("differences: {noize: 1}", "s: differences: unknown field noize, did you mean noise?"),
        ("difference: {}", "s: unknown field difference, did you mean differences?"),
        ("xyz: 1", "s: unknown field xyz: choose one of model, vocabulary, "),
        ("differences: {noise: loud}", "s: differences.noise: Expected `float`, got `str`"),
        ("differences: {precision: int8}", "s: differences.precision: Invalid enum value 'int8'"),
        ("timing: {token: -1}", "s: timing.token: Expected `float` >= 0.0"),
        ("replies: [{after: x, sey: y}]", "s: replies[0]: unknown field sey, did you mean say?"),
        ("replies: [{say: y}]", "missing required field `after`"),
        ("replies: [{after: x, tokens: [{}]}]", "s: replies[0].tokens[0]: give either id or text"),
        ("replies: [{after: x, tokens: [{text: ' zebra'}]}]", "s: replies[0].tokens[0].text: ' zebra' is no token"),
        ("replies: [{after: x, tokens: [{id: 999999}]}]", "s: replies[0].tokens[0].id: '#999999' is no token"),
        ("replies: [{after: x, tokens: [{id: 9, top: {' of': -1}}]}]", "give logprob too"),
        ("replies: [{after: x, tokens: [{id: 9, logprob: -0.1, top: {' of': -0.2}}]}]", "add up to more than 1"),
        ("replies: [{after: x, say: y, tokens: [{id: 9}]}]", "s: replies[0]: has both say and tokens: keep one"),
        ("template: {turn: '{role}'}", "s: template.turn: must hold {role} and {content} and no other field"),
        ("template: {turn: '{role}{content:>999999999}'}", "must hold {role} and {content} and no other field"),
        ("template: {turn: '{role}{content!r}'}", "must hold {role} and {content} and no other field"),
        ("toy: {seed: 99999999999999999999}", "s: toy.seed: Expected `int` <= 9223372036854775807"),
        ("template: {turn: '{role'}", "write braces that are meant as text twice"),
        ("differences: {template: {open: ''}}", "s: differences.template.open: must not be empty"),
        ("vocabulary: {list: [' a', ' a']}", "s: vocabulary.list: a word stands there twice"),
        ("routes: {version: 1}", "s: routes: 'version' is no path: begin it with /"),
        ("a: [", "s: line 1, column 5 is not YAML"),
        ("- 1", "s: the whole: Expected `object`, got `array`"),
        ("\x00", "is not YAML"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, said: str) -> None:
    with pytest.raises(ScriptError) as caught:
        read(text.encode(), "s")
    assert said in str(caught.value)


def test_nothing_is_a_healthy_engine() -> None:
    assert load(None) == read(b"") == read(b"# nothing") == Script()


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ScriptError, match=r"--script .*nowhere\.yaml: cannot be read: No such file"):
        load(tmp_path / "nowhere.yaml")
    with pytest.raises(ScriptError, match="Is a directory"):
        load(tmp_path)


def test_the_script_of_the_readme_loads_and_shows_every_field() -> None:
    text = README.read_text(encoding="utf-8").split("```yaml\n")[1].split("```")[0]
    read(text.encode(), "README")
    shown = yaml.safe_load(text)
    for name, part in msgspec.to_builtins(Script()).items():
        assert name in shown
        if isinstance(part, dict):
            assert part.keys() <= shown[name].keys(), name
