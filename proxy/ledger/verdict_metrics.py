"""The verdict as metrics: gauges of what is known now, counters of conversations.

House rules. As in ``judge_metrics``. What is not known has no series.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import NamedTuple

from proxy.compare.trial import Result
from proxy.compare.verdict import State, Verdict
from proxy.ledger.series import Series

#: Gauges of one candidate.
GAUGES = ("verdict", "log_e_value", "conversations_needed", "drift_log_e", "verdict_coverage")
CODES = {State.PASS: 1, State.WATCH: 0, State.FAIL: -1}


class Known(NamedTuple):
    """What is known of a candidate. ``variation``: evidence for FAIL and PASS of sampled output; ``drift_log_e``: its detector; both None without. ``results``: conversations by result, over all its stacks."""

    verdict: Verdict
    variation: tuple[float, float] | None
    drift_log_e: float | None
    results: Mapping[Result, int]


def show(series: Series, shadow: str, known: Known) -> None:
    """Say what is known of a candidate."""
    verdict = known.verdict
    for name in GAUGES:
        series.forget(name, shadow)
    series.set("verdict", (shadow,), CODES[verdict.state])
    series.set("log_e_value", (shadow, "fail"), verdict.log_e_fail)
    series.set("log_e_value", (shadow, "pass"), verdict.log_e_pass)
    if verdict.log_e_worse_than_control is not None:
        series.set("log_e_value", (shadow, "worse_than_control"), verdict.log_e_worse_than_control)
    if verdict.needed is not None:
        series.set("conversations_needed", (shadow,), verdict.needed)
    if known.variation is not None:
        for test, log_e in zip(("variation_fail", "variation_pass"), known.variation, strict=True):
            series.set("log_e_value", (shadow, test), log_e)
    if known.drift_log_e is not None and isfinite(known.drift_log_e):
        series.set("drift_log_e", (shadow,), known.drift_log_e)
    if verdict.tally.coverage is not None:
        series.set("verdict_coverage", (shadow,), verdict.tally.coverage)
    for result, n in known.results.items():
        series.set("trials_total", (shadow, result.value), n)
