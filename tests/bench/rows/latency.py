"""Goals 6, 7 and 8: streams at an engine's pace, time to the first event, delay of each, and a request now and then."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tests.bench.measure import Sample
from tests.bench.native import Work
from tests.bench.payloads import json_reply, request, sse_reply
from tests.bench.peers import direct, envoy, litellm, nginx, parhelion, routers
from tests.bench.ratio import Verdict
from tests.bench.stand import Stand, medians, versus
from tests.bench.table import Result

_PACE, _EVENTS = 5000, 16


def paced(stand: Stand) -> Iterator[Result]:
    """Goals 6 and 7: CPU a chunk, time to the first event, delay of each, for streams at an engine's pace.

    ``nginx-mirror`` closes the mirrored stream at its head; the others that mirror read it to its end.
    """
    work = Work(request(1024, stream=True), connections=32, seconds=stand.seconds, ramp=80)
    starts = [direct.start, parhelion.all_mirrored, nginx.mirror, envoy.mirror, routers.vllm]
    found = stand.compare(starts, sse_reply(_EVENTS, pace=_PACE), work)
    name = f"5 ms x {_EVENTS} streams c32"
    bounds = {"nginx-mirror": 1.3, "envoy-mirror": 0.65, "vllm-router": 0.9}
    yield from versus(
        found,
        6,
        f"CPU a chunk, {name}",
        bounds,
        figure=lambda one: one.per_chunk,
        unit="us",
        per=lambda one: one.chunks,
    )
    added_ = added(found, "first_p50")
    bounds = {"nginx-mirror": 1.0, "envoy-mirror": 0.5, "vllm-router": 0.5}
    yield from versus(found, 7, f"added TTFT p50, {name}", bounds, figure=added_, bare=True)
    delays: Mapping[str, float | None] = {"nginx-mirror": 1.15, "envoy-mirror": None, "vllm-router": None}
    yield from versus(found, 7, f"chunk delay p50, {name}", delays, figure=lambda one: one.load["chunk_p50"], bare=True)
    yield _shown(found, 7, f"chunk delay p99, {name}", "chunk_p99")


def seldom(stand: Stand) -> Iterator[Result]:
    """Goal 8: what is added to a request when there are 50 a second."""
    work = Work(request(1024), connections=4, seconds=2 * stand.seconds, rate=50)
    starts = [direct.start, parhelion.all_mirrored, nginx.mirror, envoy.mirror, routers.vllm, litellm.mirror]
    found = stand.compare(starts, json_reply(1300), work)
    stand.end(litellm.mirror)
    bounds = {"nginx-mirror": 1.3, "envoy-mirror": 0.6, "vllm-router": 0.75, "litellm-mirror": 1 / 15}
    yield from versus(found, 8, "added p50 at 50 rps c4", bounds, figure=added(found, "latency_p50"), bare=True)
    yield _shown(found, 8, "p99 at 50 rps c4", "latency_p99")


class added:  # noqa: N801 - reads as the function it is used as
    """A latency less that of the direct way in the same round; never below a microsecond."""

    def __init__(self, found: Mapping[str, list[Sample]], key: str) -> None:
        self._key = key
        self._base = {
            id(sample): base.load[key]
            for samples in found.values()
            for sample, base in zip(samples, found["direct"], strict=True)
        }

    def __call__(self, sample: Sample) -> float:
        return max(1.0, float(sample.load[self._key]) - self._base[id(sample)])


def _shown(found: Mapping[str, list[Sample]], goal: int, row: str, key: str) -> Result:
    """Medians of a percentile that no bound is put on."""
    figures = ", ".join(f"{name} {medians(samples, lambda one: one.load[key]):,.0f}" for name, samples in found.items())
    return Result(goal, row, "", Verdict.SHOWN, figure=f"{figures} us")
