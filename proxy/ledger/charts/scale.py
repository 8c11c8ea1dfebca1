"""Numbers to places on a line, and the round numbers that stand beside it.

House rules. Pure. What lies beyond an end is placed at that end; whoever draws it says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil, floor, log10

from msgspec import Struct

_STEPS = (1, 2, 5, 10)
_LEAST = 1e-90  # below it steps underflow
_NARROW = 1e-9  # of the larger end; two ends that are nearer than this are one


class Scale(Struct, frozen=True):
    """``low`` is placed at ``start``, ``high`` at ``end`` (units of the drawing); ``log``: equal ratios are equally far, both ends above 0."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def at(self, value: float) -> float:
        """Return the place of a value."""
        inside = min(max(value, self.low), self.high)
        if self.log:
            part = (log10(inside) - log10(self.low)) / (log10(self.high) - log10(self.low))
        else:
            part = (inside - self.low) / (self.high - self.low)
        return self.start + part * (self.end - self.start)

    def ticks(self, most: int = 6) -> list[float]:
        """Return round numbers within, about so many."""
        return self._decades(most) if self.log else self._even(most)

    def _even(self, most: int) -> list[float]:
        rough = (self.high - self.low) / most
        power = 10.0 ** floor(log10(rough))
        step = next(power * one for one in _STEPS if power * one >= rough * (1 - 1e-9))
        first, last = ceil(self.low / step - 1e-9), floor(self.high / step + 1e-9)
        return [number * step for number in range(first, last + 1)]

    def _decades(self, most: int) -> list[float]:
        first, last = floor(log10(self.low)), ceil(log10(self.high))
        decades = [10.0**power for power in range(first, last + 1, max(1, (last - first) // most))]
        fine = [decade * step for decade in decades for step in (1, 2, 5)] if last - first <= most // 2 else decades
        found = [one for one in fine if self.low * (1 - 1e-9) <= one <= self.high * (1 + 1e-9)]
        return found if len(found) > 1 else [self.low, self.high]


def even(values: Iterable[float], start: float, end: float, *, zero: bool = False) -> Scale:
    """Return a scale over the values, and 0 where asked for."""
    low, high = _ends([*values, *([0.0] if zero else [])])
    return Scale(low, high, start, end)


def ratios(values: Iterable[float], start: float, end: float) -> Scale:
    """Return a logarithmic scale over the values above 0."""
    kept = [one for one in values if one > _LEAST]
    low, high = (min(kept), max(kept)) if kept else (1.0, 10.0)
    if high <= low * (1 + 1e-6):
        low, high = low / 2, high * 2
    return Scale(low, high, start, end, log=True)


def _ends(values: list[float]) -> tuple[float, float]:
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    if high - low <= _NARROW * max(abs(low), abs(high)):
        far = max(abs(low), abs(high)) / 2
        return (low - far, high + far) if far > _LEAST else (0.0, 1.0)
    return (low, high) if high - low > _LEAST else (low, low + 1)
