"""A row of its own: both engines behind TLS, as hosted APIs are. The certificate's authority is named by SSL_CERT_FILE, as a user names it."""

from __future__ import annotations

from collections.abc import Iterator

from tests.bench.native import Work
from tests.bench.payloads import json_reply, request, sse_reply
from tests.bench.peers import tls
from tests.bench.stand import Stand, versus
from tests.bench.table import Result


def https(stand: Stand) -> Iterator[Result]:
    """Of its own: CPU a request, then a chunk, with engines behind TLS, beside nginx-mirror. No bound is set."""
    starts = [tls.parhelion_mirror, tls.nginx_mirror]
    work = Work(request(1024), connections=32, seconds=stand.seconds, requests=4000)
    found = stand.compare(starts, json_reply(1300), work)
    yield from versus(found, 0, "https engines: CPU a request, 1 KB c32", {"nginx-mirror": None})
    work = Work(request(1024, stream=True), connections=32, seconds=stand.seconds, ramp=80)
    found = stand.compare(starts, sse_reply(16, pace=5000), work)
    figure = {"figure": lambda one: one.per_chunk, "per": lambda one: one.chunks}
    yield from versus(found, 0, "https engines: CPU a chunk, 5 ms x 16 c32", {"nginx-mirror": None}, **figure)
    stand.end(*starts)
