"""A row of its own: ``primary.logprobs: inject`` rewrites requests and replies, so it costs more; how much, beside passing the same bytes on."""

from __future__ import annotations

from collections.abc import Iterator

from tests.bench.native import Work
from tests.bench.payloads import logprobs_events, logprobs_reply, request
from tests.bench.peers import nginx, parhelion
from tests.bench.stand import Stand, versus
from tests.bench.table import Result


def injecting(stand: Stand) -> Iterator[Result]:
    """Of its own: ``inject``, a whole reply and a stream of 128 events, both with logprobs of 20 alternatives that the client did not ask for. No bound is set."""
    starts = [parhelion.injecting, parhelion.all_mirrored, nginx.mirror_tuned]
    bounds = {"parhelion": None, "nginx-mirror-64k": None}
    work = Work(request(1024), connections=8, seconds=stand.seconds, requests=200)
    found = stand.compare(starts, logprobs_reply(128, 20), work)
    yield from versus(found, 0, "inject: CPU a request, 95 KB reply c8", bounds, ours="parhelion-inject")
    work = Work(request(1024, stream=True), connections=8, seconds=stand.seconds, requests=200)
    found = stand.compare(starts, logprobs_events(128, 20), work)
    yield from versus(found, 0, "inject: CPU a request, 128 events c8", bounds, ours="parhelion-inject")
    stand.end(parhelion.injecting)
