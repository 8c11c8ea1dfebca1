"""Measures of the machine: each of the work that it names, and held against the figure of that work."""

from __future__ import annotations

import gc

import pytest

from tests.bench import comparator, scales


def test_each_measure_is_of_its_own_work() -> None:
    found = scales.measures(3, 0.002)
    assert [one.there for one in found] == [492.0, 316.0, 1198.0]
    every, chosen, _ = found
    assert 0 < chosen.here < every.here  # passing over the alternatives is less than building them


def test_figures_are_of_a_body_of_the_size_there(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def look(_work: object, _seconds: float) -> float:
        seen.append(gc.get_threshold()[0])
        return 1e-3

    monkeypatch.setattr(scales, "took", look)
    assert [one.here for one in scales.measures(3, 1.0)] == pytest.approx([1000.0] * 3, rel=0.05)
    assert seen == [50_000] * 9


def test_figures_are_scaled_with_the_collector_that_the_goals_were_measured_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[tuple[int, int, int]] = []

    def look(_work: object, _seconds: float) -> float:
        seen.append(gc.get_threshold())
        return 1198e-6

    monkeypatch.setattr(comparator, "took", look)
    before = gc.get_threshold()
    assert comparator.scale(1.0) == pytest.approx(1.0, rel=0.05)
    assert seen == [(700, 10, 10)]
    assert gc.get_threshold() == before
