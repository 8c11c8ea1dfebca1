"""Counters files: what one process writes, any other reads, whatever becomes of the writer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from proxy.counters import DURATION_EDGES, ENDPOINTS, Counters, Slot, is_alive


def test_a_reader_sees_what_the_writer_wrote(tmp_path: Path) -> None:
    path = tmp_path / "t0.bin"
    writer = Counters.create(path)
    reader = Counters.attach(path)
    writer.add(Slot.RECEIVED)
    writer.add(Slot.SAMPLED, 5)
    writer.finished(ENDPOINTS.index("models"), 200, 0.4)
    writer.finished(ENDPOINTS.index("models"), 200, 1e9)
    writer.overhead(3e-5)
    assert reader[Slot.RECEIVED] == 1
    assert reader[Slot.SAMPLED] == 5
    assert list(reader.requests()) == [("models", 200, 2)]
    buckets, seconds = reader.duration_buckets(ENDPOINTS.index("models"))
    assert buckets == [0, 1, *[0] * (len(DURATION_EDGES) - 2), 1]
    assert seconds == pytest.approx(1e9 + 0.4)
    assert reader.overhead_buckets()[1] == pytest.approx(3e-5)
    reader.close()
    writer.close()


def test_a_value_on_an_edge_belongs_below_it(tmp_path: Path) -> None:
    """Prometheus buckets are `le`: less than or equal."""
    writer = Counters.create(tmp_path / "t0.bin")
    writer.finished(0, 200, DURATION_EDGES[0])
    assert writer.duration_buckets(0)[0][0] == 1
    writer.close()


def test_a_file_of_another_layout_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t0.bin"
    Counters.create(path).close()
    path.write_bytes(b"X" * path.stat().st_size)
    with pytest.raises(ValueError, match="layout"):
        Counters.attach(path)
    path.write_bytes(b"short")
    with pytest.raises(ValueError, match="layout"):
        Counters.attach(path)


def test_an_incarnation_is_never_written_over(tmp_path: Path) -> None:
    Counters.create(tmp_path / "t0.bin").close()
    with pytest.raises(FileExistsError):
        Counters.create(tmp_path / "t0.bin")


def test_a_killed_writer_is_seen_dead_and_its_counts_stay(tmp_path: Path) -> None:
    path = tmp_path / "t0.bin"
    script = (
        "import sys, time, pathlib; from proxy.counters import Counters, Slot\n"
        f"c = Counters.create(pathlib.Path({str(path)!r})); c.add(Slot.RECEIVED, 41); print('up', flush=True); time.sleep(60)"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])},
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"up\n"
    assert is_alive(path)
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    assert not is_alive(path)
    reader = Counters.attach(path)
    assert reader[Slot.RECEIVED] == 41
    reader.close()
