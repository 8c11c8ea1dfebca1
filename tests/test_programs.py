"""Foreign programs: found, installed once for each set of requirements, and named when missing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import programs


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PARHELION_PROGRAMS", str(tmp_path))
    return tmp_path


def test_a_program_on_the_path_is_taken_as_it_is() -> None:
    assert os.access(programs.debian("coreutils", "cat"), os.X_OK)


def test_what_pypi_does_not_have_is_named(place: Path) -> None:
    with pytest.raises(programs.Missing, match="no-such-requirement"):
        programs.environment("nothing", f"{place}/no-such-requirement.whl")
    assert not list(place.glob("nothing-*/installed"))


def test_an_installed_set_is_not_installed_again(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def install(command: list[str], *_: str) -> None:
        if "venv" in command:
            Path(command[-1]).mkdir()

    monkeypatch.setattr(programs, "_run", install)
    first = programs.environment("pair", "one==1", "two==2")
    kept = first.parent / "kept"
    kept.write_text("")
    assert programs.environment("pair", "one==1", "two==2") == first
    assert kept.exists()
    assert programs.environment("pair", "one==1", "two==3") != first


def test_what_comes_alone_is_installed_without_what_it_requires(monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []

    def install(command: list[str], *_: str) -> None:
        commands.append(command)
        if "venv" in command:
            Path(command[-1]).mkdir()

    monkeypatch.setattr(programs, "_run", install)
    alone = programs.environment("engine", "one==1", bare=("two==2",))
    assert [command[-2:] for command in commands[1:]] == [[commands[1][-2], "one==1"], ["--no-deps", "two==2"]]
    assert programs.environment("engine", "one==1", "two==2") != alone


@pytest.mark.parametrize(("ci", "outcome"), [("true", pytest.fail.Exception), ("", pytest.skip.Exception)])
def test_what_is_missing_fails_in_ci_and_is_skipped_elsewhere(
    monkeypatch: pytest.MonkeyPatch, ci: str, outcome: type[BaseException]
) -> None:
    def find() -> Path:
        raise programs.Missing("no such thing")

    monkeypatch.setenv("CI", ci)
    with pytest.raises(outcome, match="no such thing"):
        programs.need(find)
