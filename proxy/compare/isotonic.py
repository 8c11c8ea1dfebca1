"""Shares that only fall: the regression of an event on something that can make it no more likely the larger it is.

House rules. Pure, and nothing is assumed of the shape but its direction.
"""

from __future__ import annotations

from collections.abc import Sequence


def falling(sizes: Sequence[float], events: Sequence[float]) -> list[float]:
    """Return the share of events at each place: of all shares that never rise from place to place, those nearest to the seen ones, weighted by size.

    Pool adjacent violators: a place with a larger share than the one before is put together with it, until none has (Ayer, Brunk, Ewing, Reid and Silverman 1955, "An
    empirical distribution function for sampling with incomplete information", Annals of Mathematical Statistics 26, 641-647). The pools hold as many events as were seen. A
    place of size 0 has the share of its neighbour, 0 where no place has a size.
    """
    pools: list[tuple[float, float, int]] = []  # size, events, places
    for size, hits in zip(sizes, events, strict=True):
        pool = (size, hits, 1)
        while pools and pools[-1][1] * pool[0] <= pool[1] * pools[-1][0]:
            before = pools.pop()
            pool = (before[0] + pool[0], before[1] + pool[1], before[2] + pool[2])
        pools.append(pool)
    return [share for size, hits, places in pools for share in [hits / size if size else 0.0] * places]
