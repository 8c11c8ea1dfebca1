"""What is acknowledged stays, what is counted is counted once, and every failure has a name."""

from __future__ import annotations

import logging
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings

from proxy.compare.comparison import Comparison, FlipClass, Mode
from proxy.ledger.events import Event
from proxy.ledger.query import Filter
from proxy.ledger.record import Record, Settlement, shed_of
from proxy.ledger.store import Arm, Key, Store
from proxy.ledger.store_error import StoreError

FREE = Arm("candidate", "free")


def shed(reason: str, incarnation: str = "i1", shadow: str = "candidate", mode: str = "free") -> Settlement:
    return Settlement(incarnation, shadow, mode, "shed", reason)


def test_a_batch_is_counted_and_kept(store, make):
    one, two = make.record(1), make.record(2, make.free(FlipClass.GENUINE))
    store.settle([make.compared(one), make.compared(two), shed("queue"), shed("queue")])
    assert store.counts() == {Key(*FREE, "compared", ""): 2, Key(*FREE, "shed", "queue"): 2}
    assert store.record(one.id) == one
    assert list(store.records()) == [one, two]
    assert store.record("nothing") is None


def test_the_same_record_counts_once_within_a_batch_and_across(store, make):
    one = make.compared(make.record(1))
    store.settle([one, one])
    store.settle([one])
    assert store.counts() == {Key(*FREE, "compared", ""): 1}
    assert len(list(store.records())) == 1


def test_state_travels_with_the_batch(store):
    store.settle([shed("queue")], state={"near_tie": b"\x01"})
    store.settle([], state={"near_tie": b"\x02"})
    assert store.get_state("near_tie") == b"\x02"
    assert store.get_state("other") is None


def test_settled_counts_every_outcome_and_what_a_rule_declined(store, make):
    store.settle(
        [make.compared(make.record(1)), shed("queue"), shed("queue", "i2"), Settlement("i1", "", "", "not_sampled")]
    )
    assert store.settled("i1") == {FREE: 3}
    assert store.settled("i2") == {FREE: 1}
    assert store.settled("i3") == {}


def test_reasons_are_bounded_and_stay_bounded_after_reopening(url):
    with Store.open(url) as store:
        store.settle([shed(f"reason_{number}") for number in range(100)])
        store.settle([shed("Not A Reason\n")])
    with Store.open(url) as store:
        store.settle([shed("reason_1"), shed("one_more")])
        counts = {key.reason: n for key, n in store.counts().items()}
    assert len(counts) == 65
    assert counts["reason_1"] == 2
    assert counts["other"] == 100 - 64 + 1 + 1


@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [
        (Filter(), [1, 2, 3, 4]),
        (Filter(newest_first=True), [4, 3, 2, 1]),
        (Filter(limit=2), [1, 2]),
        (Filter(after="00000002"), [3, 4]),
        (Filter(after="00000003", newest_first=True, limit=1), [2]),
        (Filter(since=1_700_000_002.0, until=1_700_000_004.0), [2, 3]),
        (Filter(shadow="control"), [4]),
        (Filter(mode="forced"), [3]),
        (Filter(model="m2"), [4]),
        (Filter(outcome="identical"), [1]),
        (Filter(outcome="incomparable"), [4]),
        (Filter(difference="genuine"), [3]),
        (Filter(difference="exact_tie"), [2]),
        (Filter(finding="stop_handling"), [2]),
        (Filter(finding="stop"), []),
        (Filter(exchange="x3"), [3]),
        (Filter(endpoint="completions"), []),
        (Filter(shadow="' OR 1 = 1 --"), []),
    ],
)
def test_filters(store, make, wanted, numbers):
    kept = [
        make.record(1),
        make.record(2, make.free(FlipClass.EXACT_TIE, findings=("output_length", "stop_handling"))),
        make.record(3, make.forced(FlipClass.NEAR_TIE, FlipClass.GENUINE)),
        make.record(4, Comparison(mode=Mode.FREE, incomparable="token_count"), shadow="control", model="m2"),
    ]
    store.settle([make.compared(one) for one in kept])
    assert [int(found.id, 16) for found in store.records(wanted)] == numbers


def test_more_records_than_one_batch_come_whole_and_in_order(store, make):
    store.settle([make.compared(make.record(number)) for number in range(1201)])
    assert [int(one.id, 16) for one in store.records()] == list(range(1201))
    assert len(list(store.records(Filter(limit=700)))) == 700


def test_a_record_that_is_gone_cannot_be_continued_from(store):
    with pytest.raises(KeyError):
        list(store.records(Filter(after="gone")))


