"""Ratios of pairs measured in turn, their interval, and what a bound makes of them.

House rules. Pure arithmetic on numbers; knows no peer and no unit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import mean, stdev

#: Student's t at 97.5 % for 1, 2, ... degrees of freedom (any table); beyond them the normal quantile is near enough.
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120)
_T += (2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042)
_NORMAL = 1.96
#: Of the sampled requests so many must have reached the shadow and been read to their end, else nothing was measured.
LEAST_SHARE = 0.99


class Verdict(Enum):
    """What a bound makes of an interval. ``UNDECIDED``: the ratio lies beyond the bound, its interval does not wholly; or it has no interval. ``SHOWN``: there is no bound."""

    MET = "met"
    UNDECIDED = "undecided"
    NOT_MET = "not met"
    VOID = "void"
    SHOWN = "-"


@dataclass(frozen=True)
class Interval:
    """A ratio with its 95 % interval, over ``pairs`` pairs."""

    ratio: float
    low: float
    high: float
    pairs: int


def of_pairs(ours: Sequence[float], theirs: Sequence[float]) -> Interval:
    """The geometric mean of ``ours[i] / theirs[i]`` and Student's interval of the mean of their logarithms. One pair has no interval: it is unbounded."""
    logs = [math.log(a / b) for a, b in zip(ours, theirs, strict=True)]
    middle = mean(logs)
    if len(logs) < 2:
        return Interval(math.exp(middle), 0.0, math.inf, len(logs))
    t = _T[len(logs) - 2] if len(logs) - 2 < len(_T) else _NORMAL
    half = t * stdev(logs) / math.sqrt(len(logs))
    return Interval(math.exp(middle), math.exp(middle - half), math.exp(middle + half), len(logs))


def at_most(interval: Interval, bound: float, share: float = 1.0) -> Verdict:
    """Not met only when the whole interval lies above the bound; void when too little was mirrored."""
    if share < LEAST_SHARE:
        return Verdict.VOID
    if interval.low > bound:
        return Verdict.NOT_MET
    return Verdict.MET if interval.ratio <= bound and interval.high < math.inf else Verdict.UNDECIDED


def at_least(interval: Interval, bound: float, share: float = 1.0) -> Verdict:
    """The same for a bound from below."""
    if share < LEAST_SHARE:
        return Verdict.VOID
    if interval.high < bound:
        return Verdict.NOT_MET
    return Verdict.MET if interval.ratio >= bound and interval.low > 0.0 else Verdict.UNDECIDED
