"""Row 3: what being in the path adds, and what mirroring adds to that: ``python -m tests.isolation.latency [--requests N] [--realtime]``.

The same requests go to the same engine directly, through a proxy that mirrors nothing, one that mirrors 5 % and one that mirrors everything, in short blocks in turn, one
request at a time with a pause after each. Differences of medians and of 99th percentiles of the time to the first byte are printed, in milliseconds.
``--realtime`` (for root) lets the client, the engine and the traffic processes go before whatever else the machine does; judges and shadow stay as they are.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import uvloop

from tests.isolation import load
from tests.isolation.stage import Processes, arms, sick
from tests.running import parhelion

_BLOCK = 25
_PAUSE = 0.003
RATES = {"mirror off": 0.0, "mirror 5 %": 0.05, "mirror 100 %": 1.0}


async def _block(caller: load.Caller, wanted: Sequence[load.Said], tally: load.Tally) -> None:
    for number in range(_BLOCK):
        await load.one(caller, number % len(load.CORPUS), load.CORPUS, wanted, tally)
        await asyncio.sleep(_PAUSE)


async def _measure(sides: dict[str, str], requests: int, engine: str) -> dict[str, load.Tally]:
    wanted = await load.expect(engine)
    callers = {name: load.Caller(load.address_of(url)) for name, url in sides.items()}
    tallies = {name: load.Tally() for name in sides}
    for caller in callers.values():  # one block each that does not count
        await _block(caller, wanted, load.Tally())
    for number in range(-(-requests // _BLOCK)):
        order = list(sides)
        for name in order[number % len(order) :] + order[: number % len(order)]:
            await _block(callers[name], wanted, tallies[name])
    for caller in callers.values():
        caller.close()
    return tallies


def measure(requests: int, *, realtime: bool = False) -> dict[str, load.Tally]:
    """Run all four; by name. Raises PermissionError where ``realtime`` is not for us."""
    with ExitStack() as stack:
        engine, shadow = stack.enter_context(sick()), stack.enter_context(sick())
        sides = {"direct": engine.url}
        first = [engine.pid, os.getpid()]
        for name, rate in RATES.items():
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="phl")))
            proxy = stack.enter_context(parhelion(folder, engine.url, arms(shadow.url), sampling={"rate": rate}))
            proxy.wait_known(["primary", "cand"], 60)
            sides[name] = proxy.clients
            first.append(Processes(proxy).pid("traffic"))
        for pid in first if realtime else ():
            os.sched_setscheduler(pid, os.SCHED_RR, os.sched_param(1))
        try:
            return uvloop.run(_measure(sides, requests, engine.url))
        finally:
            if realtime:
                os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def added(tallies: dict[str, load.Tally], name: str, to: str, q: float) -> float:
    """Milliseconds by which a quantile of one side exceeds that of another."""
    return 1e3 * (load.quantile(tallies[name].first, q) - load.quantile(tallies[to].first, q))


def table(tallies: dict[str, load.Tally]) -> list[str]:
    """One line a side."""
    lines = [f"direct: {tallies['direct'].in_words()} ({tallies['direct'].asked} requests a side)"]
    for name in RATES:
        words = f"{name}: adds p50 {added(tallies, name, 'direct', 0.5):.2f} ms, p99 {added(tallies, name, 'direct', 0.99):.2f} ms to direct"
        if name != "mirror off":
            words += f"; p50 {added(tallies, name, 'mirror off', 0.5):+.2f} ms, p99 {added(tallies, name, 'mirror off', 0.99):+.2f} ms to mirror off"
        lines.append(words)
    return lines


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=2000, help="a side")
    parser.add_argument("--realtime", action="store_true", help="go before everything else on this machine")
    options = parser.parse_args()
    print("\n".join(table(measure(options.requests, realtime=options.realtime))))