def test_a_row_that_cannot_be_read_is_left_out_and_said(store, make, caplog):
    store.settle([make.compared(make.record(1)), make.compared(make.record(2))])
    store._connection.execute("UPDATE records SET body = x'c1' WHERE seq = 1")
    with caplog.at_level(logging.WARNING, "parhelion.store"):
        assert [one.id for one in store.records()] == ["00000002"]
    assert "cannot be read" in caplog.text


def test_a_record_that_cannot_be_encoded_is_counted_all_the_same(store, make, caplog):
    store.settle([make.compared(make.record(1, model="\ud800")), make.compared(make.record(2))])
    assert store.counts() == {Key(*FREE, "compared", ""): 2}
    assert [one.id for one in store.records()] == ["00000002"]
    assert "counted only" in caplog.text


def test_footprints_and_events(store):
    store.put_footprint("f1", {"engine": "vllm", "tp": 1}, 1.0)
    store.put_footprint("f1", {"engine": "other"}, 2.0)
    assert store.footprint("f1") == {"engine": "vllm", "tp": 1}
    assert store.footprint("f2") is None
    store.add_event(Event(1.0, "judge_started", {}))
    store.add_event(Event(2.0, "footprint_changed", {"arm": "candidate"}))
    assert store.events(since=1.5) == [Event(2.0, "footprint_changed", {"arm": "candidate"})]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("forget_spooled", lambda store: store.forget_spooled(1, 2)),
        ("take_footprint", lambda store: store.put_footprint("f1", {}, 1.0)),
        ("take", lambda store: store.settle([shed("queue")])),
    ],
)
def test_what_is_held_in_memory_changes_under_the_lock_of_the_file(store, monkeypatch, name, change):
    free: list[bool] = []

    def look(*_: object) -> None:
        def attempt() -> None:
            if store._lock.acquire(blocking=False):
                store._lock.release()
                free.append(True)
            else:
                free.append(False)

        thread = threading.Thread(target=attempt)
        thread.start()
        thread.join(10)

    monkeypatch.setattr(store._kept, name, look)
    change(store)
    assert free == [False]


