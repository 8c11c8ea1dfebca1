"""From which position on the candidate is worse than the control: where, and with what evidence.

Pairs are one exchange a conversation, answered by both arms. While nothing is wrong, candidate and control are exchangeable: which of the two parts first, or is
further from the primary, is a fair coin, one a conversation and whatever noise does along the way. Given all but who was who, the positions of these coins are fixed, so
for every position c the coins from c on give an e-value that they are loaded, and the mean of those over all c is one too: the search is paid for
(Vovk and Wang, "E-values: calibration, combination and applications", arXiv 1912.06116; on the coins see ``betting.worse_than_control``).

Where it begins is a likelihood: before c the candidate's events come at the control's rate, from c on at a rate larger by some excess (``turning``).

House rules. Pure. Without evidence nothing is located.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby, pairwise
from math import inf, log, log1p
from operator import itemgetter
from typing import NamedTuple

from msgspec import Struct

from proxy.compare.by_position import bucket, start
from proxy.compare.life import Life
from proxy.compare.turning import (
    FROM_THE_START,
    STEPS,
    Place,
    after_endings,
    best,
    buckets,
    log_mean,
    mixed_rate,
    prior,
)

#: The candidate's share of loaded coins: a mixture of these, each as likely.
_SHARES = (0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.999)
#: Excess events per position from the onset on: a mixture of these, each as likely.
_EXCESSES = tuple(2.0**-power for power in range(18))


class Onset(Struct, frozen=True):
    """Where the excess begins. ``position`` from 0, in the range ``between`` (both ends included); ``log_e``: natural log of the evidence that there is any.

    ``worse`` and ``better``: conversations in which, from there on, only the candidate (only the control) was the one. Without a control ``worse`` are
    events from there on, ``better`` those before it, and the evidence is that they do not come at one rate.
    """

    position: int
    between: tuple[int, int]
    log_e: float
    worse: int
    better: int


class _Event(NamedTuple):
    """One pair: watched at so many positions; at the last of them the candidate (1), the control (-1), both or neither (0)."""

    watched: int
    side: int


def onset(pairs: Iterable[tuple[Life, Life]], alpha: float) -> Onset | None:
    """Locate from where on the candidate parts more than the control. ``pairs``: (candidate's, control's) life, one a conversation. None without evidence."""
    events = [_event(*pair) for pair in pairs]
    coins = sorted((event.watched - 1, event.side) for event in events if event.side)
    log_e = _loaded_somewhere(coins)
    if log_e < log(1.0 / alpha):
        return None
    before, until = coins, max(one.watched for one in events)
    position, between = FROM_THE_START
    for _ in range(STEPS):  # what is loaded before the likeliest place, too, began earlier
        worse = Counter(place for place, side in before if side > 0)
        better = Counter(place for place, side in before if side < 0)
        after = after_endings(min(event.watched, until) for event in events)
        found = _locate(worse, _floor(better, after), after)
        before, until = [coin for coin in before if coin[0] < found[0]], found[0]
        if _loaded_somewhere(before) < log(1.0 / alpha):
            position, between = found
            break
    sides = [side for at, side in coins if at >= position]
    return Onset(position, between, log_e, sides.count(1), sides.count(-1))


def _event(own: Life, floor: Life) -> _Event:
    """Say who parted first, as far as both were watched."""
    ours = own.exposed - 1 if own.parted else inf
    theirs = floor.exposed - 1 if floor.parted else inf
    watched = min(own.exposed, floor.exposed)
    if min(ours, theirs) >= watched or ours == theirs:
        return _Event(watched, 0)
    return _Event(watched, 1 if ours < theirs else -1)


def loaded(worse: int, better: int) -> float:
    """Return the log e-value that coins fall on the candidate's side too often, so many having fallen on each: a mixture of likelihood ratios against 1/2."""
    return log_mean([worse * log(2 * share) + better * log(2 * (1 - share)) for share in _SHARES])


def _loaded_somewhere(coins: Sequence[tuple[int, int]]) -> float:
    """Return the log e-value that coins from some position on are loaded: the mean over all positions of coins. ``coins``: (position, 1 or -1), ascending."""
    found: list[float] = []
    worse = better = 0
    for _, there in groupby(reversed(coins), key=itemgetter(0)):
        sides = [side for _, side in there]
        worse, better = worse + sides.count(1), better + sides.count(-1)
        found.append(loaded(worse, better))
    return log_mean(found) if found else 0.0


def _floor(better: Counter[int], after: Sequence[int]) -> list[float]:
    """Return the control's events per position by bucket, each drawn towards the mean of all by one event's worth of watching: none is 0."""
    counted: Counter[int] = Counter()
    for position, count in better.items():
        counted[bucket(position)] += count
    overall = (better.total() + 0.5) / (after[0] + 1)
    edges = [after[min(start(number), len(after) - 1)] for number in range(buckets(after) + 1)]
    return [(counted[n] + 1) / (here - later + 1 / overall) for n, (here, later) in enumerate(pairwise(edges))]


def _locate(worse: Counter[int], floor: Sequence[float], after: Sequence[int]) -> Place:
    """Return the likeliest onset and its range."""
    places = sorted(worse)
    gains = [[0.0] * len(_EXCESSES)]
    for position in reversed(places):
        base = floor[bucket(position)]
        gains.append([
            one + worse[position] * log1p(excess / base) for one, excess in zip(gains[-1], _EXCESSES, strict=True)
        ])  # fmt: skip
    gains.reverse()  # gains[k]: of the events at places[k] and later

    def likelihood(position: int) -> float:
        own = gains[bisect_left(places, position)]
        return log_mean([gain - excess * after[position] for gain, excess in zip(own, _EXCESSES, strict=True)])

    return best(places, buckets(after), likelihood)


def alone(lives: Iterable[Life], alpha: float) -> Onset | None:
    """Locate from where on differences come faster than before, where there is no control to say what is usual. ``lives``: one a conversation. None without evidence.

    The evidence is against one rate at all positions: the likelihood of two rates, each a mixture (Jeffreys' prior), over the largest of one rate; the largest is at
    least that of the truth, so this is an e-value (Wasserman, Ramdas and Balakrishnan, "Universal inference", arXiv 1912.11436).
    """
    watched = list(lives)
    after = after_endings(one.exposed for one in watched)
    places = sorted(one.exposed - 1 for one in watched if one.parted)
    if not places:
        return None
    constant = largest_rate(len(places), after[0])

    def likelihood(position: int) -> float:
        later, left = len(places) - bisect_left(places, position), after[position]
        before, passed = len(places) - later, after[0] - left
        if later * passed <= before * left:
            return -inf  # slower, not faster
        return mixed_rate(before, passed) + mixed_rate(later, left) - constant

    looked = {*places, *(start(number) for number in range(buckets(after)))}
    scores = [likelihood(one) + prior(one) for one in looked]
    log_e = log_mean(scores) + log(len(scores)) if max(scores) > -inf else -inf
    if log_e < log(1.0 / alpha):
        return None
    position, between = best(sorted(set(places)), buckets(after), likelihood)
    later = len(places) - bisect_left(places, position)
    return Onset(position, between, log_e, later, len(places) - later)


def largest_rate(events: int, positions: int) -> float:
    """Return the log likelihood of the best single rate."""
    rest = positions - events
    return (events * log(events / positions) if events else 0.0) + (rest * log(rest / positions) if rest else 0.0)
