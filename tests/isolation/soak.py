"""Clients that come steadily for long while the shadow hangs (row 11), and what the processes hold the while.

A judge that leaks nothing still grows at first, to bounds that are small and reached early, so that the last third is flat:

- until the first calls pass their deadline nothing makes room, and what comes waits in the queue (``queue_bytes``); the allocator keeps some of that;
- the page cache of SQLite fills to ``proxy.ledger.store_file.CACHE_BYTES``, by what is recorded: a record each four seconds, some 2 KB a second;
- the numbers of what is settled are held until their spool file goes: 16 MiB a file, which is some thousands of exchanges of 100 bytes;
- CPython and msgspec keep freed tuples and structs for the next ones, 2,000 of each short length.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import uvloop

from proxy.demo.proxy_process import ProxyProcess
from tests.isolation import load
from tests.isolation.stage import Processes, Sick, descriptors, resident, settled, threads

_CLIENTS = 8
CORPUS = (
    *load.CORPUS,
    load.chat("a long question " * 1500, stream=False),
    load.chat("and another " * 1500, stream=True),
)


@dataclass
class Held:
    """What one process held, looked at regularly: seconds since the start, bytes, descriptors, threads."""

    rows: list[tuple[float, int, int, int]] = field(default_factory=list)

    def look(self, at: float, pid: int) -> None:
        self.rows.append((at, resident(pid), descriptors(pid), threads(pid)))

    @property
    def peak(self) -> int:
        return max(row[1] for row in self.rows)

    def risen(self) -> float:
        """Bytes by which memory rose over the last third, by least squares."""
        return rise([(at, size) for at, size, _, _ in self.rows[len(self.rows) * 2 // 3 :]])


def rise(points: Sequence[tuple[float, float]]) -> float:
    """What a line through the points rises by from the first to the last."""
    mean_x, mean_y = (sum(axis) / len(points) for axis in zip(*points, strict=True))
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread * (points[-1][0] - points[0][0])


async def steadily(
    url: str, wanted: Sequence[load.Said], tally: load.Tally, per_second: float, over: Callable[[], bool]
) -> None:
    """A few clients that together ask so many requests a second, until it is over; then their connections are closed."""
    numbers = itertools.count()

    async def work() -> None:
        caller = load.Caller(load.address_of(url))
        try:
            while not over():
                await load.one(caller, next(numbers) % len(CORPUS), CORPUS, wanted, tally)
                await asyncio.sleep(_CLIENTS / per_second)
        finally:
            caller.close()

    async with asyncio.TaskGroup() as group:
        for _ in range(_CLIENTS):
            group.create_task(work())


@dataclass
class Hung:
    """Row 11: what came of it."""

    tally: load.Tally
    held: dict[str, Held]
    ended: dict[str, int]
    received: int


def hang(proxy: ProxyProcess, primary: Sick, shadow: Sick, seconds: float, per_second: float) -> Hung:
    """The shadow hangs all the while; memory is looked at once a second."""
    wanted = uvloop.run(load.expect(primary.url, CORPUS))
    shadow.become("hang")
    processes, tally = Processes(proxy), load.Tally()
    pids = {"supervisor": processes.supervisor, **{role: processes.pid(role) for role in ("traffic", "judge")}}
    held = {role: Held() for role in pids}
    began = time.monotonic()

    async def look() -> None:
        while (at := time.monotonic() - began) < seconds:
            for role, pid in pids.items():
                held[role].look(at, pid)
            await asyncio.sleep(1.0)

    async def main() -> None:
        def over() -> bool:
            return time.monotonic() - began >= seconds

        async with asyncio.TaskGroup() as group:
            group.create_task(look())
            group.create_task(steadily(proxy.clients, wanted, tally, per_second, over))

    uvloop.run(main())
    shadow.become("refuse")  # what hangs is cut, so that all is settled without waiting for deadlines
    seen = settled(proxy, tally.asked, 90)
    return Hung(tally, held, seen.ended("cand"), tally.asked)
