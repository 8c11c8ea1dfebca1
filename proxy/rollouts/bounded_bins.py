"""Values by bin: of each bag of rollouts while they are few enough to be kept apart, which intervals of quantiles need; of all together always.

House rules. Pure. Two bytes a value and quantity, up to a bound; then quantiles are given without intervals, and say so.
"""

from __future__ import annotations

from collections import Counter
from itertools import accumulate
from typing import Any

from proxy.compare.addends import Addends
from proxy.compare.bins import quantile_of, span
from proxy.compare.quantities import Quantile
from proxy.rollouts.measured import QUANTITIES

MOST = 20_000_000  # values kept apart: 40 MB a quantity


class BoundedBins:
    """Takes addends in, and completes the numbers with those quantiles that the bags can no longer give."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._all: dict[str, Counter[int]] = {}
        self._taken = 0
        self._bags: list[Addends] = []

    def take(self, bag: Addends, made: Addends) -> None:
        """Add ``made`` to a bag, without its values where there are too many."""
        self._taken += made.sums["values"]
        for name, found in made.bins.items():
            self._all.setdefault(name, Counter()).update(found)
        if self._taken > self._most:
            for one in self._bags:
                one.bins.clear()
            self._bags.clear()
            made.bins.clear()
        elif not bag.sums:
            self._bags.append(bag)
        bag.add(made)

    def numbers(self, found: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        """Return ``found`` with the quantiles of all values, where the bags have them no more."""
        if self._taken <= self._most:
            return found
        for quantity in QUANTITIES:
            counts = self._all.get(quantity.bins) if isinstance(quantity, Quantile) else None
            if counts and isinstance(quantity, Quantile):
                indices = sorted(counts)
                below = list(accumulate(counts[index] for index in indices))
                value = quantile_of([span(index) for index in indices], below, quantity.share)
                found[quantity.name] = {
                    "raw": value,
                    "n": counts.total(),
                    "no_interval": {"interval": "too_many_values"},
                }
        return found
