"""Pool adjacent violators against its definition."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from proxy.compare.isotonic import falling


def test_what_falls_stays_and_what_rises_is_put_together():
    assert falling([10, 10, 10], [5, 3, 0]) == [0.5, 0.3, 0.0]
    assert falling([10, 10, 10], [1, 3, 0]) == [0.2, 0.2, 0.0]
    assert falling([10, 30], [0, 3]) == [0.075, 0.075]
    assert falling([1, 1, 1], [0, 0, 1]) == [pytest.approx(1 / 3)] * 3
    assert falling([], []) == []


def test_a_place_without_size_has_its_neighbours_share():
    assert falling([10, 0, 10], [5, 0, 1]) == [0.5, 0.5, 0.1]
    assert falling([0, 10], [0, 1]) == [0.1, 0.1]
    assert falling([0, 0], [0, 0]) == [0.0, 0.0]


def test_it_is_the_nearest_of_all_falling_shares(seeds):
    """The fit is the maximin of shares over intervals (Barlow and others 1972), worked out from that directly."""
    for seed in seeds:
        rng = random.Random(seed)
        for _ in range(50):
            sizes = [rng.randint(1, 9) for _ in range(rng.randint(1, 8))]
            events = [rng.randint(0, size) for size in sizes]

            def share(low: int, high: int, sizes=sizes, events=events) -> float:
                return sum(events[low : high + 1]) / sum(sizes[low : high + 1])

            places = range(len(sizes))
            exact = [
                min(max(share(low, high) for high in places if high >= at) for low in places if low <= at)
                for at in places
            ]
            found = falling(sizes, events)
            assert found == pytest.approx(exact)
            assert math.fsum(map(lambda size, one: size * one, sizes, found)) == pytest.approx(sum(events))
            assert all(one >= other for one, other in itertools.pairwise(found))
