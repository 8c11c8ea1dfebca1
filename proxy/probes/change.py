"""Whether an engine answers its probes otherwise than when it was learned: an exact test on whole runs.

House rules. Pure. A run is one observation, however many probes it has, since they share what disturbs an engine. Each run's score is its mean distance from the probes' medians over all runs, old and new
alike; when nothing has changed the scores of old and new runs may be exchanged, so the one-sided rank-sum test (Wilcoxon 1945, exact, ties by midranks) has a false alarm with
probability alpha at most, whatever the noise looks like. It needs no model of the noise, and none of the probes to be independent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import comb, fsum
from statistics import median

from msgspec import Struct

from proxy.probes.ask import Run

#: Runs of a baseline, and the fewest that are held against it: 1 of 230,230 ways to draw 6 of 26 is then the least p.
LEARNED, _FEWEST = 20, 6
#: A shift below this is of no consequence, however sure it is; nats. Where engines print six digits it is what they lose.
LEAST = 1e-5


class Shift(Struct, frozen=True):
    """One probe's medians: gap then and now, and whether the other token leads now and did not then."""

    name: str
    was: float
    now: float
    flipped: bool


class Change(Struct, frozen=True):
    """What was found.

    ``p`` of the rank-sum test, held against ``alpha``; ``shift``: the median over probes of abs(now - was), nats, ``largest`` the largest of them; ``changed``: p is at most
    alpha, and the largest shift at least ``least``.
    """

    changed: bool
    p: float
    alpha: float
    shift: float
    largest: float
    least: float
    flips: int
    runs: tuple[int, int]
    probes: tuple[Shift, ...]


def block(alpha: float, learned: int = LEARNED) -> int:
    """Return how many new runs can show a change at this level: their least p is at most half of it."""
    size = _FEWEST
    while comb(learned + size, size) * alpha < 2.0:
        size += 1
    return size


def compare(
    names: Sequence[str], base: Sequence[Run], new: Sequence[Run], alpha: float, least: float = LEAST
) -> Change:
    """Hold new runs against old ones; all of the same probes, in the order of ``names``."""
    shifts = tuple(
        Shift(
            name,
            was := median(one.gaps[at] for one in base),
            median(one.gaps[at] for one in new),
            _mostly(new, at) and not _mostly(base, at) and was > 0.0,
        )
        for at, name in enumerate(names)
    )
    sizes = [abs(one.now - one.was) for one in shifts]
    marks = scores([*base, *new])
    p = rank_sum(marks[: len(base)], marks[len(base) :])
    largest = max(sizes)
    return Change(
        changed=p <= alpha and largest >= least,
        p=p,
        alpha=alpha,
        shift=median(sizes),
        largest=largest,
        least=least,
        flips=sum(one.flipped for one in shifts),
        runs=(len(base), len(new)),
        probes=shifts,
    )


def suspicious(base: Sequence[Run], one: Run, least: float = LEAST) -> bool:
    """Say whether a single run is further off than every one of the baseline, so that it is worth a whole block to look; by chance one in 21 is."""
    marks = scores([*base, one])
    off = max(abs(gap - median(each.gaps[at] for each in base)) for at, gap in enumerate(one.gaps))
    return marks[-1] > max(marks[:-1]) and off >= least


def scores(runs: Sequence[Run]) -> list[float]:
    """Return each run's mean distance from the probes' medians over all of these runs."""
    middles = [median(column) for column in zip(*(one.gaps for one in runs), strict=True)]
    return [
        fsum(abs(gap - middle) for gap, middle in zip(one.gaps, middles, strict=True)) / len(middles) for one in runs
    ]


def rank_sum(old: Sequence[float], new: Sequence[float]) -> float:
    """Return the exact probability, given the values and that old and new may be exchanged, of a rank sum of ``new`` at least as large."""
    ranks = _midranks([*old, *new])
    observed = sum(ranks[len(old) :])
    ways: list[Counter[int]] = [Counter({0: 1}), *(Counter() for _ in new)]
    for rank in ranks:
        for taken in range(len(new), 0, -1):
            for total, count in ways[taken - 1].items():
                ways[taken][total + rank] += count
    at_least = sum(count for total, count in ways[-1].items() if total >= observed)
    return at_least / comb(len(ranks), len(new))


def _midranks(values: Sequence[float]) -> list[int]:
    """Twice the rank of each, so that those of ties are whole numbers."""
    ordered = sorted(values)
    low = {value: ordered.index(value) for value in set(values)}
    count = Counter(values)
    return [2 * low[value] + count[value] + 1 for value in values]


def _mostly(runs: Sequence[Run], at: int) -> bool:
    return 2 * sum(one.flipped[at] for one in runs) > len(runs)
