"""One measurement of one peer, and several peers measured in turn.

House rules. Knows peers and work, not what is asked of their ratio.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.bench import processes
from tests.bench.native import Engine, Work, load
from tests.bench.peers.peer import Peer

_STALLED = 5.0  # seconds without another reply read by anybody: what is missing will not come


@dataclass(frozen=True)
class Sample:
    """One measurement.

    ``cpu``: microseconds a request; ``live``: of them, those of the processes that answer clients. Not in it: ``compared`` (reading tokens and comparing, of
    ``comparisons`` in all) and ``stored``, as the judge tells them. ``share``: of the requests, those that reached the shadow and were read to their end.
    """

    peer: str
    requests: int
    cpu: float
    live: float
    compared: float
    stored: float
    comparisons: float
    share: float
    rps: float
    load: Mapping[str, Any]

    @property
    def chunks(self) -> float:
        """Events that reached the client, at least one."""
        return float(max(1, self.load["stamped"]))

    @property
    def per_chunk(self) -> float:
        """CPU a chunk in microseconds, when the reply is a paced stream."""
        return self.cpu * self.requests / self.chunks


def measure(peer: Peer, engine: Engine, work: Work) -> Sample:
    """Drive one peer, wait until it has done all it took on, and say what that cost. What it did before must be over and told (``rest``)."""
    engine.clear()
    told = _told(peer)
    before = processes.settled(peer.pid)
    live = processes.own_cpu(peer.live)
    took = load(peer.port, work.to(peer.headers))
    if peer.mirrors:
        wait_read(engine)
    used = processes.settled(peer.pid) - before
    live = processes.own_cpu(peer.live) - live
    peer.told()
    compared, stored, comparisons = (after - first for after, first in zip(_told(peer), told, strict=True))
    primary, shadow = engine.stats("primary"), engine.stats("shadow")
    each = 1e6 / max(1, took["done"])
    return Sample(
        peer=peer.name,
        requests=took["done"],
        cpu=(used - compared - stored) * each,
        live=live * each,
        compared=compared * each,
        stored=stored * each,
        comparisons=comparisons,
        share=shadow["replied"] / max(1, primary["requests"]),
        rps=took["done"] / took["seconds"],
        load=took,
    )


def _told(peer: Peer) -> tuple[float, float, float]:
    """Seconds that the judge compared and stored for, and comparisons, so far."""
    name = "parhelion_judge_cpu_seconds_total"
    return peer.metric(name, stage="compare"), peer.metric(name, stage="store"), peer.metric("parhelion_compared_total")


def rest(peer: Peer, engine: Engine) -> None:
    """Let a peer finish what it was given outside a measurement, so that the next one does not pay for it."""
    if peer.mirrors:
        wait_read(engine)
    processes.settled(peer.pid)
    peer.told()


def wait_read(engine: Engine) -> None:
    """Until the shadow has been asked and read as often as the primary, or nothing moves any more."""
    last, since = -1, time.monotonic()
    while time.monotonic() - since < _STALLED:
        stats = engine.stats("shadow")
        ended = stats["replied"] + stats["cut"]
        if ended >= engine.stats("primary")["requests"]:
            return
        if ended != last:
            last, since = ended, time.monotonic()
        time.sleep(0.1)


def in_turn(
    peers: Sequence[Peer], engine: Engine, work: Work, rounds: int, *, warm_up: bool = True
) -> dict[str, list[Sample]]:
    """Measure all peers in each of ``rounds`` rounds, in an order that changes; the i-th samples belong together. One short round warms up."""
    for peer in peers if warm_up else ():
        warm = Work(
            **{**work.__dict__, "seconds": min(0.3, work.seconds), "requests": min(work.requests or 2000, 2000)}
        )
        load(peer.port, warm.to(peer.headers))
        rest(peer, engine)
    found: dict[str, list[Sample]] = {peer.name: [] for peer in peers}
    order = list(peers)
    shuffle = random.Random(7)
    for _ in range(rounds):
        shuffle.shuffle(order)
        for peer in order:
            found[peer.name].append(measure(peer, engine, work))
    return found
