"""Quantiles and summaries of plain numbers.

House rules. An empty list has no summary: the caller leaves the quantity out, and nothing is ever 0 for want of data.
Quantiles interpolate linearly between order statistics (definition 7 of Hyndman and Fan 1996), as numpy does by default, so
that numbers recomputed from exported records are the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import floor, fsum


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return the quantile of a sorted, non-empty sequence; ``share`` in [0, 1]."""
    at = share * (len(ordered) - 1)
    low = floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def distribution(values: Iterable[float]) -> dict[str, float]:
    """Return ``median``, ``p90``, ``p99``, ``max``, ``mean`` and ``count``; empty without values."""
    ordered = sorted(values)
    if not ordered:
        return {}
    return {
        "median": quantile(ordered, 0.5),
        "p90": quantile(ordered, 0.9),
        "p99": quantile(ordered, 0.99),
        "max": ordered[-1],
        "mean": fsum(ordered) / len(ordered),
        "count": len(ordered),
    }
