"""The redaction hook in its process: its answers are taken; one that raises, hangs, ends or says something else withholds everything, within bounds, and what comes after it works."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from proxy.config import Config, Records
from proxy.judge import redactor
from proxy.judge.redactor import Redactor, Said, of

HOOK = """
import os, re, sys, time

def upper(kind, value):
    print("noise", kind, value)
    sys.stderr.write("more noise")
    if kind == "request":
        return value | {"seen": True}
    return None if value == "secret" else value.upper()

def awkward(kind, value):
    match value:
        case "raise":
            raise ValueError("secret")
        case "sleep":
            time.sleep(60)
        case "backtrack":
            return value if re.match("(a+)+$", "a" * 60 + "b") else None
        case "exit":
            os._exit(3)
        case "leave":
            sys.exit("secret")
        case "number":
            return 7
        case "surrogate":
            return "\\ud800"
        case "write":
            os.write(1, b"not a frame")
    return value

class Hooks:
    @staticmethod
    def same(kind, value):
        return value

value = 3
"""


@pytest.fixture
def hook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Redactor]]:
    (tmp_path / "hooks_of_a_test.py").write_text(HOOK)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    made: list[Redactor] = []

    def make(name: str, seconds: float = 0.5) -> Redactor:
        made.append(Redactor(f"hooks_of_a_test:{name}", seconds))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_a_hook_is_asked_of_each_text_and_what_it_prints_goes_nowhere(hook, capfd) -> None:
    texts = [("request", {"a": [1, "é"]}), ("output", "one"), ("output", "secret")]
    one = hook("upper")
    for _ in range(3):
        assert one.ask(texts) == Said([{"a": [1, "é"], "seen": True}, "ONE", None])
    assert capfd.readouterr() == ("", "")
    assert hook("Hooks.same").ask([("output", "x")]) == Said(["x"])


@pytest.mark.parametrize(
    ("text", "failure"),
    [
        ("raise", "raised"),
        ("number", "wrong_type"),
        ("surrogate", "wrong_type"),
        ("sleep", "hung"),
        ("backtrack", "hung"),
        ("exit", "died"),
        ("leave", "died"),
    ],
)
def test_what_fails_is_named_and_the_next_is_looked_at_again(hook, text: str, failure: str) -> None:
    one = hook("awkward")
    assert one.ask([("output", "before")]) == Said(["before"])
    begun = time.monotonic()
    assert one.ask([("output", "fine"), ("output", text)]) == Said(None, failure)
    assert time.monotonic() - begun < 20
    assert one.ask([("output", "after"), ("output", "write")]) == Said(["after", "write"])


def test_texts_larger_than_a_pipe_go_both_ways(hook) -> None:
    long = "é" * 3_000_000
    assert hook("Hooks.same", 20.0).ask([("output", long)] * 2) == Said([long, long])


@pytest.mark.parametrize("name", ["missing", "value", "Hooks.other"])
def test_a_hook_that_is_not_there_is_not_looked_for_each_time(hook, name: str) -> None:
    one = hook(name)
    assert one.ask([("output", "x")]) == Said(None, "not_importable")
    assert one._process is None
    assert one.ask([("output", "x")]) == Said(None, "resting")
    assert one.ask([]) == Said([])


def test_one_that_fails_time_and_again_is_left_alone_for_a_while(hook, monkeypatch) -> None:
    one = hook("awkward")
    assert [one.ask([("output", "raise")]).failure for _ in range(9)] == ["raised"] * 9
    said = [one.ask([("output", "exit")]).failure for _ in range(redactor._PATIENCE + 2)]
    assert said == ["died"] * redactor._PATIENCE + ["resting"] * 2
    later = time.monotonic() + redactor._REST + 1
    monkeypatch.setattr(redactor.time, "monotonic", lambda: later)
    assert one.ask([("output", "fine")]) == Said(["fine"])


def test_what_cannot_be_sent_to_it_is_withheld(hook) -> None:
    assert hook("Hooks.same").ask([("output", "\ud800")]) == Said(None, "died")


def test_a_configuration_keeps_its_hook_and_has_none_where_no_text_is_kept() -> None:
    def config(content: str) -> Config:
        return Config(records=Records(content=content, redact="a:b"))

    first = of(config("text"), None)
    assert first is not None
    assert of(config("text"), first) is first
    assert of(config("hash"), first) is None
    assert of(Config(records=Records(content="text")), first) is None


def test_a_hook_is_tried_before_it_is_needed(hook) -> None:
    del hook  # its module is on the path

    def said(name: str) -> list[str]:
        return redactor.trouble(Config(records=Records(content="text", redact=f"hooks_of_a_test:{name}")))

    assert said("upper") == []
    (line,) = said("missing")
    assert line.startswith("records.redact: hooks_of_a_test:missing: it cannot be imported: install its module")
    assert redactor.trouble(Config()) == []
