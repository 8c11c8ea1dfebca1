"""Counters of one traffic process in a memory-mapped file: an increment is one list store, and a SIGKILL loses nothing.

House rules. A file has one writer (the process that made it, its *incarnation*) and any number of readers, but for the two slots by which the judge
acknowledges what it has taken and says what it holds (``Receipt``); a slot is a signed 64-bit integer written whole. The writer holds a lock on its file for as long as it lives, so that anybody can tell a dead incarnation
from a living one, whatever killed it. Nothing here knows a metric name or Prometheus: the ledger declares what the slots mean to the outside.
The layout is fixed by ``LAYOUT``; a file of another layout is refused, never misread.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
from bisect import bisect_left
from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path

MAGIC = b"PARHCNT1"
_HEADER = struct.Struct("<8sqq")  # magic, layout version, number of slots
LAYOUT = 1

#: Route classes of the live path (label ``endpoint``), bounded by construction.
ENDPOINTS = (
    "chat_completions", "completions", "responses", "messages", "embeddings",
    "rerank", "score", "tokenize", "models", "other",
)  # fmt: skip

#: Upper edges in seconds. Duration and first-token edges are vLLM's, so that panels of both overlay.
DURATION_EDGES = (
    0.3,
    0.5,
    0.8,
    1.0,
    1.5,
    2.0,
    2.5,
    5.0,
    10.0,
    15.0,
    20.0,
    30.0,
    40.0,
    50.0,
    60.0,
    120.0,
    240.0,
    480.0,
    960.0,
    1920.0,
    7680.0,
)
#: Our own share of a request, from microseconds to seconds.
OVERHEAD_EDGES = (1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 0.1, 0.5)


class Slot(IntEnum):
    """Single counters. RECEIVED = NOT_SAMPLED + SAMPLED + OFFERED; OFFERED are those whose rule needs the body, settled by the judge.

    HANDED_OVER counts exchanges whose first byte went to a judge; SHED_QUEUE those dropped because the hand-over queue
    was full, SHED_CAPTURE those over the capture limit; QUEUED (a gauge) those still waiting in this process.
    QUEUED_BYTES is what they take, with what was handed over and is not acknowledged: what the hand-over's limit bounds beside open captures.
    SAMPLED + OFFERED = SHED_* + QUEUED + HANDED_OVER + those whose reply is still open (OPEN_SAMPLED, a gauge).
    INJECTED counts requests sent with logprobs on our account, INJECT_REFUSED those of them that were refused and sent again as they came.
    ACKNOWLEDGED, written by the judge, counts those that it has in its hands: what was handed over beyond it is handed over again to the next judge.
    JUDGE_BYTES (a gauge), written by the judge too, is this process's part of what the judge holds in memory: it counts against the same limit.
    The gauges (OPEN_*, QUEUED*, CLIENT_CONNECTIONS) of a process that is gone stand for what it lost.
    """

    RECEIVED = 0
    NOT_SAMPLED = 1
    SAMPLED = 2
    OFFERED = 3
    OPEN_SAMPLED = 4
    QUEUED = 5
    QUEUED_BYTES = 6
    HANDED_OVER = 7
    SHED_QUEUE = 8
    SHED_CAPTURE = 9
    CLIENT_DISCONNECTS = 10
    OPEN_STREAMS = 11
    REFUSED_HEADS = 12
    PRIMARY_UNREACHABLE = 13
    CLIENT_CONNECTIONS = 14
    OPTED_OUT = 15
    INJECTED = 16
    INJECT_REFUSED = 17
    ACKNOWLEDGED = 18
    JUDGE_BYTES = 19


_ACKNOWLEDGED, _JUDGE_BYTES = int(Slot.ACKNOWLEDGED), int(Slot.JUDGE_BYTES)
_SINGLE = 64  # room to grow without a new layout
_CODES = 600
_REQUESTS = _SINGLE
_DURATIONS = _REQUESTS + len(ENDPOINTS) * _CODES
_DURATION_WIDTH = len(DURATION_EDGES) + 2  # buckets, +Inf, sum in microseconds
_OVERHEADS = _DURATIONS + len(ENDPOINTS) * _DURATION_WIDTH
_OVERHEAD_WIDTH = len(OVERHEAD_EDGES) + 2
_FIRST_DURATION = DURATION_EDGES[0]
SLOTS = _OVERHEADS + _OVERHEAD_WIDTH


def is_alive(path: Path) -> bool:
    """Whether the writer of this file still runs. Raises OSError when there is no such file."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


