"""How far replies stay the same: the Kaplan-Meier estimate over token positions, with intervals whose unit is the conversation.

S(t) is the share of replies whose first t tokens are the primary's, estimated from all replies, also from those that ended or were cut before t: at each position
the share that parted, of those still watched there, is multiplied in (Kaplan and Meier 1958, "Nonparametric estimation from incomplete observations", JASA 53).
Averaging the position of first differences over the replies that parted is no substitute: it knows nothing of those that did not.

House rules. Pure. Beyond the last watched position S is unknown and not the last value. What nobody saw is bounded by the rule of three, as in ``hazard``,
and no interval is ever a point.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import ceil, floor, inf, log
from typing import Any

from msgspec import Struct

from proxy.compare.hazard import CONFIDENCE, ENOUGH_CONVERSATIONS, Edges
from proxy.compare.life import Life
from proxy.compare.quantile import quantile
from proxy.compare.resample import REPLICATES, lanes, replicates

#: At most so many positions are shown: powers of two and the numbers half-way between, up to the longest reply.
MOST_POSITIONS = 64

_HALF = 0.5 + 1e-12  # a product of shares that is 1/2 but for its rounding
_TAIL = (1.0 - CONFIDENCE) / 2
_NEVER_SEEN = log(1.0 / (1.0 - CONFIDENCE))  # about 3: the rule of three


class Curve(Struct, frozen=True):
    """One arm's estimate at the positions asked for. ``median``: the first t with S(t) <= 1/2, None where it is not reached; its interval's edges likewise.

    ``at_risk``: streams still watched at each position. ``values`` and ``intervals`` are None where nobody is, intervals also where too few conversations are.
    """

    streams: int
    events: int
    at_risk: tuple[int, ...]
    values: tuple[float | None, ...]
    intervals: tuple[Edges | None, ...]
    median: int | None = None
    median_interval: tuple[int | None, int | None] | None = None


def grid(longest: int) -> list[int]:
    """Return the positions to show for replies of up to so many tokens: 1, 2, 3, 4, 6, 8, 12, ..."""
    found: list[int] = []
    power = 1
    while power <= longest and len(found) < MOST_POSITIONS - 1:
        found += [power, power * 3 // 2] if power > 1 else [power]
        power *= 2
    return [one for one in found if one <= longest]


def survival(arms: Mapping[str, Sequence[Life]], *, resampled: bool) -> dict[str, Any]:
    """Return the arms' curves side by side, JSON-ready; empty where nothing was watched.

    ``positions``, then for each arm its values; ``at_risk``, ``intervals``, ``streams``, ``events`` and ``median`` by arm. ``resampled`` False: conversations are not
    known, and there are no intervals. A median that is not reached is absent.
    """
    watched = {name: lives for name, lives in arms.items() if lives}
    positions = grid(max((one.exposed for lives in watched.values() for one in lives), default=0))
    if not positions:
        return {}
    curves = {name: curve(lives, positions, resampled=resampled) for name, lives in watched.items()}
    found: dict[str, Any] = {"positions": positions}
    found |= {name: list(one.values) for name, one in curves.items()}
    found["at_risk"] = {name: list(one.at_risk) for name, one in curves.items()}
    if resampled:
        found["intervals"] = {name: [edges and list(edges) for edges in one.intervals] for name, one in curves.items()}
    found["streams"] = {name: one.streams for name, one in curves.items()}
    found["events"] = {name: one.events for name, one in curves.items()}
    found["median"] = {name: _median(one) for name, one in curves.items() if one.median is not None}
    return found


def _median(one: Curve) -> dict[str, Any]:
    edges = one.median_interval
    return {"position": one.median} | ({} if edges is None else {"interval": list(edges)})


def curve(lives: Sequence[Life], positions: Sequence[int], *, resampled: bool = True) -> Curve:
    """Estimate one arm's survival at ascending ``positions``; lives without exposure do not count."""
    watched = [one for one in lives if one.exposed]
    walk = _Walk(watched, resampled=resampled)
    ends = sorted(one.exposed for one in watched)
    furthest: dict[str, int] = {}
    for one in watched:
        furthest[one.conversation] = max(one.exposed, furthest.get(one.conversation, 0))
    conversations = sorted(furthest.values())
    values: list[float | None] = []
    intervals: list[Edges | None] = []
    at_risk: list[int] = []
    for position in positions:
        walk.to(position)
        at_risk.append(len(ends) - bisect_left(ends, position))
        value = walk.share if at_risk[-1] or not walk.share else None
        values.append(value)
        left = len(conversations) - bisect_left(conversations, position)
        intervals.append(walk.edges(left, len(conversations)) if resampled and value is not None else None)
    walk.to(inf)
    return Curve(
        streams=len(watched),
        events=sum(one.parted for one in watched),
        at_risk=tuple(at_risk),
        values=tuple(values),
        intervals=tuple(intervals),
        median=None if walk.median == inf else int(walk.median),
        median_interval=walk.median_edges() if len(conversations) >= ENOUGH_CONVERSATIONS else None,
    )


