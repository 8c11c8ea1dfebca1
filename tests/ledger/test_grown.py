"""Evidence over time: each point is the verdict of what had been counted by then, the last the verdict's own."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from proxy.compare.trial import Result
from proxy.compare.verdict import Terms, judge
from proxy.ledger.grown import MOST, over_time
from proxy.ledger.hours import HOUR, Conversations
from proxy.ledger.tallies import Cell, Scope, Sum, Tallied

TERMS = Terms()
SCOPE = Scope("candidate", "p", "s", "control", "c")
CELLS = [Cell(one, "", "unknown_flip" if one is Result.MISSING else "") for one in Result]
COUNTS = st.lists(st.tuples(st.integers(0, 2000), st.sampled_from(CELLS), st.integers(1, 9)), min_size=1, max_size=30)


def total(counts, before=()):
    cells: dict[Cell, Sum] = {}
    tallied = Tallied(cells)
    for hour, cell, n in [*before, *counts]:
        tallied.add(cell, Sum(n, hour * HOUR, hour * HOUR + 60.0))
    return tallied


@given(COUNTS, COUNTS)
def test_each_point_is_what_was_true_then(counts, before):
    before = [(0, cell, n) for _, cell, n in before]
    tallied = total(counts, before)
    hourly = [Conversations(hour * HOUR, SCOPE.key, cell, n) for hour, cell, n in counts]
    points = over_time([*hourly, Conversations(0, "another", CELLS[0], 999)], SCOPE, tallied, TERMS)
    assert len(points) == len({hour for hour, *_ in counts})
    for point, hour in zip(points[:-1], sorted({hour for hour, *_ in counts}), strict=False):
        then = judge(total([one for one in counts if one[0] <= hour], before).tally(controlled=True), TERMS)
        assert (point["conversations"], point["log_e_fail"], point["log_e_pass"]) == (
            then.tally.seen,
            then.log_e_fail,
            then.log_e_pass,
        )
    verdict = judge(tallied.tally(controlled=True), TERMS)
    last = {
        "time": tallied.last,
        "conversations": verdict.tally.seen,
        "log_e_fail": verdict.log_e_fail,
        "log_e_pass": verdict.log_e_pass,
    }
    assert points[-1] == last
    assert [one["time"] for one in points] == sorted(one["time"] for one in points)


def test_of_many_hours_some_are_shown_and_always_the_last():
    counts = [(hour, CELLS[3], 2) for hour in range(1000)]
    hourly = [Conversations(hour * HOUR, SCOPE.key, cell, n) for hour, cell, n in counts]
    points = over_time(hourly, SCOPE, total(counts), TERMS)
    assert 100 < len(points) <= MOST
    assert points[-1]["conversations"] == 2000
