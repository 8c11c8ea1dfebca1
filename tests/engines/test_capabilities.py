"""Every reason has a remedy in one line."""

from pathlib import Path

import pytest

import engines
from engines.capabilities import Capabilities, Level, remedy


@pytest.mark.parametrize("reason", ["refused", "timeout", "status_401", "not_an_engine", "status_418"])
def test_remedies(reason):
    assert remedy(reason)
    assert "\n" not in remedy(reason)


def test_an_unforeseen_reason_is_named():
    assert "status_418" in remedy("status_418")


@pytest.mark.parametrize(
    ("seen", "level", "modes"),
    [
        (Capabilities(token_ids=True, forced=True, top_logprobs=20), Level.FULL, ("free", "forced")),
        (Capabilities(token_ids=True, forced=True, top_logprobs=1), Level.NO_RIVALS, ("free", "forced")),
        (Capabilities(token_ids=True, top_logprobs=20), Level.SCORED_FREE, ("free",)),
        (Capabilities(top_logprobs=20), Level.NO_IDS, ("free",)),
        (Capabilities(text_only=True), Level.TEXT, ("free",)),
    ],
)
def test_a_level_decides_which_modes_run(seen, level, modes):
    assert seen.level is level
    assert tuple(mode.value for mode in level.modes) == modes


def test_every_level_says_what_is_compared():
    assert Level.UNUSABLE.modes == ()
    assert len({level.meaning for level in Level}) == len(Level)
    for level in (Level.SCORED_FREE, Level.NO_IDS, Level.TEXT):
        assert "up to the first" in level.meaning


def test_every_level_is_explained_to_users():
    readme = (Path(engines.__file__).parent / "README.md").read_text(encoding="utf-8")
    for level in Level:
        assert f"| `{level.value}` |" in readme