class Receipt:
    """ACKNOWLEDGED and JUDGE_BYTES in the file of a traffic process, for the judge to write: a store into shared memory, so that nobody is woken for it.

    Raises OSError, or ValueError when the file is not of this layout.
    """

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            if os.fstat(file.fileno()).st_size != _HEADER.size + SLOTS * 8:
                raise ValueError(f"{path} is not a counters file of layout {LAYOUT}")
            self._memory = mmap.mmap(file.fileno(), 0)
        self._slots = memoryview(self._memory)[_HEADER.size :].cast("q")

    @property
    def count(self) -> int:
        """How many have been acknowledged."""
        return self._slots[_ACKNOWLEDGED]

    @count.setter
    def count(self, value: int) -> None:
        self._slots[_ACKNOWLEDGED] = value

    def holding(self, size: int) -> None:
        """Say what part of the judge's memory counts against this process's limit."""
        self._slots[_JUDGE_BYTES] = size

    def close(self) -> None:
        """Let the mapping go."""
        self._slots.release()
        self._memory.close()


class Counters:
    """The slots of one incarnation; ``create`` for the writer, ``attach`` for a reader."""

    def __init__(self, path: Path, memory: mmap.mmap, descriptor: int | None = None) -> None:
        self.path = path
        self._memory = memory
        self._descriptor = descriptor  # the writer's, open for the sake of its lock
        self.slots = memoryview(memory)[_HEADER.size :].cast("q")

    @classmethod
    def create(cls, path: Path) -> Counters:
        """Make the file anew, all zero. Raises OSError."""
        size = _HEADER.size + SLOTS * 8
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, size)
            memory = mmap.mmap(descriptor, size)
        except BaseException:
            os.close(descriptor)
            raise
        memory[: _HEADER.size] = _HEADER.pack(MAGIC, LAYOUT, SLOTS)
        return cls(path, memory, descriptor)

    @classmethod
    def attach(cls, path: Path) -> Counters:
        """Read somebody's file. Raises OSError, or ValueError when it is not of this layout."""
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size != _HEADER.size + SLOTS * 8:
                raise ValueError(f"{path} is not a counters file of layout {LAYOUT}")
            memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        if _HEADER.unpack(memory[: _HEADER.size]) != (MAGIC, LAYOUT, SLOTS):
            memory.close()
            raise ValueError(f"{path} is not a counters file of layout {LAYOUT}")
        return cls(path, memory)

    def close(self) -> None:
        """Let the mapping (and, for the writer, the lock) go; the file stays."""
        self.slots.release()
        self._memory.close()
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __getitem__(self, slot: int) -> int:
        return self.slots[slot]

    def add(self, slot: int, amount: int = 1) -> None:
        """Add to one slot."""
        self.slots[slot] += amount

    def finished(self, endpoint: int, code: int, seconds: float) -> None:
        """Count one answered request: its route class (index into ENDPOINTS), status code and duration."""
        slots = self.slots
        slots[_REQUESTS + endpoint * _CODES + (code if 0 <= code < _CODES else 0)] += 1
        base = _DURATIONS + endpoint * _DURATION_WIDTH
        slots[base if seconds <= _FIRST_DURATION else base + bisect_left(DURATION_EDGES, seconds)] += 1
        slots[base + _DURATION_WIDTH - 1] += int(seconds * 1e6)

    def overhead(self, seconds: float) -> None:
        """Count the time a request spent in our own code before its head went to the primary."""
        slots = self.slots
        slots[_OVERHEADS + bisect_left(OVERHEAD_EDGES, seconds)] += 1
        slots[_OVERHEADS + _OVERHEAD_WIDTH - 1] += int(seconds * 1e6)

    def requests(self) -> Iterator[tuple[str, int, int]]:
        """Yield (endpoint, code, count) of every non-zero pair."""
        for number, endpoint in enumerate(ENDPOINTS):
            base = _REQUESTS + number * _CODES
            for code in range(_CODES):
                if count := self.slots[base + code]:
                    yield endpoint, code, count

    def duration_buckets(self, endpoint: int) -> tuple[list[int], float]:
        """Non-cumulative bucket counts (last: +Inf) and the sum in seconds."""
        base = _DURATIONS + endpoint * _DURATION_WIDTH
        return list(self.slots[base : base + _DURATION_WIDTH - 1]), self.slots[base + _DURATION_WIDTH - 1] / 1e6

    def overhead_buckets(self) -> tuple[list[int], float]:
        """Non-cumulative bucket counts (last: +Inf) and the sum in seconds."""
        return list(self.slots[_OVERHEADS : _OVERHEADS + _OVERHEAD_WIDTH - 1]), self.slots[SLOTS - 1] / 1e6
