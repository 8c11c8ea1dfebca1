"""Goal 10: a thousand streams open at once, an event every 50 ms in each."""

from __future__ import annotations

import time
from collections.abc import Iterator

from tests.bench import processes
from tests.bench.native import Work, finish, start_load
from tests.bench.payloads import request, sse_reply
from tests.bench.peers import envoy, nginx, parhelion
from tests.bench.peers.peer import Peer
from tests.bench.ratio import Verdict
from tests.bench.stand import Stand, versus
from tests.bench.table import Result

_STREAMS, _EVENTS, _PACE = 1000, 40, 50_000
_LENGTH = _EVENTS * _PACE / 1e6
_WORK = Work(request(1024, stream=True), connections=_STREAMS, seconds=0.9, requests=_STREAMS, ramp=800)


def thousand(stand: Stand) -> Iterator[Result]:
    """Goal 10: CPU a chunk of a thousand streams beside the two mirrors; memory of the processes of Parhelion."""
    peer = stand.peer(parhelion.many_streams)
    assert peer is not None
    yield from _memory(stand, peer)  # before anything else has made it grow
    reply = sse_reply(_EVENTS, pace=_PACE)
    starts = [parhelion.many_streams, nginx.mirror, envoy.mirror]
    found = stand.compare(starts, reply, _WORK, warm=False)
    name = f"{_STREAMS} streams of 50 ms"
    bounds = {"nginx-mirror": 1.2, "envoy-mirror": 0.65}
    yield from versus(
        found, 10, f"CPU a chunk, {name}", bounds, figure=lambda one: one.per_chunk, per=lambda one: one.chunks
    )
    stand.end(parhelion.many_streams)


def _memory(stand: Stand, peer: Peer) -> Iterator[Result]:
    stand.engine.answer(sse_reply(_EVENTS, pace=_PACE))
    stand.engine.clear()
    everything = processes.tree(peer.pid)
    idle, idle_live = processes.resident(everything), processes.resident(list(peer.live))
    load = start_load(peer.port, _WORK)
    time.sleep(0.8 + _LENGTH / 2)
    live = processes.resident(list(peer.live))
    finish(load, 60)
    peak, limit = 0.0, time.monotonic() + 60  # the mirrored streams run behind
    while stand.engine.stats("shadow")["replied"] < _STREAMS and time.monotonic() < limit:
        peak = max(peak, processes.resident(everything))
        time.sleep(0.1)
    share = stand.engine.stats("shadow")["replied"] / _STREAMS
    each = (max(peak, live) - idle) * 1024 / _STREAMS
    row = f"memory of a traffic process, {_STREAMS} streams"
    verdict = Verdict.MET if live <= 45 else Verdict.NOT_MET
    yield Result(10, row, "<= 45 MB", verdict, figure=f"{live:.1f} MB (idle {idle_live:.1f})", share=share)
    verdict = Verdict.MET if each <= 12 else Verdict.NOT_MET
    yield Result(
        10, "growth of all processes a stream and its mirror", "<= 12 KB", verdict, figure=f"{each:.1f} KB", share=share
    )
