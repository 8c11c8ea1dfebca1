"""How many conversations a verdict takes where the truth is known, and how well the forecast knew it half-way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import log
from typing import NamedTuple

import numpy as np

from proxy.compare.betting import Outcomes, needed
from tests.known_truth.simulations.paths import Numbers, Truth, days, evidence

#: Base rate, true difference, margin.
CASES = (
    Truth(0.0, 0.0, 0.01),
    Truth(0.001, 0.0, 0.01),
    Truth(0.005, 0.0, 0.01),
    Truth(0.02, 0.0, 0.01),
    Truth(0.02, 0.0, 0.02),
    Truth(0.05, 0.0, 0.01),
    Truth(0.05, 0.0, 0.02),
    Truth(0.2, 0.0, 0.02),
    Truth(0.2, 0.0, 0.05),
    Truth(0.0, 0.02, 0.01),
    Truth(0.005, 0.05, 0.01),
    Truth(0.02, 0.02, 0.01),
    Truth(0.02, 0.05, 0.01),
    Truth(0.02, 0.1, 0.01),
    Truth(0.2, 0.1, 0.05),
    Truth(0.2, 0.2, 0.05),
    Truth(0.02, 0.5, 0.01),
    Truth(0.02, 0.95, 0.01),
    Truth(0.0, 0.0, 0.01, alone=True),
    Truth(0.002, 0.0, 0.01, alone=True),
    Truth(0.02, 0.0, 0.01, alone=True),
    Truth(0.0, 0.05, 0.01, alone=True),
    Truth(0.0, 0.95, 0.01, alone=True),
)
_LOOKS = 800
_REACH = 5  # times what it takes if all comes in the true proportions
_FORECASTS = 40


class Power(NamedTuple):
    """Conversations until the right verdict: median and 90th percentile over days; infinite where it was not there in five times the time.

    ``forecast``: what was forecast half-way as a multiple of what it took: 10th percentile, median, 90th.
    """

    truth: Truth
    alpha: float
    median: float
    late: float
    forecast: tuple[float, float, float] | None


def power(
    seed: int, cases: Iterable[Truth] = CASES, alphas: Iterable[float] = (0.01, 0.05), many: int = 400
) -> Iterator[Power]:
    """Go through cases and levels; the forecast is looked at for an alpha of 1 %."""
    for truth in cases:
        for alpha in alphas:
            rng = np.random.default_rng(
                [seed, *(round(1e4 * one) for one in (*truth[:3], alpha)), *([1] if truth.alone else [])]
            )
            expected = needed(Outcomes(*truth.shares), truth.bound, alpha) or 1
            step = max(1, _REACH * expected // _LOOKS)
            counts = days(rng, truth, many, max(step, _REACH * expected // step * step), step)
            hit = evidence(counts, truth.bound, over=truth.fails) >= log(1 / alpha)
            at = np.where(hit.any(axis=1), hit.argmax(axis=1), -1)
            took = np.where(at >= 0, (at + 1.0) * step, np.inf)
            yield Power(
                truth,
                alpha,
                float(np.median(took)),
                float(np.quantile(took, 0.9, method="higher")),
                _forecast(counts, at, truth, alpha) if alpha == 0.01 else None,
            )


def _forecast(counts: Numbers, at: np.ndarray, truth: Truth, alpha: float) -> tuple[float, float, float] | None:
    """Hold what is forecast at half the way against the whole of it, day by day; a forecast of none counts as an endless one."""
    ratios = []
    for day, end in list(zip(counts, at.tolist(), strict=True))[:_FORECASTS]:
        if end < 3:
            continue
        half = Outcomes(*day[end // 2])
        more = needed(half, truth.bound, alpha)
        ratios.append(np.inf if more is None else (half.total + more) / day[end].sum())
    if len(ratios) < _FORECASTS / 2:
        return None
    low, middle, high = np.quantile(ratios, (0.1, 0.5, 0.9), method="nearest")
    return float(low), float(middle), float(high)


def table(seed: int) -> list[str]:
    """The table as Markdown."""
    rows = [
        "| base rate | margin | true difference | verdict | median, alpha 1 % | 90th percentile | median, alpha 5 % | 90th percentile | forecast half-way / truth (10, 50, 90 %) |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    found = {(one.truth, one.alpha): one for one in power(seed)}
    for truth in CASES:
        strict, lax = found[truth, 0.01], found[truth, 0.05]
        verdict = ("FAIL" if truth.fails else "PASS") + (", no control" if truth.alone else "")
        forecast = "too soon" if strict.forecast is None else " ".join(f"{ratio:.2f}" for ratio in strict.forecast)
        numbers = " | ".join(f"{n:,.0f}" for one in (strict, lax) for n in (one.median, one.late))
        rows.append(
            f"| {truth.base:.1%} | {truth.margin:.0%} | {truth.difference:.0%} | {verdict} | {numbers} | {forecast} |"
        )
    return rows
