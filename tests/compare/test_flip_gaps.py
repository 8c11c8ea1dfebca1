"""Positions by gap: each in its bin, nothing lost, and columns that stand for where their gaps are."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.compare.comparison import ChoiceComparison, Comparison, Mode
from proxy.compare.flip_gaps import flips_by_gap, gather, layout, passing


def one(gaps, agree, shifts=(), **fields) -> Comparison:
    n = len(gaps)
    arrays = {"gaps": tuple(gaps), "top1_agree": tuple(agree), "gap_shifts": tuple(shifts)}
    choice = ChoiceComparison(0, n, None, n, n, identical=False, **arrays)
    return Comparison(mode=Mode.FORCED, choices=(choice,), **fields)


def test_positions_whose_gap_or_first_is_unknown_do_not_count():
    arm = gather([one([0.5, None, 0.5, 2.0], [False, False, None, True], [0.1, None, -0.3])], ["a"])
    assert (arm.positions, arm.flips, arm.flipped, arm.shifts) == (2, 1, 1, 2)
    assert flips_by_gap(one([0.5, None, 0.5, 2.0], [False, False, None, True])) == 1
    assert arm.scale == pytest.approx(0.05**0.5)
    assert gather([one([0.5], [True], [0.1], values_incomparable="logprob_mode")], ["a"]).shifts == 0
    assert gather([one([0.5], [True], incomparable="sampled")], ["a"]).positions == 0
    assert not gather([one([0.5], [True])], [""]).known
    assert len(gather([one([0.5], [True])] * 2, ["", ""]).conversations) == 2
    assert len(gather([one([0.5], [True])] * 2, ["a", "a"]).conversations) == 1


@given(st.lists(st.tuples(st.floats(0, 100), st.booleans()), min_size=1, max_size=40), st.floats(0, 3))
def test_columns_hold_every_position_in_the_order_of_gaps(positions, shift):
    gaps, agree = zip(*positions, strict=True)
    arm = gather([one(gaps, agree, [shift])], ["a"])
    columns = layout(arm, arm)
    assert set(columns.column) == set(arm.conversations["a"].bins)
    assert columns.gaps == sorted(columns.gaps)
    assert columns.edges == sorted(set(columns.edges))
    assert [place for place, _ in sorted(columns.column.items())] == sorted(columns.column)
    assert sorted(columns.column.values()) == [columns.column[place] for place in sorted(columns.column)]
    total = sum(n * columns.gaps[columns.column[place]] for place, (n, _) in arm.conversations["a"].bins.items())
    assert total == pytest.approx(sum(gaps))


def test_an_exact_tie_has_a_column_of_its_own_and_steps_stay_where_they_are():
    gaps = [0.0, 0.125, 0.125, 0.25, 0.5, 7.0, 9.0]
    arm = gather([one(gaps, [False] * 5 + [True] * 2, [0.125])], ["a"])
    columns = layout(arm, arm)
    assert columns.gaps == [0.0, 0.125, 0.25, 0.5, 8.0]
    assert columns.edges[0] == 0.0


def test_values_that_are_no_logprobs_break_nothing():
    arm = gather([one([math.inf, 1e300, 0.5], [True, False, True], [math.inf, 1e300, 0.1])], ["a"])
    assert (arm.positions, arm.flips, arm.shifts) == (3, 1, 1)
    assert layout(arm, arm).gaps[-1] == 1e5


def test_how_many_gaps_a_shift_outweighs():
    gaps = [0.0, 0.125, 0.25, 1.0]
    shifts = [0.0, 0.5, -0.1, -0.125, -0.2, -3.0]
    assert passing(shifts, gaps, chose=False) == [
        4,
        2,
        0,
        2,
    ]  # in halves: -0.1 and -0.125 outweigh one, -0.2 two, -3 all
    assert passing(shifts, gaps, chose=True) == [
        3,
        3,
        0,
        2,
    ]  # -0.125 makes a tie of the second, which is lost in half of the cases
    assert passing([], gaps, chose=True) == [0, 0, 0, 0]