class _End(Struct):
    """Streams that ended at one position, and those of them that parted there; the same in every replicate, as lanes."""

    ended: int = 0
    parted: int = 0
    drawn_ended: int = 0
    drawn_parted: int = 0


class _Walk:
    """The estimate and its replicates, brought forward from one position to the next."""

    def __init__(self, lives: Iterable[Life], *, resampled: bool) -> None:
        """Sort the lives by where they end; ``resampled`` False leaves the replicates out."""
        ends: defaultdict[int, _End] = defaultdict(_End)
        for one in lives:
            weight = lanes(one.conversation) if resampled else 0
            end = ends[one.exposed]
            end.ended += 1
            end.drawn_ended += weight
            if one.parted:
                end.parted += 1
                end.drawn_parted += weight
        self._ends = sorted(ends.items())
        self._at = 0
        self._left = sum(end.ended for end in ends.values())
        self._drawn_left = sum(end.drawn_ended for end in ends.values())
        self.share = 1.0
        self.median = inf
        self._drawn = [1.0] * (REPLICATES if resampled else 0)
        self._medians = [inf] * len(self._drawn)

    def to(self, position: float) -> None:
        """Take in all that ended up to and at a position."""
        while self._at < len(self._ends) and self._ends[self._at][0] <= position:
            at, end = self._ends[self._at]
            if end.parted:
                self._part(at, end)
            self._left -= end.ended
            self._drawn_left -= end.drawn_ended
            self._at += 1

    def _part(self, at: int, end: _End) -> None:
        self.share *= 1.0 - end.parted / self._left
        if self.share <= _HALF:
            self.median = min(self.median, at)
        if not self._drawn:
            return
        events, watched = replicates(end.drawn_parted), replicates(self._drawn_left)
        self._drawn = [
            share * (1.0 - some / among) if some else share
            for share, some, among in zip(self._drawn, events, watched, strict=True)
        ]
        if min(self._drawn) <= _HALF:
            self._medians = [
                at if median == inf and share <= _HALF else median
                for share, median in zip(self._drawn, self._medians, strict=True)
            ]

    def edges(self, conversations: int, of: int) -> Edges | None:
        """Return the interval of the share where the walk stands, with so many conversations still watched, ``of`` all.

        If n conversations are the same so far, and conversation i parts with probability p_i, then that has probability exp(-sum p_i) at most, so the mean of p_i is at
        most ln(20) / n at 95 %: the rule of three (see ``hazard.bound``). Where every one has parted it bounds the other side.
        """
        if self.share == 1.0:
            return (1.0 - min(1.0, _NEVER_SEEN / conversations), 1.0)
        if (self.share and conversations < ENOUGH_CONVERSATIONS) or of < ENOUGH_CONVERSATIONS:
            return None
        ordered = sorted(self._drawn)
        low, high = quantile(ordered, _TAIL), quantile(ordered, 1.0 - _TAIL)
        return (low, high) if low < high else (low, min(1.0, _NEVER_SEEN / of))

    def median_edges(self) -> tuple[int | None, int | None] | None:
        """Return the interval of the median, None on a side that does not reach it; None as a whole without replicates."""
        if not self._medians:
            return None
        ordered = sorted(self._medians)
        edges = ordered[floor(_TAIL * (REPLICATES - 1))], ordered[ceil((1.0 - _TAIL) * (REPLICATES - 1))]
        low, high = (None if one == inf else int(one) for one in edges)
        return low, high
