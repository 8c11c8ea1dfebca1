"""Goals 12 and 13: how many tokens a CPU second compares, and what clients see of a comparator that has more to do than it can."""

from __future__ import annotations

from collections.abc import Iterator

from tests.bench.comparator import Figures, cases, measured
from tests.bench.measure import Sample, measure, rest
from tests.bench.native import Reply, Work
from tests.bench.payloads import json_reply, logprobs_reply, request
from tests.bench.peers import parhelion
from tests.bench.ratio import Verdict
from tests.bench.scales import measures
from tests.bench.stand import Stand, medians, versus
from tests.bench.table import Result

_TOKENS = 128
#: Processor seconds for each part of each case in each round.
_SECONDS = 0.015


def tokens(stand: Stand) -> Iterator[Result]:
    """Goal 12: tokens a second of processor time, both replies read and compared; and all of the judge's work up to the record's bytes."""
    folder = stand.folder / "comparator"
    folder.mkdir()
    slower, found = measured(cases(), folder, stand.pairs, _SECONDS)
    yield Result(
        12,
        "orjson on 232 KB of logprobs, in 1,198 us of the goals' machine, with Python's own collector as there",
        "",
        Verdict.SHOWN,
        figure=f"{slower:.2f}",
        note=f"{slower * 1198:,.0f} us; figures below are times that",
    )
    for one in measures(stand.pairs, _SECONDS):
        row = f"{one.name}, in {one.there:,.0f} us there"
        note = f"{one.here:,.0f} us; another measure of the machine, by which nothing is scaled"
        yield Result(12, row, "", Verdict.SHOWN, figure=f"{one.here / one.there:.2f}", note=note)
    for one in found:
        yield _against(one, "read and compared", one.compared, "")
        apart = f"; apart: {one.learned:,.0f} us learned, {one.stored:,.0f} us stored an exchange"
        yield _against(one, "in the judge, up to the record", one.judged, apart)
    yield from _running(stand)


def _against(one: Figures, what: str, rate: tuple[float, float], apart: str) -> Result:
    here, there = rate
    goal = one.case.goal
    verdict = Verdict.SHOWN if goal is None else Verdict.MET if there >= goal else Verdict.NOT_MET
    bound = "" if goal is None else f">= {goal:,}"
    row = f"tokens a CPU second, {one.case.name}: {what}"
    return Result(12, row, bound, verdict, figure=f"{there:,.0f}", note=f"{here:,.0f} here{apart}")


def _running(stand: Stand) -> Iterator[Result]:
    """The same as a running judge tells it: what it says it compared for, learning included."""
    peer = stand.peer(parhelion.all_mirrored)
    assert peer is not None
    for case in cases():
        if case.goal is None:
            continue
        kind = "sse" if case.stream else "json"
        stand.engine.answer(Reply(kind, case.primary), "primary")
        stand.engine.answer(Reply(kind, case.shadow), "shadow")
        asks = {} if case.stream else {"logprobs": True, "top_logprobs": 20}
        body = request(1024, stream=case.stream, **asks)
        work = Work(body, connections=2, seconds=10, requests=150)
        rest(peer, stand.engine)
        found = sorted(_rate(measure(peer, stand.engine, work)) for _ in range(3))
        row = f"tokens a CPU second, {case.name}: a running judge, learning included"
        yield Result(12, row, "", Verdict.SHOWN, note=f"{found[1]:,.0f} here")
    stand.engine.answer(json_reply(1300))


def _rate(sample: Sample) -> float:
    return _TOKENS * sample.comparisons / max(1e-9, sample.compared * sample.requests / 1e6)


def saturated(stand: Stand) -> Iterator[Result]:
    """Goal 13: the judge on the same core, asked for more comparisons than it can make, beside one that mirrors as much and compares nothing."""
    body = request(1024, logprobs=True, top_logprobs=20)
    work = Work(body, connections=16, seconds=stand.seconds, rate=600)
    starts = [parhelion.saturated, parhelion.comparator_off]
    found = stand.compare(starts, logprobs_reply(_TOKENS, 20), work)
    row = "comparator saturated, 95 KB replies at 600 rps: p50"
    bounds = {"comparator-off": 1.03}
    common = {"ours": "saturated", "mirrored": False, "bare": True}
    yield from versus(found, 13, row, bounds, figure=lambda one: one.load["latency_p50"], **common)
    p99 = {name: medians(samples, lambda one: one.load["latency_p99"]) for name, samples in found.items()}
    shown = ", ".join(f"{name} {value:,.0f}" for name, value in p99.items())
    yield Result(13, f"{row[:-3]}p99", "", Verdict.SHOWN, figure=f"{shown} us")
    peer = stand.peer(parhelion.saturated)
    assert peer is not None
    dropped = peer.metric("parhelion_shed_total")
    stand.end(parhelion.saturated, parhelion.comparator_off)
    verdict = Verdict.MET if dropped > 0 else Verdict.NOT_MET
    yield Result(13, "samples dropped over the budget, and counted", "> 0", verdict, figure=f"{dropped:,.0f}")
