"""Why top-k lists are never renormalised: how often the KL divergence of the renormalised lists exceeds the true one, where a lower bound never does."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from proxy.compare.distance import lower_bounds
from tests.known_truth.simulations.paths import Numbers

VOCABULARY, LISTED = 2000, 20


class Position(NamedTuple):
    """KL divergence of the primary from the shadow at one position, in nats."""

    true: float
    bound: float
    renormalised: float


def positions(seed: int, spread: float, noise: float, many: int = 400) -> list[Position]:
    """Draw positions: logits Gaussian with a standard deviation of ``spread`` nats, the shadow's with noise of another ``noise``; lists of 20."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(many):
        p = _log_softmax(rng.normal(0, spread, VOCABULARY))
        q = _log_softmax(p + rng.normal(0, noise, VOCABULARY))
        known = np.intersect1d(np.argsort(p)[-LISTED:], np.argsort(q)[-LISTED:])
        mine, theirs = p[known], q[known]
        renormalised = _kl(_log_softmax(mine), _log_softmax(theirs))
        bound, _ = lower_bounds(list(zip(mine.tolist(), theirs.tolist(), strict=True)))
        found.append(Position(_kl(p, q), bound, renormalised))
    return found


def _log_softmax(logits: Numbers) -> Numbers:
    shifted = logits - logits.max()
    found: Numbers = shifted - np.log(np.exp(shifted).sum())
    return found


def _kl(p: Numbers, q: Numbers) -> float:
    return float((np.exp(p) * (p - q)).sum())


def table(seed: int) -> list[str]:
    """The table as Markdown."""
    rows = [
        "| logits' spread | noise | renormalised exceeds the truth | at worst, times | lower bound exceeds it | lower bound / truth, median |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for spread, noise in ((1.0, 0.05), (2.0, 0.05), (3.0, 0.05), (5.0, 0.05), (3.0, 0.5)):
        found = positions(seed, spread, noise)
        over = sum(one.renormalised > one.true for one in found) / len(found)
        worst = max(one.renormalised / one.true for one in found)
        broken = sum(one.bound > one.true + 1e-6 for one in found)
        caught = float(np.median([one.bound / one.true for one in found]))
        rows.append(
            f"| {spread:g} nat | {noise:g} nat | {over:.0%} of {len(found)} positions | {worst:.1f} | {broken} | {caught:.2f} |"
        )
    return rows
