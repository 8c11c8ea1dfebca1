"""PASS, FAIL or KEEP WATCHING: right where the truth is known, the same however the counts were split, never good for want of results."""

from __future__ import annotations

from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from proxy.compare.e_detector import Detector
from proxy.compare.verdict import Floor, State, Tally, Terms, judge

TERMS = Terms(alpha=0.01, margin=0.01, allowance=0.01)
COUNT = st.integers(0, 2000)
TALLY = st.builds(Tally, COUNT, COUNT, COUNT, COUNT, COUNT)


@pytest.mark.parametrize(
    ("tally", "state"),
    [
        (Tally(), State.WATCH),
        (Tally(neither=500), State.WATCH),
        (Tally(neither=2000), State.PASS),
        (Tally(worse=90, better=90, both=10, neither=8000), State.PASS),
        (Tally(worse=60, better=5, neither=300), State.FAIL),
        (Tally(worse=30), State.FAIL),
        (Tally(worse=12, better=9, neither=300), State.WATCH),
        (Tally(neither=2000, missing=9), State.PASS),
        (Tally(neither=2000, missing=11), State.WATCH),  # more than half a point is missing
        (Tally(worse=1, neither=2000, controlled=False), State.PASS),
        (Tally(worse=60, neither=1000, controlled=False), State.FAIL),
        (Tally(worse=10, neither=1000, controlled=False), State.WATCH),
    ],
)
def test_what_is_said_of_it(tally: Tally, state: State) -> None:
    found = judge(tally, TERMS)
    assert found.state is state
    assert found.floor is (Floor.CONTROL if tally.controlled else Floor.ASSUMED)
    assert (found.needed == 0) is (state is not State.WATCH) or found.needed is None or tally.missing


def test_a_control_that_differs_by_nobody_knows_what_is_not_held_against_the_candidate() -> None:
    """Tokens that it lends are known where it agrees; in those alone an equally noisy candidate looks worse."""
    lent = Tally(worse=30, neither=20, missing=90)
    assert judge(lent, TERMS).state is State.FAIL
    apart = replace(lent, control_apart=90)
    assert judge(apart, TERMS).state is State.WATCH
    assert judge(apart, TERMS).log_e_fail < 0
    assert judge(replace(lent, both_apart=90), TERMS).state is State.FAIL  # bad in those, too
    assert judge(replace(apart, worse=300), TERMS).state is State.FAIL
    assert (apart + apart).control_apart == 180
    passing = Tally(neither=5000, missing=20)
    assert judge(replace(passing, control_apart=20), TERMS).log_e_pass == judge(passing, TERMS).log_e_pass


def test_the_worst_case_stands_beside_it() -> None:
    found = judge(Tally(neither=3000, missing=14), TERMS)
    assert (found.state, found.worst_case) == (State.PASS, State.WATCH)
    assert judge(Tally(neither=3000, missing=300), TERMS).worst_case is State.FAIL
    assert found.tally.coverage == pytest.approx(3000 / 3014)


def test_the_excess_has_its_interval() -> None:
    low, high = judge(Tally(worse=300, better=100, neither=1600), TERMS).excess
    assert low < 0.1 < high
    assert low > 0.05
    low, high = judge(Tally(worse=100, neither=900, controlled=False), TERMS).excess
    assert 0.05 < low < 0.1 < high < 0.15
    assert judge(Tally(), TERMS).excess is None


@given(TALLY, TALLY)
def test_two_replicas_say_together_what_one_would_have_said(one: Tally, other: Tally) -> None:
    both = judge(one + other, TERMS)
    assert both == judge(other + one, TERMS)
    assert both.tally.seen == one.seen + other.seen


@given(TALLY)
def test_pass_and_fail_never_hold_at_once(tally: Tally) -> None:
    found = judge(tally, TERMS)
    assert min(found.log_e_fail, found.log_e_pass) < log(100)


def test_results_with_and_without_a_control_do_not_add_up() -> None:
    with pytest.raises(ValueError, match="control"):
        Tally() + Tally(controlled=False)


def test_a_detector_alarms_soon_after_a_change_and_hardly_before() -> None:
    state, alarmed = Detector(), False
    for turn in range(2000):  # as often one as the other
        state = state.after(worse=turn % 2 == 0)
        alarmed |= state.alarms(1e6)
    assert not alarmed
    for turn in range(100):  # then three of four
        state = state.after(worse=turn % 4 != 0)
        if state.alarms(1e6):
            break
    assert 20 < turn < 99
    assert state.seen == 2000 + turn + 1


def test_a_detector_by_hand() -> None:
    state = Detector().after(worse=True)
    assert state.log_e == pytest.approx(log(2 * 0.75))  # the grid's mean theta, twice
    assert Detector().after(worse=False).log_e == pytest.approx(log(0.5))
    assert Detector().log_e == float("-inf")
