"""Quantiles of what is kept as counts by bucket, as Prometheus' ``histogram_quantile`` gives them: straight lines inside a bucket.

House rules. Pure. A quantile beyond the last edge is not known: None. The number of observations goes with every one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from msgspec import Struct


class Spread(Struct, frozen=True):
    """What is known of a distribution: how many observations, their mean, two quantiles, and the last edge."""

    n: int
    mean: float | None = None
    p50: float | None = None
    p99: float | None = None
    beyond: float = 0.0


def spread(edges: Sequence[float], counts: Sequence[int], total: float) -> Spread:
    """Sum up one histogram: ``counts`` by bucket (not cumulative, the last is above all edges) and the sum of the values."""
    n = sum(counts)
    if not n:
        return Spread(0)
    return Spread(n, total / n, quantile(edges, counts, 0.5), quantile(edges, counts, 0.99), edges[-1])


def quantile(edges: Sequence[float], counts: Sequence[int], q: float) -> float | None:
    """Return the value below which a share ``q`` lies; None where that is above the last edge, or nothing was observed."""
    wanted, below = q * sum(counts), 0
    if not wanted:
        return None
    for (low, high), count in zip(pairwise([min(0.0, edges[0]), *edges]), counts[:-1], strict=True):
        if count and below + count >= wanted:
            return low + (high - low) * (wanted - below) / count
        below += count
    return None


def together(many: Iterable[tuple[Sequence[int], float]]) -> tuple[list[int], float]:
    """Add up histograms of the same edges."""
    found: list[int] = []
    total = 0.0
    for counts, one in many:
        found = list(counts) if not found else [a + b for a, b in zip(found, counts, strict=True)]
        total += one
    return found, total
