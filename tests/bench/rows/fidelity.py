"""Goal 15: every byte of a body, up and down, as the engine's own sums of them say; every request different."""

from __future__ import annotations

from collections.abc import Iterator

from tests.bench.measure import wait_read
from tests.bench.native import Reply, Work, load
from tests.bench.payloads import json_reply, logprobs_reply, request, sse_reply
from tests.bench.peers import envoy, haproxy, nginx, parhelion, routers
from tests.bench.ratio import Verdict
from tests.bench.stand import Stand
from tests.bench.table import Result

_CASES: tuple[tuple[str, bytes, Reply], ...] = (
    ("1 KB", request(1024), json_reply(1300)),
    ("events", request(1024, stream=True), sse_reply(128)),
    ("1 MB up", request(1 << 20), json_reply(1300)),
    ("95 KB down", request(1024), logprobs_reply(128, 20)),
)
_REQUESTS = {"1 MB up": 30}


def bodies(stand: Stand) -> Iterator[Result]:
    """Goal 15: bodies that differ, of all that were sent. The peers are shown, Parhelion is judged."""
    starts = [parhelion.all_mirrored, nginx.mirror, haproxy.plain, envoy.mirror, routers.vllm, routers.sglang]
    told: list[str] = []
    for start in starts:
        peer = stand.peer(start)
        if peer is None:
            continue
        stand.engine.tell("verify 1")
        differ = sent = 0
        for name, body, reply in _CASES:
            stand.engine.answer(reply)
            work = Work(body, connections=8, seconds=20, requests=_REQUESTS.get(name, 500), verify=True)
            took = load(peer.port, work.to(peer.headers))
            differ += took["mismatched"] + took["failed"]
            sent += took["issued"]
        stand.engine.tell("verify 0")
        if start is parhelion.all_mirrored:
            verdict = Verdict.NOT_MET if differ else Verdict.MET
            wait_read(stand.engine)
            yield Result(15, "bodies not byte for byte, up or down", "0", verdict, figure=f"{differ} of {sent:,}")
        else:
            told.append(f"{peer.name} {differ:,}")
    stand.engine.answer(json_reply(1300))
    yield Result(15, "the same of peers", "", Verdict.SHOWN, figure=f"{', '.join(told)} of {sent:,}")
