"""A histogram that adds up: values of any size in fixed bins, and from them quantiles and shares within a stated error.

House rules. A bin is the exponent of a double and the first five bits of its mantissa: 32 bins an octave, 106 a decade, the same on every machine and for
every quantity, exact 0 a bin of its own. Counts and sums are integers, so that shards, workers and restarts add up exactly, in any order. Only
finite values of 0 and more.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate
from math import floor
from struct import pack, unpack

from msgspec import Struct, field

#: A quantile is at most this far from the exact one, relative to it: the width of a bin by its lower edge. Within a bin values are taken to lie evenly, so
#: that it is mostly far nearer.
RELATIVE_ERROR = 1.0 / 32.0
#: Sums are kept in multiples of 1 / UNIT, which is below the resolution of any value in nats or seconds.
UNIT = 1 << 64

_SHIFT = 52 - 5
_LITTLE = array("H", [1]).tobytes() == b"\1\0"
_UNITS = float(UNIT)
_LARGEST = 2.0**900  # beyond it a product with UNIT may not be a float


def fixed(value: float) -> int:
    """Return a value in multiples of 1 / ``UNIT``, towards 0. Raises ValueError or OverflowError for what is not finite."""
    return int(value * UNIT) if -_LARGEST < value < _LARGEST else int(value) * UNIT


def bins_of(values: Sequence[float]) -> list[int]:
    """Return the bin of each value's magnitude."""
    return binned(values).tolist()


def binned(values: Sequence[float]) -> array[int]:
    """Return the same, 16 bits each.

    All of them as one integer, a bit further up: then a value's sign is where the next one begins, and its bin the highest of its four 16-bit parts.
    """
    moved = int.from_bytes(pack(f"<{len(values)}d", *values), "little") << 1
    parts = array("H", moved.to_bytes(8 * len(values) + 1, "little")[: 8 * len(values)])
    if not _LITTLE:
        parts.byteswap()
    return parts[3::4]


def lower(index: int) -> float:
    """Return the lower edge of a bin, which belongs to it."""
    edge: float = unpack("<d", pack("<Q", index << _SHIFT))[0]
    return edge


def span(index: int) -> tuple[float, float]:
    """Return the lower edge and the width of a bin; that of 0 has none."""
    edge = lower(index)
    return (edge, lower(index + 1) - edge) if index else (0.0, 0.0)


class Bins(Struct):
    """Counts by bin, the sum in multiples of 1 / ``UNIT``, and the largest value (0 without any)."""

    counts: dict[int, int] = field(default_factory=dict)
    total: int = 0
    largest: float = 0.0

    @classmethod
    def of(cls, values: Iterable[float]) -> Bins:
        """Return the histogram of some values."""
        made = cls()
        made.add(values)
        return made

    def add(self, values: Iterable[float]) -> None:
        """Take in values. Raises ValueError for a negative one, and ValueError or OverflowError for what is not finite; then nothing is taken."""
        taken = list(values)
        if not taken:
            return
        if min(taken) < 0.0:
            raise ValueError("a histogram is of values of 0 and more")
        largest = max(taken)
        self.total += sum(map(int, map(_UNITS.__mul__, taken)) if largest < _LARGEST else map(fixed, taken))
        self.largest = max(self.largest, largest)
        for index, count in Counter(bins_of(taken)).items():
            self.counts[index] = self.counts.get(index, 0) + count

    def __add__(self, other: Bins) -> Bins:
        counts = Counter(self.counts)
        counts.update(other.counts)
        return Bins(dict(counts), self.total + other.total, max(self.largest, other.largest))

    def __len__(self) -> int:
        return sum(self.counts.values())

    @property
    def mean(self) -> float | None:
        """The mean, exact but for the rounding of each value to a multiple of 1 / ``UNIT``; None without values."""
        return self.total / (len(self) * UNIT) if self.counts else None

    def quantile(self, share: float) -> float | None:
        """Return a quantile (linear between order statistics, as ``quantile.quantile``), within ``RELATIVE_ERROR`` of the exact one; None without values."""
        return self.quantiles((share,))[0] if self.counts else None

    def quantiles(self, shares: Sequence[float]) -> list[float]:
        """Return several quantiles at once; there must be values."""
        indices = sorted(self.counts)
        below = list(accumulate(self.counts[index] for index in indices))
        spans = [span(index) for index in indices]
        return [min(quantile_of(spans, below, share), self.largest) for share in shares]

    def share_above(self, value: float) -> float | None:
        """Return the share of values above one; None without values. Within its bin values are taken to lie evenly, so it is exact for 0 only."""
        if not self.counts:
            return None
        (at,) = bins_of((value,))
        above = sum(count for index, count in self.counts.items() if index > at)
        edge, width = span(at)
        inside = self.counts.get(at, 0) * (edge + width - value) / width if width else 0.0
        return (above + inside) / len(self)


def quantile_of(spans: Sequence[tuple[float, float]], below: Sequence[int], share: float) -> float:
    """Return a quantile of values in ascending bins, of which the first ``below[i]`` are in ``spans[i]`` (lower edge, width) or before; not empty."""
    at = share * (below[-1] - 1)
    rank = floor(at)
    low = bisect_right(below, rank)
    value = _ordered(spans, below, low, rank)
    if at == rank:
        return value
    high = low if rank + 1 < below[low] else bisect_right(below, rank + 1, low)
    return value + (_ordered(spans, below, high, rank + 1) - value) * (at - rank)


def _ordered(spans: Sequence[tuple[float, float]], below: Sequence[int], index: int, rank: int) -> float:
    """Return the value of a rank (from 0) that lies in one bin."""
    edge, width = spans[index]
    before = below[index - 1] if index else 0
    return edge + width * (rank - before + 0.5) / (below[index] - before)
