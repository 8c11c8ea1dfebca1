"""Hours: what each held is counted once, outlives the records, and comes with a file from an earlier version."""

from __future__ import annotations

import sqlite3
import time
from collections import Counter

import pytest
from msgspec.structs import replace

from proxy.compare.trial import Result
from proxy.ledger import hours, schema
from proxy.ledger.kinds import Kind
from proxy.ledger.record import Settlement
from proxy.ledger.store import Store
from proxy.ledger.tallies import Cell, Counted, Scope

SCOPE = Scope("shadow-a", "p", "s")
T = 1_700_000_000.0
HOUR = int(T // 3600 * 3600)


def _of(store: Store) -> dict[tuple[int, Kind], int]:
    return {(one.hour, one.kind): one.n for one in hours.records(store.read)}


def test_records_are_counted_by_the_hour_and_kind_each_once(store, make):
    batch = [make.compared(make.record(number)) for number in range(5)]
    store.settle(batch)
    store.settle(batch)  # the same again
    found = _of(store)
    assert sum(found.values()) == 5
    assert {hour for hour, _ in found} == {HOUR}
    assert {kind.shadow for _, kind in found} == {batch[0].shadow}


def test_hours_stay_when_records_go_and_end_after_their_own_time(store, make):
    store.settle([make.compared(make.record(number)) for number in range(5)])
    store.purge(T + 3600, 0.0, 1 << 40)
    assert list(store.records()) == []
    assert sum(_of(store).values()) == 5
    store.purge(T + (hours.KEPT_HOURS + 2) * 3600, 0.0, 1 << 40)
    assert _of(store) == {}
    assert store.read("SELECT COUNT(*) FROM kinds") == [(0,)]


def test_conversations_are_counted_by_the_hour_as_the_sums_count_them(store):
    trials = [
        Counted(SCOPE, f"u{n}", f"p{n}", T + n * 1800, result, by, n=1)
        for n, (result, by) in enumerate(
            [(Result.NEITHER, ""), (Result.WORSE, "text"), (Result.NEITHER, ""), (Result.NEITHER, "")]
        )
    ]
    trials.append(Counted(SCOPE, "", "", T, Result.MISSING, "store", n=7))
    store.settle([Settlement("i", "", "", "settled", trials=tuple(trials))])
    store.settle([Settlement("i", "", "", "settled", trials=tuple(trials[:4]))])  # counted before
    found = hours.conversations(store.read)
    summed: Counter[Cell] = Counter()
    for one in found:
        assert one.scope == SCOPE.key
        summed[one.cell] += one.n
    assert summed == {cell: one.n for cell, one in store.tallies()[SCOPE].cells.items()}
    assert [one.hour for one in found] == sorted(one.hour for one in found)
    assert {one.hour for one in found} == {HOUR, HOUR + 3600}


def test_a_file_lost_under_way_keeps_the_hours_of_the_last_week(url, make):
    now = time.time()
    with Store.open(url) as store:
        old = [make.compared(make.record(number)) for number in range(3)]  # of years ago
        new = [make.compared(make.record(number, time=now)) for number in range(10, 14)]
        trial = Counted(SCOPE, "u", "p", now, Result.WORSE, "text")
        store.settle([*old, *new, Settlement("i", "", "", "settled", trials=(trial,))])
        before = {key: n for key, n in _of(store).items() if key[0] > now - 7200}
        store.path.unlink()
        store._look_at = 0.0
        store.settle([make.compared(make.record(20, time=now))])
        after = _of(store)
        assert sum(before.values()) == 4
        assert sum(after.values()) == 5
        assert before.keys() <= after.keys()
        assert [one.n for one in hours.conversations(store.read)] == [1]


@pytest.mark.parametrize("models", [3, 60])
def test_a_file_of_the_version_before_has_its_rows_counted_and_listed(url, make, models):
    with Store.open(url) as store:
        for number in range(240):
            store.settle([make.compared(make.record(number, model=f"m{number % models}"))])
        store.settle([Settlement("i", "", "", "settled", trials=(Counted(SCOPE, "u", "p", T, Result.WORSE, "text"),))])
        expected = Counter({key[0]: 0 for key in _of(store)})
        for (hour, _), n in _of(store).items():
            expected[hour] += n
        findings = store.read("SELECT finding, seq FROM found ORDER BY 1, 2")
        listed = store.read("SELECT seq, time FROM listed ORDER BY seq")
        path = store.path
    with sqlite3.connect(path) as connection:  # back to what version 3 was
        for name in ("kinds", "listed", "found", "details", "record_hours", "trial_hours"):
            connection.execute(f"DROP TABLE {name}")
        connection.execute("DROP TRIGGER records_gone")
        connection.execute("CREATE INDEX records_by_arm ON records (shadow, mode, class, seq)")
        connection.execute("UPDATE schema_version SET version = 3")
    connection.close()
    with Store.open(url) as store:
        assert store.read("SELECT version FROM schema_version")[0][0] == schema.VERSION
        summed: Counter[int] = Counter()
        for (hour, _), n in _of(store).items():
            summed[hour] += n
        assert summed == expected
        assert store.read("SELECT finding, seq FROM found ORDER BY 1, 2") == findings
        assert store.read("SELECT seq, time FROM listed ORDER BY seq") == listed
        assert [one.n for one in hours.conversations(store.read)] == [1]
        seen = {model for (model,) in store.read("SELECT DISTINCT model FROM kinds")}
        assert len(seen) == (models if models < 50 else 51)
        store.settle([make.compared(make.record(1000, model="m0"))])
        assert len(store.read("SELECT DISTINCT model FROM kinds")) == len(seen)


def test_models_past_a_bound_are_one_kind(store, make):
    store.settle([make.compared(make.record(number, model=f"m{number}")) for number in range(200)])
    models = {kind.model for _, kind in _of(store)}
    assert len(models) == 51
    assert "other" in models
    assert {one.model for one in store.records()} == {f"m{number}" for number in range(200)}


def test_nothing_of_a_record_is_left_when_it_is_purged(store, make):
    store.settle(
        [make.compared(make.record(number, replace(make.free(), findings=("bos_twice",)))) for number in range(100)]
    )
    store._connection.execute("INSERT INTO details SELECT seq, x'00' FROM records")
    store.purge(T + 50, 0.0, 1 << 40)
    left = store.read("SELECT COUNT(*) FROM records")
    assert 0 < left[0][0] < 100
    for table in ("listed", "details", "found"):
        assert store.read(f"SELECT COUNT(*) FROM {table}") == left
