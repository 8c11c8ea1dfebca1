"""Seeds: fixed unless fresh ones are asked for, and then the same in every process of a run."""

from __future__ import annotations

import pytest

from tests import seeds as module


def test_the_same_unless_asked_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PARHELION_SEEDS", raising=False)
    monkeypatch.delenv("PARHELION_FRESH_SEEDS", raising=False)
    module.pytest_configure()
    assert module.chosen() == module.FIXED


def test_fresh_ones_are_drawn_once_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARHELION_SEEDS", "")
    monkeypatch.setenv("PARHELION_FRESH_SEEDS", "10")
    module.pytest_configure()
    drawn = module.chosen()
    assert len(set(drawn)) == 10
    module.pytest_configure()  # of another process, which inherits the environment
    assert module.chosen() == drawn
    assert module.pytest_report_header().endswith(",".join(map(str, drawn)))


def test_given_ones_win(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARHELION_SEEDS", "17,4711")
    monkeypatch.setenv("PARHELION_FRESH_SEEDS", "10")
    module.pytest_configure()
    assert module.chosen() == (17, 4711)
