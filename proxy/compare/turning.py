"""Where along positions something turns: the likeliest place and its range, from how likely each place makes what was seen.

House rules. Pure. Beforehand a power of two is as likely as all positions up to the next one together, because pages, tiles and windows begin there. The range beside a
place holds those whose likelihood, so weighed, is at least a twentieth of the best.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from math import exp, fsum, lgamma, log

from proxy.compare.by_position import bucket, start

_BUCKETS = 20  # up to two million positions
_RANGE = log(20)

Place = tuple[int, tuple[int, int]]
#: What is still worse before the place after so many steps towards the beginning began there.
STEPS = 32
FROM_THE_START: Place = (0, (0, 0))


def after_each(counts: Sequence[int]) -> list[int]:
    """Return how much was watched from each position on, and 0 at the end; ``counts``: how many pairs were watched at each."""
    return [*reversed(list(accumulate(reversed(counts)))), 0]


def after_endings(lengths: Iterable[int]) -> list[int]:
    """Return how much was watched from each position on, of pairs watched for so many positions each."""
    ended = Counter(lengths)
    counts = list(accumulate(ended[length] for length in range(max(ended, default=0), 0, -1)))
    return after_each(counts[::-1])


def buckets(after: Sequence[int]) -> int:
    """Return how many buckets the watched positions fill."""
    return bucket(len(after) - 2) + 1


def best(places: Sequence[int], count: int, likelihood: Callable[[int], float]) -> Place:
    """Return the best of all positions in ``count`` buckets, and the range of those not far behind; ``places``: ascending, where something was seen.

    Between two events the likelihood grows with the position: only those of events and the beginnings of buckets can be best, and the first that is not far behind is
    found by halving.
    """
    edges = [start(number) for number in range(count)]
    scored = {position: likelihood(position) + prior(position) for position in {*places, *edges}}
    found = max(scored, key=lambda position: (scored[position], position))
    enough = scored[found] - _RANGE
    within = sorted(position for position, score in scored.items() if score >= enough)
    at = bisect_left(places, within[0])
    low, high = (places[at - 1] + 1 if at else 0), within[0]
    while low < high:
        middle = (low + high) // 2
        if likelihood(middle) + prior(middle) >= enough:
            high = middle
        else:
            low = middle + 1
    return found, (high, within[-1])


def prior(position: int) -> float:
    """Return the log of how likely a position is beforehand: each bucket as likely as another, half of it at its beginning."""
    number = bucket(position)
    width = start(number + 1) - start(number)
    return log((0.5 * (position == start(number)) + 0.5 / width) / _BUCKETS)


def mixed_rate(events: int, positions: int) -> float:
    """Return the log likelihood of a rate drawn from Beta(1/2, 1/2)."""
    return lgamma(events + 0.5) + lgamma(positions - events + 0.5) - lgamma(positions + 1) - 2 * lgamma(0.5)


def log_mean(logs: Sequence[float]) -> float:
    """Return the log of the mean of what these are the logs of."""
    most = max(logs)
    return most + log(fsum(exp(one - most) for one in logs) / len(logs))