def test_purge_by_age_and_by_size_keeps_the_counts(store, make):
    store.settle([make.compared(make.record(number)) for number in range(1000)])
    counts = store.counts()
    now = 1_700_000_000.0 + 1000
    assert store.purge(now, keep=500.0, max_bytes=1 << 40) == 500
    assert next(store.records()).id == f"{500:08x}"
    used = store.used_bytes()
    assert store.purge(now, keep=1e9, max_bytes=used // 2) > 0
    assert store.used_bytes() <= used // 2
    assert store.path.stat().st_size <= used
    left = [int(one.id, 16) for one in store.records()]
    assert left
    assert left == list(range(left[0], 1000))
    assert store.counts() == counts


def test_a_long_purge_lets_others_write_and_says_how_far_it_is(store, make):
    store.settle([make.compared(make.record(number)) for number in range(5000)])
    other = sqlite3.connect(store.path, timeout=0, isolation_level=None)
    told: list[int] = []

    def hear(records: int) -> None:
        told.append(records)
        other.execute("INSERT OR REPLACE INTO state VALUES ('other', ?)", (b"%d" % len(told),))  # it waits for nobody

    assert store.purge(1_700_000_000.0 + 4500, keep=0.0, max_bytes=1 << 40, told=hear) == 4500
    assert sum(told) == 4500
    assert len(told) >= 4
    assert store.get_state("other") == b"%d" % len(told)
    other.close()
    assert store.read("PRAGMA freelist_count") == [(0,)]
    assert [int(one.id, 16) for one in store.records()] == list(range(4500, 5000))


def test_a_file_over_its_bound_is_known_before_the_next_purge(store, make):
    assert not store.over(1 << 20)
    for batch in range(40):
        store.settle([make.compared(make.record(batch * 100 + number)) for number in range(100)])
    journal = store.path.with_name(store.path.name + "-wal")
    size = store.path.stat().st_size + journal.stat().st_size
    assert store.over(int(size / 1.11))
    assert not store.over(int(size / 1.09))
    assert store.purge(0.0, keep=1e12, max_bytes=size // 2) > 0
    assert not store.over(size // 2)
    assert store.path.stat().st_size + journal.stat().st_size <= size // 2


def test_the_journal_is_cut_back_when_a_reader_lets_it(store, url, make):
    journal = store.path.with_name(store.path.name + "-wal")
    blob = {f"key{number}": b"x" * (1 << 20) for number in range(24)}
    with Store.open_read_only(url) as reader:
        reader._connection.execute("BEGIN")
        reader.counts()  # from now on the journal must keep everything
        store.settle([], state=blob)
        assert journal.stat().st_size > 24 << 20
        reader._connection.execute("COMMIT")
    for number in range(3):
        store.settle([make.compared(make.record(number))], state=blob if number == 0 else {})
    assert journal.stat().st_size <= 25 << 20
    store.purge(0.0, keep=1e12, max_bytes=1 << 40)
    assert journal.stat().st_size == 0


def test_purge_ends_when_nothing_is_left_to_delete(store, make):
    store.settle([make.compared(make.record(1))])
    assert store.purge(0.0, keep=1e12, max_bytes=1) == 1


def test_reconcile_counts_what_a_dead_judge_took_with_it(store, make):
    arms = [FREE, Arm("candidate", "forced")]
    assert store.reconcile({}, arms) == {}
    store.settle([make.compared(make.record(1)), Settlement("i1", "", "", "not_sampled")])
    missing = store.reconcile({"i1": 5, "i0": 0}, [*arms, Arm("late", "free")])
    assert missing == {("i1", FREE): 3, ("i1", arms[1]): 4, ("i1", Arm("late", "free")): 4}
    counts = store.counts()
    assert counts[Key(*FREE, "shed", "lost_on_crash")] == 3
    assert counts[Key("candidate", "forced", "shed", "lost_on_crash")] == 4
    assert counts[Key("late", "free", "shed", "not_configured")] == 4
    assert store.reconcile({"i1": 5, "i0": 0}, [*arms, Arm("late", "free")]) == {}


def test_reconcile_says_when_the_store_is_younger_than_the_traffic(store):
    assert store.reconcile({"i1": 7}, [FREE]) == {("i1", FREE): 7}
    assert store.counts() == {Key(*FREE, "shed", "store_replaced"): 7}


def test_shed_of_keeps_what_needs_no_record(make):
    batch = [make.compared(make.record(1)), shed("queue"), Settlement("i1", "", "", "sampled")]
    assert shed_of(batch) == [shed("store"), shed("queue"), Settlement("i1", "", "", "sampled")]


def test_a_reader_beside_the_writer_sees_whole_batches(url, make):
    stop = threading.Event()
    seen: list[tuple[int, int]] = []

    def read() -> None:
        with Store.open_read_only(url) as reader:
            last = False
            while not last:
                last = stop.is_set()
                records = len(list(reader.records()))
                seen.append((records, reader.counts().get(Key(*FREE, "compared", ""), 0)))

    with Store.open(url) as store:
        thread = threading.Thread(target=read)
        thread.start()
        for batch in range(20):
            store.settle([make.compared(make.record(batch * 10 + number)) for number in range(10)])
        stop.set()
        thread.join(30)
    assert not thread.is_alive()
    assert seen[-1] == (200, 200)
    for records, counted in seen:
        assert records % 10 == 0
        assert records <= counted <= 200


def test_a_reader_cannot_write(url, make):
    Store.open(url).close()
    with Store.open_read_only(url) as reader, pytest.raises(StoreError) as caught:
        reader.settle([make.compared(make.record(1))])
    assert caught.value.reason == "read_only"


def test_nothing_acknowledged_is_lost_to_a_sigkill(url, on_path):
    script = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from conftest import compared, record
from proxy.ledger.store import Store
store = Store.open({url!r})
for number in range(100000):
    store.settle([compared(record(2 * number)), compared(record(2 * number + 1))])
    sys.stdout.write(f"{{number}}\\n")
    sys.stdout.flush()
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=on_path()) as writer:
        acknowledged = [int(writer.stdout.readline()) for _ in range(50)]
        os.kill(writer.pid, signal.SIGKILL)
        acknowledged += [int(line) for line in writer.stdout if line.endswith("\n")]
    last = acknowledged[-1]
    with Store.open(url) as store:
        numbers = [int(one.id, 16) for one in store.records()]
        assert numbers == list(range(len(numbers)))  # no gap, no double
        assert len(numbers) % 2 == 0  # batches whole
        assert 2 * last + 2 <= len(numbers) <= 2 * last + 4
        assert store.counts() == {Key(*FREE, "compared", ""): len(numbers)}


def test_any_record_comes_back_as_it_was(make, tmp_path):
    with Store.open(f"sqlite:///{tmp_path}/any.db") as store:

        @given(make.anything(Record))
        @settings(max_examples=60, deadline=None)
        def comes_back(one: Record) -> None:
            before = store.record(one.id)
            store.settle([make.compared(one)])
            assert store.record(one.id) == (before or one)

        comes_back()
