"""Goal 14: what counting takes on the path of a request, and what a scrape takes from the processes that answer clients."""

from __future__ import annotations

import asyncio
import tempfile
import time
import timeit
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

from proxy.counters import Counters, Slot
from tests.bench import processes
from tests.bench.native import Work, load
from tests.bench.payloads import json_reply, request
from tests.bench.peers import parhelion
from tests.bench.ratio import Verdict
from tests.bench.stand import Stand
from tests.bench.table import Result
from tests.wire.judge import judging
from tests.wire.proxied import proxied

_REQUESTS, _SCRAPES, _TIMED = 200, 100, 10_000
#: What counts on the path, called as the path calls it.
_WAYS: dict[str, Callable[[Counters], None]] = {
    "add": lambda counters: counters.add(Slot.RECEIVED),
    "finished": lambda counters: counters.finished(0, 200, 0.7),
    "overhead": lambda counters: counters.overhead(0.0003),
}


def cost(stand: Stand) -> Iterator[Result]:
    """Goal 14: what counting a mirrored request takes; what a scrape takes from the live path."""
    stand.engine.answer(json_reply(1300))
    with tempfile.TemporaryDirectory(dir=stand.folder) as folder:
        calls = asyncio.run(_calls(stand, Path(folder)))
        counters = Counters.create(Path(folder) / "timed.bin")
        bare = _timed(lambda _: None, counters)
        each = {name: _timed(way, counters) - bare for name, way in _WAYS.items()}
        counters.close()
    micros = sum(calls[name] / _REQUESTS * each[name] for name in _WAYS) * 1e6
    verdict = Verdict.VOID if not calls else Verdict.MET if micros <= 1 else Verdict.NOT_MET
    note = ", ".join(f"{calls[name] / _REQUESTS:.1f} {name} of {each[name] * 1e9:.0f} ns" for name in _WAYS)
    yield Result(14, "counting, a mirrored request", "<= 1 us", verdict, figure=f"{micros:.2f} us", note=note)
    yield _scrape(stand)


def _timed(way: Callable[[Counters], None], counters: Counters) -> float:
    """Seconds of this thread that a call takes, the best of some."""
    clock = time.thread_time
    return min(timeit.repeat(lambda: way(counters), timer=clock, number=_TIMED, repeat=9)) / _TIMED


async def _calls(stand: Stand, folder: Path) -> Counter[str]:
    """Calls of each way over ``_REQUESTS`` mirrored requests."""
    calls: Counter[str] = Counter()

    def noting(name: str) -> Callable[..., None]:
        real = getattr(Counters, name)

        def noted(counters: Counters, *args: float) -> None:
            calls[name] += 1
            real(counters, *args)

        return noted

    async with (
        judging(folder),
        proxied(f"http://127.0.0.1:{stand.engine.port['primary']}", folder) as proxy,
    ):
        work = Work(request(1024), connections=4, seconds=20, requests=_REQUESTS)
        with mock.patch.multiple(Counters, **{name: noting(name) for name in _WAYS}):
            took = await asyncio.to_thread(load, proxy.address[1], work)
    assert took["done"] == _REQUESTS, took
    return calls


def _scrape(stand: Stand) -> Result:
    """A stall takes processor time of the process that stalls; what the live path uses while it is scraped and asked nothing else bounds it."""
    peer = stand.peer(parhelion.all_mirrored)
    assert peer is not None
    processes.settled(peer.pid)

    def used(ask: Callable[[], object]) -> float:
        before = processes.own_cpu(peer.live)
        for _ in range(_SCRAPES):
            ask()
            time.sleep(0.01)
        return processes.own_cpu(peer.live) - before

    scraped = used(lambda: peer.metric("parhelion_received_total"))
    rested = used(lambda: time.sleep(0.01))
    each = max(0.0, scraped - rested) / _SCRAPES * 1e6
    verdict = Verdict.MET if each <= 1000 else Verdict.NOT_MET
    return Result(14, "CPU of the live path a scrape", "<= 1000 us", verdict, figure=f"{each:.1f} us")
