"""Confidence sequences: intervals that hold at all times at once with probability 1 - alpha, for means in [0, 1] and for quantiles, from sums.

The unit is the conversation: each gives one value in [0, 1], the conversations' values having one mean whatever came before. Their mean is bet on as in
``betting`` (Waudby-Smith and Ramdas, arXiv 2010.09686), its interval being the means against which nothing speaks. A quantile is bet on through the
share of what lies above a point, as Howard and Ramdas do (arXiv 1906.09712: a count of values on one side of the quantile sought is a sum of bounded variables with a known
mean): the quantile of level p is above an edge if the mean share above the edge exceeds 1 - p. What is above one edge is above all lower ones, so that evidence falls
or rises along the edges, and the one edge next to the true quantile decides whether any of them misleads: one test a side, however many edges.

House rules. Pure; the states are sums of whole numbers, so shards and restarts add up exactly. Bins never make an interval too narrow: a value between two edges counts as a
mixture of both, which wins no bet more than the value itself does, the log of wealth being concave in it; where in between is rounded down for the lower end, up for the upper.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate, islice
from math import ceil, floor, log

from msgspec import Struct

from proxy.compare.betting import Counted, interval_of, log_wealth

#: Edges of the bins of [0, 1]: two to an octave down to 2^-16, below which a share is next to none.
_EDGES = (0.0, *(scale * 2.0**-power for power in range(16, 0, -1) for scale in (1.0, 1.5)), 1.0)
#: Steps into which a bin is divided.
_PARTS = 256

Interval = tuple[float, float]


class Shares(Struct, frozen=True):
    """How values in [0, 1] are distributed: by bin, how many, and how far up in it they are, in ``_PARTS`` of its width, summed up rounded down and rounded up."""

    counts: tuple[int, ...] = (0,) * (len(_EDGES) - 1)
    downs: tuple[int, ...] = (0,) * (len(_EDGES) - 1)
    ups: tuple[int, ...] = (0,) * (len(_EDGES) - 1)

    @classmethod
    def of(cls, values: Iterable[float]) -> Shares:
        """Count values, one for each conversation. Raises ValueError for one outside [0, 1]."""
        counts, downs, ups = ([0] * (len(_EDGES) - 1) for _ in range(3))
        for value, often in Counter(values).items():
            if not 0.0 <= value <= 1.0:
                raise ValueError(f"{value} is no share: a mean is bounded for values from 0 to 1 alone")
            place = min(bisect_right(_EDGES, value), len(_EDGES) - 1) - 1
            part = _PARTS * (value - _EDGES[place]) / (_EDGES[place + 1] - _EDGES[place])
            counts[place] += often
            downs[place] += often * floor(part)
            ups[place] += often * ceil(part)
        return cls(tuple(counts), tuple(downs), tuple(ups))

    @classmethod
    def placed(cls, place: int, count: int, down: int, up: int) -> Shares:
        """Return the values of one bin, as they were counted."""
        counts, downs, ups = ([0] * (len(_EDGES) - 1) for _ in range(3))
        counts[place], downs[place], ups[place] = count, down, up
        return cls(tuple(counts), tuple(downs), tuple(ups))

    def __add__(self, other: Shares) -> Shares:
        return Shares(_sums(self.counts, other.counts), _sums(self.downs, other.downs), _sums(self.ups, other.ups))

    @property
    def total(self) -> int:
        """How many conversations."""
        return sum(self.counts)

    @property
    def lowered(self) -> Counted:
        """The values as mixtures of edges, rounded down."""
        return _spread(self.counts, self.downs)

    @property
    def raised(self) -> Counted:
        """The values as mixtures of edges, rounded up."""
        return _spread(self.counts, self.ups)


def _sums(ours: Sequence[int], theirs: Sequence[int]) -> tuple[int, ...]:
    return tuple(one + other for one, other in zip(ours, theirs, strict=True))


def _spread(counts: Sequence[int], parts: Sequence[int]) -> Counted:
    """Give each edge what lies in the bins beside it, the more the nearer."""
    weights = [0.0] * len(_EDGES)
    for place, (count, part) in enumerate(zip(counts, parts, strict=True)):
        weights[place] += count - part / _PARTS
        weights[place + 1] += part / _PARTS
    return [(edge, weight) for edge, weight in zip(_EDGES, weights, strict=True) if weight]


def mean_interval(shares: Shares, alpha: float) -> Interval | None:
    """Return the interval of the mean, at all times at once with probability 1 - ``alpha``; None without conversations."""
    return interval_of(shares.lowered, shares.raised, alpha) if shares.total else None


class Tails(Struct, frozen=True):
    """Conversations' shares of values above each edge.

    ``edges`` ascend. A conversation with one value has a share of 0 or 1; one with many (a token each) counts the same as any other.
    """

    edges: tuple[float, ...]
    above: tuple[Shares, ...]

    @classmethod
    def of(cls, edges: Sequence[float], conversations: Iterable[Sequence[float]]) -> Tails:
        """Count the values of conversations; one without any is left out."""
        found = [_shares_above(edges, values) for values in conversations if values]
        return cls(tuple(edges), tuple(Shares.of(one[place] for one in found) for place in range(len(edges))))

    def __add__(self, other: Tails) -> Tails:
        if self.edges != other.edges:
            raise ValueError("tails over other edges do not add up")
        return Tails(self.edges, tuple(one + two for one, two in zip(self.above, other.above, strict=True)))

    @property
    def total(self) -> int:
        """How many conversations."""
        return self.above[0].total if self.above else 0


def _shares_above(edges: Sequence[float], values: Sequence[float]) -> list[float]:
    inside = [0] * (len(edges) + 1)
    for value in values:
        inside[bisect_left(edges, value)] += 1
    below = accumulate(inside)
    return [(len(values) - at_most) / len(values) for at_most in islice(below, len(edges))]


def quantile_interval(tails: Tails, level: float, alpha: float) -> tuple[float | None, float | None] | None:
    """Return two edges between which the quantile of ``level`` lies at all times at once with probability 1 - ``alpha``.

    Above the first, not above the second. None for an end of which nothing is known yet, or that lies beyond the edges; None altogether without conversations.
    """
    if not tails.total:
        return None
    bound, tail, places = log(2.0 / alpha), 1.0 - level, range(len(tails.edges))

    def not_above(place: int) -> bool:
        return log_wealth(tails.above[place].lowered, tail, over=True) < bound

    def below(place: int) -> bool:
        return log_wealth(tails.above[place].raised, tail, over=False) >= bound

    lower, upper = bisect_left(places, True, key=not_above), bisect_left(places, True, key=below)
    return (tails.edges[lower - 1] if lower else None, tails.edges[upper] if upper < len(places) else None)
