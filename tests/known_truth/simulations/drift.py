"""The e-detector: how long it runs without a false alarm, and how soon after a change it alarms."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from proxy.compare.e_detector import GRID
from tests.known_truth.simulations.paths import Numbers

_THETAS = np.array(GRID)


class Run(NamedTuple):
    """Differing conversations until an alarm: the mean and its standard error (a lower bound where runs were cut), the median, and how many of how many runs were cut."""

    mean: float
    error: float
    median: float
    cut: int
    runs: int


def run(seed: int, bound: float, *, worse: float, before: int = 0, runs: int = 300, longest: int = 60_000) -> Run:
    """Run detectors on conversations in which the arms differ, ``before`` of them while neither is worse, then the candidate being the bad one in ``worse`` of them."""
    rng = np.random.default_rng(seed)
    state = np.zeros((runs, len(_THETAS)))
    for _ in range(before):
        state = _after(state, rng.random(runs) < 0.5)
    took = np.full(runs, longest)
    live = np.arange(runs)
    for turn in range(1, longest + 1):
        state = _after(state, rng.random(len(live)) < worse)
        alarmed = state.mean(axis=1) >= bound
        took[live[alarmed]] = turn
        live, state = live[~alarmed], state[~alarmed]
        if not len(live):
            break
    return Run(float(took.mean()), float(took.std() / runs**0.5), float(np.median(took)), len(live), runs)


def _after(state: Numbers, worse: np.ndarray) -> Numbers:
    found: Numbers = (state + 1) * np.where(worse[:, None], 2 * _THETAS, 2 * (1 - _THETAS))
    return found


def table(seed: int) -> list[str]:
    """The table as Markdown."""
    rows = [
        "| candidate is the bad one in | alarm at | differing conversations until the alarm: mean | median |",
        "| --- | --- | --- | --- |",
    ]
    for bound, longest in ((100, 20_000), (1000, 60_000)):
        found = run(seed, bound, worse=0.5, longest=longest)
        more = f", {found.cut} of {found.runs} runs cut" if found.cut else ""
        rows.append(
            f"| 50 % (never worse) | {bound:,} | {found.mean:,.0f} ± {found.error:,.0f}{more} | {found.median:,.0f} |"
        )
    for worse in (0.6, 0.75, 0.9):
        found = run(seed, 1e6, worse=worse, before=500)
        rows.append(
            f"| {worse:.0%}, after 500 at 50 % | 1,000,000 | {found.mean:,.0f} ± {found.error:,.0f} | {found.median:,.0f} |"
        )
    return rows
