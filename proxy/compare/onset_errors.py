"""From which position on the candidate's logprobs are further from the primary's than the control's: where, and with what evidence.

House rules. Pure. As in ``onset``: a coin a conversation, the search paid for, and nothing located without evidence.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress
from math import log
from operator import gt, lt
from typing import NamedTuple

from proxy.compare.by_position import bucket, start
from proxy.compare.onset import Onset, loaded
from proxy.compare.turning import FROM_THE_START, STEPS, Place, after_each, best, buckets, log_mean, mixed_rate

_ENOUGH_PAIRS = 1000  # a position that so many cannot tell from the next makes no difference


class Errors(NamedTuple):
    """One pair of forced comparisons: absolute logprob errors in nats at ascending positions at which both arms gave values."""

    positions: Sequence[int]
    own: Sequence[float]
    floor: Sequence[float]


def errors_onset(pairs: Iterable[Errors], alpha: float) -> Onset | None:
    """Locate from where on the candidate's logprobs are further from the primary's than the control's. ``pairs``: one a conversation. None without evidence.

    The evidence has one coin a conversation and beginning of a bucket: whose errors from there on are larger in sum. The place is found by all positions of
    ``_ENOUGH_PAIRS`` conversations, which are taken as independent for that.
    """
    made = [pair for pair in pairs if len(pair.positions)]
    coins: defaultdict[int, list[int]] = defaultdict(list)
    for pair in made:
        for number, side in _sides(pair):
            coins[number].append(side)
    log_e = log_mean([_loaded(sides) for sides in coins.values()]) if coins else 0.0
    if log_e < log(1.0 / alpha):
        return None
    counted = _counted(made[:_ENOUGH_PAIRS])
    position, between = FROM_THE_START
    for _ in range(STEPS):  # what is loaded before the likeliest place, too, began earlier
        found = _turn(*counted)
        if _loaded([_side(pair, 0, found[0]) for pair in made]) < log(1.0 / alpha):
            position, between = found
            break
        counted = [{place: n for place, n in one.items() if place < found[0]} for one in counted]
    sides = [_side(pair, position) for pair in made]
    return Onset(position, between, log_e, sides.count(1), sides.count(-1))


def _counted(pairs: Iterable[Errors]) -> list[Mapping[int, int]]:
    """Count by position the pairs in which the candidate's error is larger, the control's is, and all."""
    worse, better, watched = Counter[int](), Counter[int](), Counter[int]()
    for pair in pairs:
        watched.update(pair.positions)
        worse.update(compress(pair.positions, map(gt, pair.own, pair.floor)))
        better.update(compress(pair.positions, map(lt, pair.own, pair.floor)))
    return [worse, better, watched]


def _sides(pair: Errors) -> Iterator[tuple[int, int]]:
    """Yield, from the last bucket to the first, whose errors from its beginning on are larger."""
    ours = theirs = 0.0
    high = len(pair.positions)
    for number in range(bucket(pair.positions[-1]), -1, -1):
        low = bisect_left(pair.positions, start(number))
        ours += sum(pair.own[low:high])
        theirs += sum(pair.floor[low:high])
        high = low
        if ours != theirs:
            yield number, 1 if ours > theirs else -1


def _turn(worse: Mapping[int, int], better: Mapping[int, int], watched: Mapping[int, int]) -> Place:
    """Return the likeliest place, and its range, from which on coins are loaded, and thrown at another rate (arms that agree to the last digit throw none)."""
    every = range(max(watched) + 1)
    ours, theirs, seen = (
        after_each([counted.get(position, 0) for position in every]) for counted in (worse, better, watched)
    )

    def likelihood(position: int) -> float:
        later, left = ours[position] + theirs[position], seen[position]
        rate = mixed_rate(ours[0] + theirs[0] - later, seen[0] - left) + mixed_rate(later, left)
        return rate + loaded(ours[position], theirs[position])

    return best(every, buckets(seen), likelihood)


def _side(pair: Errors, since: int, until: int | None = None) -> int:
    """Return 1 where the candidate's errors between two positions are the larger in sum, -1 where the control's are."""
    low = bisect_left(pair.positions, since)
    high = None if until is None else bisect_left(pair.positions, until)
    ours, theirs = sum(pair.own[low:high]), sum(pair.floor[low:high])
    return (ours > theirs) - (ours < theirs)


def _loaded(sides: Sequence[int]) -> float:
    return loaded(sides.count(1), sides.count(-1))
