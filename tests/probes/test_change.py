"""The test for a change: its exact level, its power, and what it does with ties."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu

from proxy.probes.ask import Run
from proxy.probes.change import LEARNED, block, compare, rank_sum, scores, suspicious

PROBES = 32
BLOCK = 6
NAMES = [f"p{number}" for number in range(PROBES)]


def noisy(source: random.Random, count: int, sigma: float, shift: float = 0.0, common: float = 0.0) -> list[Run]:
    """Runs of probes with gaps from 0.01 to 0.32: noise of each probe, and of a whole run (``common``)."""
    made = []
    for _ in range(count):
        whole = source.gauss(0.0, common)
        gaps = tuple(
            (number + 1) / 100 + whole + source.gauss(0.0, sigma) + shift * (-1) ** number for number in range(PROBES)
        )
        made.append(Run(gaps, tuple(gap < 0 for gap in gaps)))
    return made  # fmt: skip


@given(st.lists(st.integers(0, 6), min_size=2, max_size=9), st.integers(1, 4))
def test_the_rank_sum_is_that_of_all_ways_to_draw(values: list[int], size: int) -> None:
    size = min(size, len(values) - 1)
    old, new = [float(one) for one in values[:-size]], [float(one) for one in values[-size:]]
    ranks = [sum(other < one for other in values) + (values.count(one) + 1) / 2 for one in values]
    observed = sum(ranks[-size:])
    draws = [sum(draw) for draw in itertools.combinations(ranks, size)]
    assert rank_sum(old, new) == sum(one >= observed for one in draws) / len(draws)


def test_without_ties_it_is_scipys() -> None:
    source = random.Random(1)
    for _ in range(20):
        old, new = [source.random() for _ in range(20)], [source.random() + 0.3 for _ in range(6)]
        expected = mannwhitneyu(new, old, alternative="greater", method="exact").pvalue
        assert rank_sum(old, new) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("common", [0.0, 0.02], ids=["each for itself", "all probes together"])
def test_an_engine_that_is_the_same_is_called_changed_no_oftener_than_alpha(common: float) -> None:
    source = random.Random(2)
    alpha, rounds = 0.05, 400
    alarms = sum(
        compare(NAMES, noisy(source, LEARNED, 0.01, common=common), noisy(source, BLOCK, 0.01, common=common), alpha).changed
        for _ in range(rounds)
    )  # fmt: skip
    assert alarms <= 34  # 20 expected at most; 34 or more with probability 0.002
    assert alarms > 5  # and it is a test of that level, not one that never speaks


def test_an_engine_that_answers_to_the_last_bit_the_same_is_never_changed() -> None:
    runs = noisy(random.Random(3), 1, 0.0) * (LEARNED + BLOCK)
    found = compare(NAMES, runs[:LEARNED], runs[LEARNED:], 1e-6)
    assert (found.changed, found.p, found.shift, found.flips) == (False, 1.0, 0.0, 0)
    assert not suspicious(runs[:LEARNED], runs[-1])


@pytest.mark.parametrize("shift", [0.0005, 0.02])
def test_a_shift_is_found_with_a_p_that_a_day_of_looks_cannot_make(shift: float) -> None:
    source = random.Random(4)
    base, new = noisy(source, LEARNED, shift / 20), noisy(source, BLOCK, shift / 20, shift)
    found = compare(NAMES, base, new, 0.01 * 300 / 86400)
    assert found.changed
    assert found.p == pytest.approx(1 / 230_230)
    assert found.shift == pytest.approx(shift, rel=0.1)
    assert suspicious(base, new[0])


def test_tokens_that_changed_places_are_named() -> None:
    source = random.Random(5)
    found = compare(NAMES, noisy(source, LEARNED, 1e-4), noisy(source, BLOCK, 1e-4, -0.035), 0.01)
    assert [one.name for one in found.probes if one.flipped] == [
        "p0",
        "p2",
    ]  # of 0.01, 0.03, 0.05, ... that fell by 0.035
    assert found.flips == 2


def test_a_shift_of_no_consequence_is_none() -> None:
    base = noisy(random.Random(6), 1, 0.0) * LEARNED
    moved = [Run(tuple(gap + 1e-7 for gap in base[0].gaps), base[0].flipped)] * BLOCK
    found = compare(NAMES, base, moved, 0.01)
    assert found.p < 1e-5
    assert not found.changed
    assert compare(NAMES, base, moved, 0.01, least=1e-8).changed
    assert not suspicious(base, moved[0])


def test_a_score_is_the_mean_distance_from_the_medians() -> None:
    runs: Sequence[Run] = [
        Run((0.0, 1.0), (False, False)),
        Run((0.2, 1.0), (False, False)),
        Run((0.1, 1.6), (False, False)),
    ]
    assert scores(runs) == pytest.approx([0.05, 0.05, 0.3])


@pytest.mark.parametrize(("every", "size"), [(86400, 6), (300, 6), (60, 7), (1, 10)])
def test_a_block_is_as_long_as_a_days_level_needs(every: int, size: int) -> None:
    alpha = 0.01 * every / 86400
    assert block(alpha) == size
    source = random.Random(7)
    assert compare(NAMES, noisy(source, LEARNED, 0.001), noisy(source, size, 0.001, 0.02), alpha).changed
