"""Goals 1, 2 and 3: CPU a request with everything mirrored and with nothing, and throughput of one core; 1 KB in, 1.3 KB out."""

from __future__ import annotations

from collections.abc import Iterator

from tests.bench.native import Work
from tests.bench.payloads import json_reply, request
from tests.bench.peers import nginx, parhelion
from tests.bench.stand import Stand, versus
from tests.bench.table import Result

#: A closed loop is bounded in requests too, so that what waits to be compared afterwards is.
_MOST = 12_000


def mirrored(stand: Stand) -> Iterator[Result]:
    """Goal 1."""
    work = Work(request(1024), connections=32, seconds=stand.seconds, requests=_MOST)
    found = stand.compare([parhelion.all_mirrored, nginx.mirror], json_reply(1300), work)
    yield from versus(found, 1, "CPU a request, 1 KB c32, all mirrored", {"nginx-mirror": 0.65})


def off(stand: Stand) -> Iterator[Result]:
    """Goal 2."""
    work = Work(request(1024), connections=32, seconds=stand.seconds, requests=_MOST)
    found = stand.compare([parhelion.none_mirrored, nginx.plain], json_reply(1300), work)
    bounds = {"nginx": 1.6}
    yield from versus(found, 2, "CPU a request, 1 KB c32, mirror off", bounds, ours="parhelion-0%", mirrored=False)
