"""Intervals of what was seen a few times only, or never: counts whose unit is the conversation, where percentiles of a bootstrap are too narrow or a point.

A count of few is taken as that of so many independent events as its variance over conversations leaves of it (``wider``), and has the
interval of a Poisson mean: Byar's approximation of the exact one (Breslow and Day 1987, "Statistical methods in cancer research", volume II, page 69), which at one event is a little wider.

What was never seen is bounded by the rule of three (Hanley and Lippman-Hand 1983, JAMA 249, 1743-1745), and that in conversations: ln(1 / miss) of them at most, each with as much as it can
have. Where nothing but its length limits that, it is taken to be as much as in those conversations of the arm beside it that have any (``size``).

House rules. Pure arithmetic. Nothing is known here of arms, quantities or units; edges come in those of what was given.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import hypot, log, sqrt

Edges = tuple[float, float]

#: With fewer independent events than this percentiles of a bootstrap hold the truth too seldom.
FEW = 20.0

_Z = 1.959964


def variance(values: Sequence[float]) -> float:
    """Return the variance of all replicates, infinite where it is beyond a float."""
    mean = sum(values) / len(values)
    return sum((one - mean) * (one - mean) for one in values) / len(values)


def wider(variance_: float, events: float, conversations: int, least: float = 1.0) -> float:
    """Return what of a count varies as one event does: its variance over itself, ``least`` of independent events.

    What is above that is taken to be larger by as much as so many ``conversations`` with events may hide: a few of them show sizes that are too much alike. (The 3 is of simulations with
    known truth, ``tests/compare/test_rare.py``: it makes up for that between one event and twenty.)
    """
    return least + max(0.0, variance_ / events - least) * (1.0 + 3.0 / conversations)


def counted(events: float, size_: float) -> Edges:
    """Return the 95 % interval of the mean of a count (not 0); ``size_``: what one independent event is worth, in the unit of ``events``."""
    n = events / size_
    low = 1.0 - 1.0 / (9.0 * n) - _Z / (3.0 * sqrt(n))
    high = 1.0 - 1.0 / (9.0 * (n + 1.0)) + _Z / (3.0 * sqrt(n + 1.0))
    return size_ * n * max(0.0, low) ** 3, size_ * (n + 1.0) * high**3


def unseen(miss: float) -> float:
    """Return how many conversations may have what none had, but with probability ``miss``."""
    return log(1.0 / miss)


def size(parts: Iterable[int]) -> int:
    """Return how much conversations have that have any, each weighed by it: sum k^2 / sum k, 0 without any; of sizes, where some are negative."""
    found = [abs(part) for part in parts]
    whole = sum(found)
    return -(-sum(part * part for part in found) // whole) if whole else 0


def difference(one: tuple[float, Edges], other: tuple[float, Edges]) -> Edges:
    """Return the interval of a difference from those of its terms (MOVER), each a (value, interval).

    Zou and Donner 2008, "Construction of confidence limits about effect measures: a general approach", Statistics in Medicine 27, 1693-1702. The terms are taken as independent;
    arms of the same conversations part together if anything, which makes the interval too wide rather than too narrow.
    """
    (value, edges), (base, floor) = one, other
    low = value - base - hypot(value - edges[0], floor[1] - base)
    return low, value - base + hypot(edges[1] - value, base - floor[0])
