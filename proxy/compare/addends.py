"""What one comparison adds to its conversation: integers and values by bin, of which every headline number is made.

House rules. Nothing here but sums: addends of one conversation, of shards and of days are put together by adding, in any order, with the same result to the
last bit. Values are looked at once. No ratio is formed here.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from math import exp, expm1, fsum
from operator import mul, sub

from msgspec import Struct, field

from proxy.compare.bins import UNIT, binned, fixed
from proxy.compare.comparison import Comparison, FlipClass, Mode
from proxy.compare.distance import LARGEST_EXPONENT, RELATIVE_FLOOR
from proxy.compare.summary import flip_positions, value_pairs

_UNITS = float(UNIT)
_PLAIN = 100.0  # nats; exp of less times ``UNIT`` is a float by far
#: The shares of abs(d) above these are headline numbers; nats.
TAILS = (0.01, 0.1, 1.0, 5.0)


class Addends(Struct):
    """Sums by name, and by name the bin of each value (``bins.bins_of``; 16 bits each, in no order).

    Sums of real numbers (``error``, ``difference``, ``probability``, ``k3``, ``kl``, ``tv``, ``expected``, and the moments ``p`` ``q`` ``pp`` ``qq`` ``pq``) are in
    multiples of 1 / ``bins.UNIT``; the others are counts.
    """

    sums: Counter[str] = field(default_factory=Counter)
    bins: dict[str, array[int]] = field(default_factory=dict)

    def add(self, other: Addends) -> None:
        """Add what another comparison, or another shard, has of the same conversation."""
        for name, value in other.sums.items():
            self.sums[name] += value
        for name, values in other.bins.items():
            self.bins.setdefault(name, array("H")).extend(values)


#: What comparisons add, by their ``id``: each is held here, so that no other object has it.
Made = dict[int, tuple[Comparison, Addends]]


def by_conversation(
    comparisons: Iterable[Comparison], conversations: Iterable[str], made: Made | None = None
) -> dict[str, Addends]:
    """Return the addends of each conversation of which something was compared. ``made``: those known already, which it adds to."""
    found: dict[str, Addends] = {}
    made = {} if made is None else made
    for one, conversation in zip(comparisons, conversations, strict=True):
        if one.incomparable is None and one.choices:
            if (known := made.get(id(one))) is None:
                known = made[id(one)] = (one, of(one))
            found.setdefault(conversation, Addends()).add(known[1])
    return found


def together(shards: Iterable[dict[str, Addends]]) -> dict[str, Addends]:
    """Put the conversations of several shards together."""
    found: dict[str, Addends] = {}
    for shard in shards:
        for conversation, one in shard.items():
            found.setdefault(conversation, Addends()).add(one)
    return found


def of(comparison: Comparison) -> Addends:
    """Return what one comparison adds; it could be made, and has choices."""
    made = Addends()
    match comparison.mode:
        case Mode.FREE:
            _free(made.sums, comparison)
        case Mode.FORCED:
            _forced(made.sums, comparison)
    pairs = value_pairs(comparison)
    if pairs:
        _values(made, pairs, is_kl=comparison.k3_is_kl)
    _lists(made, comparison)
    return made


def of_values(pairs: Sequence[tuple[float, float]], *, is_kl: bool) -> Addends:
    """Return what pairs of finite logprobs (log p, log q) add, where there are values alone and no comparison; ``is_kl``: k3's mean estimates a KL."""
    made = Addends()
    if pairs:
        _values(made, pairs, is_kl=is_kl)
    return made


def _free(sums: Counter[str], comparison: Comparison) -> None:
    sums["requests"] = 1
    sums["not_identical"] = int(comparison.outcome != "identical")
    sums["exposed"] = sum(choice.exposed for choice in comparison.choices)
    sums["streams"] = sum(choice.exposed > 0 for choice in comparison.choices)
    kinds = Counter(choice.first.kind for choice in comparison.choices if choice.first is not None)
    for kind in FlipClass:
        sums[kind.value] = kinds[kind]
    sums["events"] = kinds.total()


def _forced(sums: Counter[str], comparison: Comparison) -> None:
    sums["requests"] = 1
    sums["positions"] = flip_positions(comparison)
    kinds = Counter(flip.kind for choice in comparison.choices for flip in choice.flips)
    for kind in FlipClass:
        sums[kind.value] = kinds[kind]
    sums["events"] = kinds.total()
    sums["disagree"] = sum(choice.top1_agree.count(False) for choice in comparison.choices)
    if comparison.expected_flips is not None:
        sums["expected"] = fixed(comparison.expected_flips)
        sums["expected_positions"] = sums["positions"]


def _values(made: Addends, pairs: Sequence[tuple[float, float]], *, is_kl: bool) -> None:
    ps, qs = zip(*pairs, strict=True)
    differences = list(map(sub, qs, ps))
    errors = list(map(abs, differences))
    ordered = sorted(errors)
    relative = [error / abs(p) for error, p in zip(errors, ps, strict=True) if abs(p) >= RELATIVE_FLOOR]
    plain = max(ps) <= 0.0 and max(qs) <= 0.0
    theirs, ours = (qs, ps) if plain else ([min(0.0, q) for q in qs], [min(0.0, p) for p in ps])
    probabilities = list(map(abs, map(sub, map(exp, theirs), map(exp, ours))))
    sums = made.sums
    sums["values"], sums["left_out"] = len(pairs), len(pairs) - len(relative)
    sums["kl_values"] = len(pairs) if is_kl else 0
    for edge in TAILS:
        sums[f"above_{edge:g}"] = len(ordered) - bisect_right(ordered, edge)
    for name, values in (
        ("error", errors),
        ("difference", differences),
        ("probability", probabilities),
        ("p", ps),
        ("q", qs),
        ("pp", list(map(mul, ps, ps))),
        ("qq", list(map(mul, qs, qs))),
        ("pq", list(map(mul, ps, qs))),
    ):
        sums[name] = fixed(fsum(values))
    if max(errors) < _PLAIN:
        sums["k3"] = sum(map(int, map(_UNITS.__mul__, map(sub, map(expm1, differences), differences))))
    else:  # as floats these may overflow
        sums["k3"] = sum(fixed(expm1(min(d, LARGEST_EXPONENT)) - d) for d in differences)
    sums["relative_values"] = len(relative)
    made.bins["error"] = binned(errors)
    made.bins["relative"] = binned(relative)


def _lists(made: Addends, comparison: Comparison) -> None:
    choices = comparison.choices
    for name, column in (
        ("kl", chain.from_iterable(choice.kl_lower_bounds for choice in choices)),
        ("tv", chain.from_iterable(choice.tv_lower_bounds for choice in choices)),
    ):
        values = [one for one in column if one is not None]
        if values:
            made.sums[f"{name}_lists"], made.sums[name] = len(values), fixed(fsum(values))
            made.bins[name] = binned(values)
    ranks = [one for choice in choices for one in choice.ranks if one is not None]
    if ranks:
        made.sums["ranks"], made.sums["below_first"] = len(ranks), len(ranks) - ranks.count(1)
        made.bins["rank"] = binned(ranks)
