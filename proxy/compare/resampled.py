"""One arm's conversations, and its numbers in every replicate of the bootstrap.

House rules. The conversation is the unit. Two arms are resampled in one pass, so that a conversation has the same weight in both. An arm knows of the one beside
it only how much of a thing its conversations have, where it has none itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import accumulate
from math import inf

from proxy.compare import rare
from proxy.compare.addends import Addends
from proxy.compare.bins import lower, quantile_of, span
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
        self._parts: dict[str, dict[str, int]] = {}
        self.resampled = False

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
        if quantity.part not in self._parts:
            found = ((conversation, one.sums[quantity.part]) for conversation, one in self.conversations.items())
            self._parts[quantity.part] = {conversation: part for conversation, part in found if part}
        return self._parts[quantity.part]

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

    def few(self, quantity: Quantity, replicates: list[float] | None) -> bool:
        """Say whether percentiles say too little of a number: never seen, or in too few conversations, or always."""
        if replicates is None or not isinstance(quantity, Ratio):
            return replicates is None
        if quantity.signed:
            return False
        return any(
            not side or side < rare.FEW * self._wider(quantity, side, replicates) < inf
            for side in self._sides(quantity)
        )

    def edges(self, quantity: Quantity, replicates: list[float] | None, miss: float, beside: Arm) -> Edges | None:
        """Return the interval of the number, which misses it with probability ``miss`` at most; None where none can be given. ``beside``: the other arm."""
        if isinstance(quantity, Ratio) and (self.always(quantity) or not self.parts(quantity)):
            return self._never_seen(quantity, miss, beside)
        if replicates is None:
            return None
        low, high = percentiles(replicates)
        if isinstance(quantity, Ratio) and (self.few(quantity, replicates) or (low == high and not quantity.real)):
            return self._seldom(quantity, replicates)
        return (low, high) if low < high else None

    def always(self, quantity: Ratio) -> bool:
        """Say whether a part is all of what it is a share of."""
        return quantity.most == quantity.whole and self.sums[quantity.part] == self.sums[quantity.whole] * quantity.unit

    def bound(self, quantity: Ratio, miss: float, beside: Arm, *, other: bool = False) -> float | None:
        """Return the largest ``part / whole`` that stays unseen with probability ``miss`` (``rare.unseen``); None where nothing bounds it.

        ``other``: of the part's complement.
        """
        whole, most = self.sums[quantity.whole], [one.sums[quantity.most] for one in self.conversations.values()]
        if quantity.once or not self.sized(quantity, beside, other=other):
            if not quantity.most:
                return None
            return min(rare.unseen(miss) * max(most, default=0), sum(most)) / whole
        found = rare.unseen(miss) * beside.size(quantity, other=other) / whole
        return min(found, sum(most) / whole) if quantity.most else found

    def sized(self, quantity: Ratio, beside: Arm, *, other: bool = False) -> bool:
        """Say whether the other arm shows how much of something a conversation has, and enough conversations are known that have none."""
        return self.seen(quantity) >= ENOUGH_CONVERSATIONS and beside.size(quantity, other=other) > 0.0

    def size(self, quantity: Ratio, *, other: bool = False) -> float:
        """Return how much of a part (``other``: of its complement) conversations have that have any, 0 where none has."""
        unit = quantity.unit
        found = (
            one.sums[quantity.whole] * unit - one.sums[quantity.part] if other else one.sums[quantity.part]
            for one in self.conversations.values()
        )
        return rare.size(found) / unit

    def _sides(self, quantity: Ratio) -> tuple[float, ...]:
        """Return the part by the whole, and its complement where the part is one of it."""
        whole, part, unit = self.sums[quantity.whole], self.sums[quantity.part], quantity.unit
        mean = part / (whole * unit)
        return (mean, (whole * unit - part) / (whole * unit)) if quantity.most == quantity.whole else (mean,)

    def _wider(self, quantity: Ratio, side: float, replicates: list[float]) -> float:
        """Return what one event is worth of a side: of things that are counted one at least."""
        spread = rare.variance(replicates) / quantity.per / quantity.per
        least = 0.0 if quantity.real else 1.0 / self.sums[quantity.whole]
        return rare.wider(spread, side, len(self.parts(quantity)), least)

    def _seldom(self, quantity: Ratio, replicates: list[float]) -> Edges:
        found = [rare.counted(side, self._wider(quantity, side, replicates)) for side in self._sides(quantity)]
        low, high = found[0]
        if len(found) > 1:
            low, high = max(low, 1.0 - found[1][1]), min(high, 1.0 - found[1][0])
        return _mapped(quantity, low, high if quantity.real and not quantity.most else min(high, 1.0))

    def _never_seen(self, quantity: Ratio, miss: float, beside: Arm) -> Edges | None:
        """Bound what was never seen, or was seen wherever it could be."""
        always = self.always(quantity)
        bound = self.bound(quantity, miss, beside, other=always)
        if bound is None:
            return None
        if always:
            return _mapped(quantity, 1.0 - bound, 1.0)
        return _mapped(quantity, -bound if quantity.signed else 0.0, bound)

    def _of(self, name: str) -> list[int]:
        if name not in self._replicated:
            self._replicated[name] = self._sums[name].replicates()
        return self._replicated[name]

    def prepare(self) -> None:
        """Make room for the replicates."""
        self.resampled = True
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
    """Resample some arms' conversations together; nothing is done twice."""
    new = [arm for arm in arms if not arm.resampled]
    for arm in new:
        arm.prepare()
    for conversation in dict.fromkeys(name for arm in new for name in arm.conversations):
        weights_ = Weights(weights(conversation))
        for arm in new:
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
