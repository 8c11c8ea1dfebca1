"""Sums and quantiles over conversations in all replicates of the bootstrap at once: numbers of any size and sign, histograms.

House rules. Pure, and exact: everything is an integer, a lane of it each replicate (as ``resample``, with lanes as wide as a sum needs), so that one product
gives a conversation's part of all replicates. Nothing but the interpreter is needed for that, and a hundred thousand tokens take a fraction of a second.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate

from proxy.compare.bins import quantile_of
from proxy.compare.resample import REPLICATES

#: No weight is larger (``resample`` knows no more thresholds).
LARGEST_WEIGHT = 8
_LANE = 32  # bits; a lane is one or more of these
_NATIVE = {32: "I", 64: "Q"}


@lru_cache(maxsize=64)
def _halves(width: int) -> int:
    """Return an integer with half of its range in each lane, which makes every lane positive."""
    return int.from_bytes((1 << (width - 1)).to_bytes(width // 8, "little") * REPLICATES, "little")


def width_for(values: Iterable[int]) -> int:
    """Return how many bits a lane needs to hold the weighted sum of some numbers of either sign."""
    most = LARGEST_WEIGHT * sum(map(abs, values))
    return max(_LANE, -(-(most.bit_length() + 1) // _LANE) * _LANE)


class Weights:
    """One conversation's weights (``resample.weights``), as lanes of any width."""

    def __init__(self, weights: bytes) -> None:
        self._weights = weights
        self._packed: dict[int, int] = {}

    def lanes(self, width: int) -> int:
        """Return the weights in lanes of so many bits."""
        found = self._packed.get(width)
        if found is None:
            wide = bytearray(REPLICATES * width // 8)
            wide[:: width // 8] = self._weights
            found = self._packed[width] = int.from_bytes(wide, "little")
        return found


def unpack(lanes: int, width: int) -> list[int]:
    """Return the number in each lane."""
    size, half = width // 8, 1 << (width - 1)
    content = (lanes + _halves(width)).to_bytes(size * REPLICATES, "little")
    if (code := _NATIVE.get(width)) is not None:
        return [lane - half for lane in struct.unpack(f"<{REPLICATES}{code}", content)]
    return [int.from_bytes(content[at : at + size], "little") - half for at in range(0, len(content), size)]


class Sums:
    """The weighted sums of one number over conversations. ``values``: all that will be added, whatever their order."""

    def __init__(self, values: Iterable[int]) -> None:
        self._width = width_for(values)
        self._lanes = 0

    def add(self, weights: Weights, value: int) -> None:
        """Add one conversation's number."""
        if value:
            self._lanes += weights.lanes(self._width) * value

    def replicates(self) -> list[int]:
        """Return the sum in each replicate."""
        return unpack(self._lanes, self._width)


class Outside(Exception):
    """A replicate's quantile lies where a histogram was not kept in full."""


class Histograms:
    """The weighted histograms of one quantity over conversations.

    ``counts``: all values by bin, before weighting. ``shares``: the quantiles that will be asked for; only the bins near them are kept apart, for a replicate's
    quantile is hardly ever elsewhere. Without: all are.
    """

    def __init__(self, counts: Mapping[int, int], shares: Sequence[float] | None = None) -> None:
        self._width = width_for((sum(counts.values()),))
        self._lanes: dict[int, int] = {}
        self._place = _places(counts, shares)
        self._joined = {place for index, place in self._place.items() if place != index}

    def add(self, weights: Weights, values: Sequence[int]) -> None:
        """Add one conversation's values, each by its bin."""
        own, lanes = weights.lanes(self._width), self._lanes
        for place, count in Counter(map(self._place.__getitem__, values)).items():
            lanes[place] = lanes.get(place, 0) + (own if count == 1 else own * count)

    def quantile(self, share: float, spans: Mapping[int, tuple[float, float]]) -> list[float] | None:
        """Return a quantile in each replicate, ``spans`` the edges and widths of bins; None where a replicate has no value at all. Raises Outside."""
        places = sorted(self._lanes)
        below = [unpack(lanes, self._width) for lanes in accumulate(map(self._lanes.__getitem__, places))]
        if not below or not all(below[-1]):
            return None
        joined = [number for number, place in enumerate(places) if place in self._joined]
        standing = [spans[place] for place in places]
        columns = list(zip(*below, strict=True))
        for column in columns:
            at = share * (column[-1] - 1)
            if any(column[number] > at >= (column[number - 1] if number else 0) - 1 for number in joined):
                raise Outside
        return [quantile_of(standing, column, share) for column in columns]


def _places(counts: Mapping[int, int], shares: Sequence[float] | None) -> dict[int, int]:
    """Return for each bin the one in which it is counted: itself near the quantiles, else the first of the bins in the same gap between them."""
    total, below = sum(counts.values()), 0
    places: dict[int, int] = {}
    joined: int | None = None
    for index in sorted(counts):
        low, high = below / total, (below + counts[index]) / total
        below += counts[index]
        if shares is None or any(low <= share + _near(share) and high >= share - _near(share) for share in shares):
            places[index], joined = index, None
        else:
            joined = index if joined is None else joined
            places[index] = joined
    return places


def _near(share: float) -> float:
    """Return how far from a quantile bins are kept apart, as a share of all values: wide in the middle, where replicates differ most."""
    return 0.06 + 0.3 * share * (1.0 - share)
