"""Goals 1, 2 and 3: CPU a request with everything mirrored and with nothing, and throughput of one core; 1 KB in, 1.3 KB out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.bench import cores
from tests.bench.native import Work
from tests.bench.payloads import json_reply, request
from tests.bench.peers import envoy, haproxy, litellm, nginx, parhelion, routers
from tests.bench.stand import Stand, versus
from tests.bench.table import Result

#: A closed loop is bounded in requests too, so that what waits to be compared afterwards is.
_MOST = 6_000
_RATE = 800


def mirrored(stand: Stand) -> Iterator[Result]:
    """Goal 1: CPU a request in a closed loop, everything mirrored, beside two that mirror and two that do not."""
    work = Work(request(1024), connections=32, seconds=stand.seconds, requests=_MOST)
    starts = [parhelion.all_mirrored, nginx.mirror, envoy.mirror, routers.vllm, routers.sglang]
    found = stand.compare(starts, json_reply(1300), work)
    bounds = {"nginx-mirror": 0.65, "envoy-mirror": 0.40, "vllm-router": 0.45, "sglang-router": 0.35}
    yield from versus(found, 1, "CPU a request, 1 KB c32, all mirrored", bounds)


def mirrored_at_rate(stand: Stand) -> Iterator[Result]:
    """Goal 1: the same, all at one rate that the slowest can follow."""
    work = Work(request(1024), connections=32, seconds=2 * stand.seconds, rate=_RATE)
    starts = [parhelion.all_mirrored, nginx.mirror, envoy.mirror, routers.vllm, routers.sglang]
    found = stand.compare(starts, json_reply(1300), work)
    bounds = {"nginx-mirror": 0.65, "envoy-mirror": 0.40, "vllm-router": 0.45, "sglang-router": 0.35}
    yield from versus(found, 1, f"CPU a request, 1 KB, {_RATE} rps, all mirrored", bounds)


def python_gateway(stand: Stand) -> Iterator[Result]:
    """Goal 1: beside LiteLLM, which costs so much that it gets a few requests only."""
    work = Work(request(1024), connections=4, seconds=stand.seconds, requests=60)
    found = stand.compare([parhelion.all_mirrored, litellm.mirror], json_reply(1300), work)
    stand.end(litellm.mirror)  # it does not rest when nobody asks
    yield from versus(found, 1, "CPU a request, 1 KB c4, all mirrored", {"litellm-mirror": 1 / 500})


def throughput(stand: Stand) -> Iterator[Result]:
    """Goal 3: requests a second on one core, 256 connections.

    What Parhelion's judge has not done by the end of the load is not in it; goal 1 counts it.
    """
    work = Work(request(1024), connections=256, seconds=stand.seconds, requests=_MOST)
    starts = [parhelion.all_mirrored, nginx.mirror, envoy.mirror, routers.vllm]
    found = stand.compare(starts, json_reply(1300), work)
    bounds = {"nginx-mirror": 1.8, "envoy-mirror": 4.0, "vllm-router": 3.0}
    row = "requests a second on one core, 1 KB c256, all mirrored"
    yield from versus(found, 3, row, bounds, figure=lambda one: one.rps, unit="rps", least=True)
    few = min(stand.pairs, 5) if cores.SHARED else stand.pairs  # where it is not judged, a look is enough
    both = [parhelion.two_on_two_cores, parhelion.one_on_two_cores]
    found = stand.compare(both, json_reply(1300), work, pairs=few)
    stand.end(*both)
    row = "two traffic processes, the load on the same two cores"
    bound = {"parhelion-1": None if cores.SHARED else 1.8}
    figure: dict[str, Any] = {"figure": lambda one: one.rps, "unit": "rps"}
    yield from versus(found, 3, row, bound, ours="parhelion-2", least=True, **figure)


def off(stand: Stand) -> Iterator[Result]:
    """Goal 2: CPU a request with a sample of 0 %."""
    work = Work(request(1024), connections=32, seconds=stand.seconds, requests=_MOST)
    starts = [parhelion.none_mirrored, nginx.plain, envoy.plain, haproxy.plain]
    found = stand.compare(starts, json_reply(1300), work)
    bounds = {"nginx": 1.6, "envoy": 0.35, "haproxy": None}
    yield from versus(found, 2, "CPU a request, 1 KB c32, mirror off", bounds, ours="parhelion-0%", mirrored=False)
