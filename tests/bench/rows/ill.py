"""Goal 9, and the sending side: whatever ails a shadow, clients see none of it. One Parhelion with a healthy shadow and one with an ill one, in turn."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace

from tests.bench import processes
from tests.bench.measure import Sample, measure
from tests.bench.native import Work, finish, start_load
from tests.bench.payloads import json_reply, request
from tests.bench.peers import parhelion
from tests.bench.peers.peer import Peer, Setting
from tests.bench.ratio import Verdict
from tests.bench.stand import Stand, versus
from tests.bench.table import Result

_ILLNESSES = ("down", "hang", "slow", "deaf", "reset", "cut")
_DELAY = 5000  # microseconds that a healthy engine takes
_RECOVERY = 5.0  # seconds
_SHORT = 16.0  # megabytes that may be held for a shadow, bodies being short
_LONG = 256.0 + 64.0  # the budget for what waits (limits.queue_bytes), and a margin


def healthy(setting: Setting) -> contextlib.AbstractContextManager[Peer]:
    """Everything mirrored, limits as they are by default."""
    return parhelion.start(setting, 1.0, "healthy", limits={})


def ill(setting: Setting) -> contextlib.AbstractContextManager[Peer]:
    """The same; nobody waits for its shadow."""
    return parhelion.start(setting, 1.0, "ill", limits={}, awaited=False)


def shadows(stand: Stand) -> Iterator[Result]:
    """Goal 9: each illness of a shadow with short requests, then a shadow that never reads with long ones."""
    work = Work(request(1024), connections=32, seconds=stand.seconds / 2)
    for illness in _ILLNESSES:
        yield from _illness(stand, illness, work, f"shadow {illness}, 1 KB c32", _SHORT)
    work = Work(request(1 << 20), connections=4, seconds=stand.seconds, requests=100)
    yield from _illness(stand, "deaf", work, "shadow never reads, 1 MB c4", _LONG)
    stand.end(healthy, ill)


def _illness(stand: Stand, illness: str, work: Work, name: str, room: float) -> Iterator[Result]:
    well, sick = stand.peer(healthy), stand.peer(ill, "ill")
    assert well is not None
    assert sick is not None
    stand.engine.answer(json_reply(1300, delay=_DELAY))
    everything = processes.tree(sick.pid)
    for peer in (well, sick):
        measure(peer, stand.engine, replace(work, seconds=0.3))
    before = processes.resident(everything)
    stand.engine.sicken("ill", illness)
    measure(sick, stand.engine, replace(work, seconds=0.3))  # the steady state is asked for: the breaker has seen it
    found: dict[str, list[Sample]] = {"healthy": [], "ill": []}
    peak, open_ = before, 0
    for number in range(stand.pairs):
        for peer in (well, sick) if number % 2 else (sick, well):
            found[peer.name].append(measure(peer, stand.engine, work))
        peak = max(peak, processes.resident(everything))
        open_ = max(open_, stand.engine.stats("ill")["open"])
    stand.engine.sicken("ill", "ok")
    back = _recovery(stand, sick)
    stand.engine.answer(json_reply(1300))
    yield from _verdicts(found, name)
    growth = peak - before
    good = growth <= room and open_ <= parhelion.IN_FLIGHT and back <= _RECOVERY
    yield Result(
        9,
        f"{name}: growth, connections, recovery",
        f"<= {room:.0f} MB, <= {parhelion.IN_FLIGHT}, <= {_RECOVERY:.0f} s",
        Verdict.MET if good else Verdict.NOT_MET,
        figure=f"{growth:.1f} MB, {open_}, {back:.1f} s",
    )


def _verdicts(found: dict[str, list[Sample]], name: str) -> Iterator[Result]:
    bare = {"ours": "ill", "mirrored": False, "bare": True}
    yield from versus(
        found,
        9,
        f"{name}: requests a second",
        {"healthy": 0.98},
        figure=lambda one: one.rps,
        unit="rps",
        least=True,
        **bare,
    )
    yield from versus(found, 9, f"{name}: p50", {"healthy": 1.02}, figure=lambda one: one.load["latency_p50"], **bare)
    yield from versus(found, 9, f"{name}: p99", {"healthy": None}, figure=lambda one: one.load["latency_p99"], **bare)
    yield from versus(found, 9, f"{name}: CPU a request", {"healthy": 1.0}, ours="ill", mirrored=False)


def _recovery(stand: Stand, peer: Peer) -> float:
    """Seconds until a shadow that is well again has answered, with a request every 20 ms."""
    stand.engine.clear()
    load = start_load(peer.port, Work(request(1024), connections=4, seconds=30, rate=50, grace=1))
    began = time.monotonic()
    try:
        while stand.engine.stats("ill")["replied"] < 1 and time.monotonic() - began < 25:
            time.sleep(0.05)
        return time.monotonic() - began
    finally:
        load.terminate()
        with contextlib.suppress(AssertionError):
            finish(load, 10)
