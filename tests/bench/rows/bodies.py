"""Goal 11: long bodies. The peers with the mirror have the buffers that suit them."""

from __future__ import annotations

from collections.abc import Iterator

from tests.bench.native import Work
from tests.bench.payloads import json_reply, logprobs_reply, request
from tests.bench.peers import envoy, nginx, parhelion, routers
from tests.bench.stand import Stand, versus
from tests.bench.table import Result


def large(stand: Stand) -> Iterator[Result]:
    """Goal 11: CPU a request, a megabyte up, then 95 KB down."""
    work = Work(request(1 << 20), connections=8, seconds=stand.seconds, requests=150)
    starts = [parhelion.all_mirrored, nginx.mirror_tuned, envoy.mirror, routers.vllm, routers.sglang]
    found = stand.compare(starts, json_reply(1300), work)
    bounds = {"nginx-mirror-64k": 1.2, "envoy-mirror": 0.75, "vllm-router": 0.4, "sglang-router": 0.4}
    yield from versus(found, 11, "CPU a request, 1 MB up c8, all mirrored", bounds)
    work = Work(request(1024, logprobs=True, top_logprobs=20), connections=32, seconds=stand.seconds, requests=800)
    found = stand.compare([parhelion.all_mirrored, nginx.mirror_tuned, envoy.mirror], logprobs_reply(128, 20), work)
    bounds = {"nginx-mirror-64k": 1.2, "envoy-mirror": 0.75}
    yield from versus(found, 11, "CPU a request, 95 KB of logprobs down c32, all mirrored", bounds)
