"""Where an arm could have flipped and where it did: counts by the primary's gap, conversation by conversation.

House rules. Pure. Only positions count whose gap the primary's list shows and of which both arms' first choice is known. Bins are fixed, a quarter octave wide, so that counts of any number of
workers add up; exact ties have one of their own. All gaps and shifts are in nats.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from math import floor, log2, sqrt
from typing import NamedTuple

from msgspec import Struct, field

from proxy.compare.comparison import Comparison, Mode
from proxy.compare.near_tie import RESOLUTION
from proxy.compare.quantile import quantile

_LOWEST, _HIGHEST, _PER_OCTAVE = -20, 6, 4
_BINS = (_HIGHEST - _LOWEST) * _PER_OCTAVE + 2
_LARGEST = 1e5  # no two logits are as far apart: what says so is no logprob
#: In shifts: gaps below are as good as none, and no flip of normal noise is as far away.
_NEAR, _NEVER = 0.25, 8.0


class Positions(Struct):
    """What one conversation shows: by bin of the primary's gap its positions and its flips; and its shifts (nats)."""

    bins: dict[int, list[int]] = field(default_factory=dict)
    shifts: list[float] = field(default_factory=list)

    @property
    def flips(self) -> int:
        """How many flips."""
        return sum(flips for _, flips in self.bins.values())

    @property
    def squares(self) -> float:
        """The sum of the squares of its shifts."""
        return sum(shift * shift for shift in self.shifts)


class Arm(Struct):
    """An arm's positions by conversation.

    ``known`` is false where conversations could not be told apart. ``chose``: it answered by itself, so that where it finds two tokens equal it took one of them; an arm that scores only
    shows that they are. ``gaps`` are sums by bin.
    """

    conversations: dict[str, Positions] = field(default_factory=dict)
    known: bool = True
    chose: bool = False
    gaps: dict[int, float] = field(default_factory=dict)

    @property
    def positions(self) -> int:
        """How many positions."""
        return sum(n for one in self.conversations.values() for n, _ in one.bins.values())

    @property
    def flips(self) -> int:
        """How many flips."""
        return sum(one.flips for one in self.conversations.values())

    @property
    def flipped(self) -> int:
        """How many conversations have one."""
        return sum(one.flips > 0 for one in self.conversations.values())

    @property
    def shifts(self) -> int:
        """How many shifts."""
        return sum(len(one.shifts) for one in self.conversations.values())

    @property
    def scale(self) -> float:
        """The root mean square of the shifts, in nats; 0 without any."""
        squares = sum(one.squares for one in self.conversations.values())
        return sqrt(squares / self.shifts) if squares else 0.0

    @property
    def typical(self) -> tuple[float, float]:
        """The share of shifts that are not 0, and the size (nats) that nearly all of those agree with; 0 without any.

        The 95th percentile over the normal's own: what fewer than one in twenty of them does, a fault for one, leaves it as it is.
        """
        moved = sorted(
            abs(shift) for one in self.conversations.values() for shift in one.shifts if abs(shift) > RESOLUTION
        )
        return (len(moved) / self.shifts, quantile(moved, 0.95) / 1.959964) if moved else (0.0, 0.0)


class Layout(NamedTuple):
    """The bins that two arms need, as columns in the order of their gaps: which bin is in which, the mean gap in each, and where each begins."""

    column: dict[int, int]
    gaps: list[float]
    edges: list[float]


def gather(comparisons: Sequence[Comparison], conversations: Sequence[str]) -> Arm:
    """Collect an arm's positions; ``conversations`` has one key a comparison, "" where it is not known: then it counts as one of its own."""
    arm = Arm(known=all(conversations), chose=any(one.mode is Mode.FREE for one in comparisons))
    for number, (one, key) in enumerate(zip(comparisons, conversations, strict=True)):
        if one.incomparable is not None:
            continue
        into = arm.conversations.setdefault(key or f"#{number}", Positions())
        for choice in one.choices:
            for gap, agree in zip(choice.gaps, choice.top1_agree, strict=False):
                if gap is None or agree is None:
                    continue
                place = _bin(gap)
                counted = into.bins.setdefault(place, [0, 0])
                counted[0] += 1
                counted[1] += not agree
                arm.gaps[place] = arm.gaps.get(place, 0.0) + min(gap, _LARGEST)
            if one.values_incomparable is None:
                into.shifts += [one for one in choice.gap_shifts if one is not None and abs(one) < _LARGEST]
    return arm


def flips_by_gap(comparison: Comparison) -> int:
    """Return how many flips a comparison has at positions whose gap is known."""
    return sum(
        gap is not None and agree is False
        for choice in comparison.choices
        for gap, agree in zip(choice.gaps, choice.top1_agree, strict=False)
    )


def passing(shifts: Sequence[float], gaps: Sequence[float], *, chose: bool) -> list[int]:
    """Count shifts, in halves, by how many of the ascending ``gaps`` they outweigh: entry k is of those that outweigh k + 1 of them.

    A shift as large as the gap makes the two tokens equal. An arm that chose then took either, a half each (not at a gap of 0, where nothing has changed); one that scores
    shows no flip.
    """
    counted = [0] * len(gaps)
    for shift in shifts:
        if shift < -RESOLUTION:
            over = bisect_left(gaps, -shift - RESOLUTION)
            upto = bisect_right(gaps, -shift + RESOLUTION) if chose else over
            for reached in (over, upto):
                if reached:
                    counted[reached - 1] += 1
    return counted


def layout(arm: Arm, control: Arm) -> Layout:
    """Return the columns: bins between which neither arm's noise makes a difference are one, those next to no gap and those where nobody flips.

    A column stands for the mean of its gaps: logits that move in steps have them all in one spot of a bin.
    """
    sides = (arm,) if arm is control else (arm, control)
    scales = [side.scale for side in sides]
    near = _bin(_NEAR * min(scales))
    flipped = [
        place
        for side in sides
        for one in side.conversations.values()
        for place, (_, flips) in one.bins.items()
        if flips
    ]
    last = max([_bin(_NEVER * max(scales)), *flipped])
    used = sorted({place for side in sides for place in side.gaps})
    joined = {place: 0 if place == 0 else min(max(place, near), last + 1) for place in used}
    columns = sorted(set(joined.values()))
    column = {place: columns.index(joined[place]) for place in used}
    sums, counts = [0.0] * len(columns), [0] * len(columns)
    for side in sides:
        for place, total in side.gaps.items():
            sums[column[place]] += total
        for one in side.conversations.values():
            for place, (n, _) in one.bins.items():
                counts[column[place]] += n
    edges = [_edge(min(place for place in used if column[place] == number)) for number in range(len(columns))]
    return Layout(column, [total / n for total, n in zip(sums, counts, strict=True)], edges)


def _bin(gap: float) -> int:
    if gap <= RESOLUTION:
        return 0
    if gap >= _LARGEST:
        return _BINS - 1
    return min(_BINS - 1, 1 + max(0, floor((log2(gap) - _LOWEST) * _PER_OCTAVE)))


def _edge(place: int) -> float:
    """Return the lower edge of a bin, in nats."""
    return 0.0 if place == 0 else RESOLUTION if place == 1 else 2.0 ** (_LOWEST + (place - 1) / _PER_OCTAVE)
