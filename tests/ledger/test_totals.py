"""Sums over traffic processes never go back, whoever dies and whoever is killed while folding."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from proxy.counters import SLOTS, Counters, Slot
from proxy.ledger import totals


def test_the_living_and_the_dead_are_one_sum(tmp_path):
    living = Counters.create(tmp_path / "a.bin")
    dead = Counters.create(tmp_path / "b.bin")
    for counters, n in ((living, 3), (dead, 4)):
        counters.add(Slot.RECEIVED, n)
        counters.add(Slot.SAMPLED, n)
        counters.add(Slot.HANDED_OVER, n - 1)
        counters.add(Slot.ACKNOWLEDGED, n - 2)
        counters.add(Slot.QUEUED, 1)
        counters.add(Slot.OPEN_STREAMS, 1)
        counters.finished(0, 200, 0.4)
    dead.close()
    with totals.read(tmp_path) as before:
        seen = list(before.counters.slots)
        assert before[Slot.RECEIVED] == 7
        assert before[Slot.QUEUED] == 1
        assert before[Slot.OPEN_STREAMS] == 1
        assert before.handed_over == {"a": 1, "b": 4}  # a holds what is not acknowledged, b's queue died with it
        assert list(before.counters.requests()) == [("chat_completions", 200, 2)]
    assert totals.fold(tmp_path) == ["b"]
    assert not (tmp_path / "b.bin").exists()
    with totals.read(tmp_path) as after:
        assert list(after.counters.slots) == seen
    assert totals.handed_over(tmp_path) == {"a": 1, "b": 4}
    assert totals.fold(tmp_path) == []
    living.close()


def test_a_fold_that_was_killed_before_deleting_counts_nothing_twice(tmp_path):
    dead = Counters.create(tmp_path / "b.bin")
    dead.add(Slot.RECEIVED, 4)
    dead.add(Slot.NOT_SAMPLED, 4)
    dead.close()
    content = (tmp_path / "b.bin").read_bytes()
    totals.fold(tmp_path)
    (tmp_path / "b.bin").write_bytes(content)
    with totals.read(tmp_path) as summed:
        assert summed[Slot.RECEIVED] == 4
    assert totals.fold(tmp_path) == []
    assert not (tmp_path / "b.bin").exists()
    with totals.read(tmp_path) as summed:
        assert summed[Slot.RECEIVED] == 4


def test_a_request_caught_between_two_increments_is_not_sampled(tmp_path):
    dead = Counters.create(tmp_path / "b.bin")
    dead.add(Slot.RECEIVED, 5)
    dead.add(Slot.NOT_SAMPLED, 2)
    dead.add(Slot.SAMPLED, 2)
    dead.close()
    with totals.read(tmp_path) as summed:
        assert summed[Slot.NOT_SAMPLED] == 3
        assert summed.handed_over == {"b": 2}


def test_what_is_no_counters_file_is_left_alone(tmp_path):
    (tmp_path / "x.bin").write_bytes(b"")
    (tmp_path / "y.bin").write_bytes(b"z" * 100)
    with totals.read(tmp_path) as summed:
        assert sum(summed.counters.slots) == 0
    assert totals.fold(tmp_path) == []
    assert (tmp_path / "x.bin").exists()


@pytest.mark.parametrize("content", [b"rubbish", b"\x84"])
def test_unreadable_retired_sums_begin_again_and_say_so(tmp_path, content, caplog):
    (tmp_path / totals.RETIRED).write_bytes(content)
    with totals.read(tmp_path) as summed:
        assert sum(summed.counters.slots) == 0
    assert "count from 0 again" in caplog.text


def test_only_so_many_dead_are_remembered_by_name(tmp_path, monkeypatch):
    monkeypatch.setattr(totals, "_REMEMBERED", 3)
    for number in range(5):
        dead = Counters.create(tmp_path / f"{number}.bin")
        dead.add(Slot.HANDED_OVER, 1)
        dead.add(Slot.SAMPLED, 1)
        dead.add(Slot.RECEIVED, 1)
        dead.close()
        totals.fold(tmp_path)
    with totals.read(tmp_path) as summed:
        assert list(summed.handed_over) == ["2", "3", "4"]
        assert summed[Slot.HANDED_OVER] == 5


def test_a_process_that_was_killed_is_dead_and_loses_no_count(tmp_path, on_path):
    script = f"""
from pathlib import Path
from proxy.counters import Counters, Slot
counters = Counters.create(Path({str(tmp_path)!r}) / "k.bin")
counters.add(Slot.RECEIVED, 41)
counters.add(Slot.NOT_SAMPLED, 41)
counters.add(Slot.OPEN_STREAMS, 2)
print("ready", flush=True)
input()
"""
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True, env=on_path()
    ) as process:
        assert process.stdout.readline() == "ready\n"
        with totals.read(tmp_path) as summed:
            assert summed[Slot.OPEN_STREAMS] == 2
        assert totals.fold(tmp_path) == []
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    with totals.read(tmp_path) as summed:
        assert summed[Slot.OPEN_STREAMS] == 0
        assert summed[Slot.RECEIVED] == 41
    assert totals.fold(tmp_path) == ["k"]
    assert len(totals._load(tmp_path).slots) == SLOTS
