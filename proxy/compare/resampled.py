"""One arm's conversations, and its numbers in every replicate of the bootstrap.

House rules. The conversation is the unit. Two arms are resampled in one pass, so that a conversation has the same weight in both. Nothing here knows what
stands beside an arm.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import accumulate
from math import log

from proxy.compare.addends import Addends
from proxy.compare.bins import UNIT, lower, quantile_of, span
from proxy.compare.hazard import CONFIDENCE, ENOUGH_CONVERSATIONS, Edges
from proxy.compare.quantile import quantile
from proxy.compare.quantities import MOMENTS, Correlation, Quantile, Quantity, Ratio, shares_of
from proxy.compare.resample import weights
from proxy.compare.weighted import Histograms, Outside, Sums, Weights

TAIL = (1.0 - CONFIDENCE) / 2


class Arm:
    """One arm's numbers: ``value`` and ``n`` at once; ``replicates`` and ``edges`` after ``resample``."""

    def __init__(self, conversations: Mapping[str, Addends]) -> None:
        self.conversations = conversations
        self.sums: Counter[str] = Counter()
        self.bins: dict[str, Counter[int]] = {}
        for one in conversations.values():
            self.sums.update(one.sums)
            for name, values in one.bins.items():
                self.bins.setdefault(name, Counter()).update(values)
        self._sums: dict[str, Sums] = {}
        self._replicated: dict[str, list[int]] = {}
        self._histograms: dict[str, Histograms] = {}

    def n(self, quantity: Quantity) -> int:
        """Return how many things a number is of."""
        match quantity:
            case Ratio(whole=whole):
                return self.sums[whole]
            case Quantile(bins=name):
                return self.bins.get(name, Counter()).total()
            case Correlation():
                return self.sums["values"]

    def seen(self, quantity: Quantity) -> int:
        """Return in how many conversations there is one of those."""
        match quantity:
            case Ratio(whole=whole):
                return sum(one.sums[whole] > 0 for one in self.conversations.values())
            case Quantile(bins=name):
                return sum(len(one.bins.get(name, ())) > 0 for one in self.conversations.values())
            case Correlation():
                return sum(one.sums["values"] > 0 for one in self.conversations.values())

    def value(self, quantity: Quantity) -> float | None:
        """Return the number itself; None where it was not measured."""
        if not self.n(quantity):
            return None
        match quantity:
            case Ratio(part=part, whole=whole):
                return quantity.value(self.sums[part], self.sums[whole])
            case Quantile(bins=name, share=share):
                counts = self.bins[name]
                indices = sorted(counts)
                below = list(accumulate(counts[index] for index in indices))
                return quantile_of([_span(quantity, index) for index in indices], below, share)
            case Correlation():
                return quantity.value(*(self.sums[name] for name in MOMENTS))

    def parts(self, quantity: Ratio) -> dict[str, int]:
        """Return the conversations in which something of a ratio's part was seen."""
        found = ((conversation, one.sums[quantity.part]) for conversation, one in self.conversations.items())
        return {conversation: part for conversation, part in found if part}

    def replicates(self, quantity: Quantity) -> list[float] | None:
        """Return the number in every replicate.

        None with fewer than ``ENOUGH_CONVERSATIONS`` conversations, where it cannot be formed in some replicate, and for a ratio whose part was never seen.
        """
        if self.seen(quantity) < ENOUGH_CONVERSATIONS:
            return None
        match quantity:
            case Ratio(part=part, whole=whole):
                wholes = self._of(whole)
                if not all(wholes) or not self.parts(quantity):
                    return None
                return [quantity.value(*pair) for pair in zip(self._of(part), wholes, strict=True)]
            case Quantile():
                return self._quantile(quantity)
            case Correlation():
                made = [quantity.value(*one) for one in zip(*map(self._of, MOMENTS), strict=True)]
                known = [one for one in made if one is not None]
                return known if len(known) == len(made) else None

    def _quantile(self, quantity: Quantile) -> list[float] | None:
        spans = {index: _span(quantity, index) for index in self.bins[quantity.bins]}
        try:
            return self._histograms[quantity.bins].quantile(quantity.share, spans)
        except Outside:
            whole = self._histograms[quantity.bins] = Histograms(self.bins[quantity.bins])
            for conversation, one in self.conversations.items():
                whole.add(Weights(weights(conversation)), one.bins.get(quantity.bins, ()))
            return whole.quantile(quantity.share, spans)

    def edges(self, quantity: Quantity, replicates: list[float] | None, miss: float) -> Edges | None:
        """Return the interval of the number, which misses it with probability ``miss`` at most; None where none can be given."""
        if replicates is not None:
            low, high = percentiles(replicates)
            if low < high:
                return low, high
        return self._never_seen(quantity, miss) if isinstance(quantity, Ratio) else None

    def bound(self, quantity: Ratio, miss: float) -> float | None:
        """Return the largest ``part / whole`` that stays unseen with probability ``miss`` (the rule of three, as ``hazard.bound``); None where nothing bounds it."""
        if not quantity.most:
            return None
        most = [one.sums[quantity.most] for one in self.conversations.values()]
        return min(log(1.0 / miss) * max(most, default=0), sum(most)) / self.sums[quantity.whole]

    def _never_seen(self, quantity: Ratio, miss: float) -> Edges | None:
        """Bound what was never seen, or was seen wherever it could be."""
        bound, part = self.bound(quantity, miss), self.sums[quantity.part]
        if bound is None:
            return None
        if quantity.most == quantity.whole and part == self._fullest(quantity):
            return _mapped(quantity, 1.0 - bound, 1.0)
        return None if part else _mapped(quantity, 0.0, bound)

    def _fullest(self, quantity: Ratio) -> int:
        return self.sums[quantity.most] * (UNIT if quantity.real else 1)

    def _of(self, name: str) -> list[int]:
        if name not in self._replicated:
            self._replicated[name] = self._sums[name].replicates()
        return self._replicated[name]

    def prepare(self) -> None:
        """Make room for the replicates."""
        every = self.conversations.values()
        self._sums = {name: Sums(one.sums[name] for one in every) for name in self.sums}
        self._histograms = {name: Histograms(counts, shares_of(name)) for name, counts in self.bins.items()}

    def weigh(self, conversation: str, weights_: Weights) -> None:
        """Add a conversation to every replicate."""
        one = self.conversations[conversation]
        for name, value in one.sums.items():
            self._sums[name].add(weights_, value)
        for name, values in one.bins.items():
            self._histograms[name].add(weights_, values)


def resample(arms: Sequence[Arm]) -> None:
    """Resample some arms' conversations together."""
    for arm in arms:
        arm.prepare()
    for conversation in dict.fromkeys(name for arm in arms for name in arm.conversations):
        weights_ = Weights(weights(conversation))
        for arm in arms:
            if conversation in arm.conversations:
                arm.weigh(conversation, weights_)


def percentiles(values: Sequence[float]) -> Edges:
    """Return the two ends of the middle ``CONFIDENCE`` of some replicates."""
    ordered = sorted(values)
    return quantile(ordered, TAIL), quantile(ordered, 1.0 - TAIL)


def _span(quantity: Quantile, index: int) -> tuple[float, float]:
    return (lower(index), 0.0) if quantity.whole_numbers else span(index)


def _mapped(quantity: Ratio, low: float, high: float) -> Edges:
    first, second = (quantity.offset + quantity.per * one for one in (low, high))
    return min(first, second), max(first, second)
