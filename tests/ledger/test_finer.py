"""Evidence by the minute: the same conversations as by the hour, split where every row is there."""

from __future__ import annotations

from collections import Counter

import pytest

from proxy.compare.trial import Result
from proxy.compare.verdict import Terms
from proxy.ledger import hours
from proxy.ledger.finer import growth
from proxy.ledger.grown import MOST, over_time
from proxy.ledger.record import Settlement
from proxy.ledger.tallies import Counted, Scope

SCOPE = Scope("shadow-a", "p", "s")
T = 1_700_000_000 // 3600 * 3600


def settle(store, times, *, result=Result.WORSE):
    trials = tuple(Counted(SCOPE, f"u{time}", f"p{time}", float(time), result, "genuine_flip") for time in times)
    store.settle([Settlement("i", "", "", "settled", trials=trials)])


def test_within_two_hours_each_minute_is_a_step(store):
    settle(store, [T, T + 59, T + 60, T + 3599, T + 7199])
    assert [(one.hour, one.until, one.n) for one in growth(store.read)] == [
        (T, T + 60, 2),
        (T, T + 120, 1),
        (T, T + 3600, 1),
        (T + 3600, T + 7200, 1),
    ]
    points = over_time(growth(store.read), SCOPE, store.tallies()[SCOPE], Terms())
    assert [(one["time"], one["conversations"]) for one in points] == [
        (T + 60, 2),
        (T + 120, 3),
        (T + 3600, 4),
        (T + 7199, 5),
    ]


@pytest.mark.parametrize(("span", "width"), [(2, 60), (3, 120), (24, 900), (60, 1800), (61, 3600)])
def test_the_longer_it_has_run_the_longer_the_steps(store, span, width):
    settle(store, range(T, T + span * 3600, 450))
    found = growth(store.read)
    assert {one.until % width for one in found} == {0}
    assert len({one.until for one in found}) == span * 3600 // max(width, 450)
    assert sum(one.n for one in found) == span * 8
    assert [one.until for one in found] == sorted(one.until for one in found)
    points = over_time(found, SCOPE, store.tallies()[SCOPE], Terms())
    assert len(points) <= MOST
    assert points[-1]["conversations"] == span * 8


def test_an_hour_whose_rows_are_not_all_there_stays_one_step(store):
    settle(store, [T, T + 600, T + 1200, T + 3700, T + 3800])
    with store._transaction() as connection:  # as retention by size does
        connection.execute("DELETE FROM trials WHERE time = ?", (float(T),))
    found = growth(store.read)
    assert [(one.until, one.n) for one in found] == [(T + 3600, 3), (T + 3720, 1), (T + 3840, 1)]
    by_hour = Counter({one.hour: one.n for one in hours.conversations(store.read)})
    summed: Counter[int] = Counter()
    for one in found:
        summed[one.hour] += one.n
    assert summed == by_hour


def test_what_was_lost_without_a_row_is_in_its_hour(store):
    settle(store, [T + 5])
    store.settle(
        [Settlement("i", "", "", "settled", trials=(Counted(SCOPE, "", "", float(T), Result.MISSING, "store", n=7),))]
    )
    assert sorted((one.until, one.n) for one in growth(store.read)) == [(T + 60, 1), (T + 3600, 7)]


def test_nothing_counted_is_no_step(store):
    assert growth(store.read) == []
