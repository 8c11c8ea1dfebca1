"""Kaplan-Meier against scipy's, and against truths that are known."""

import random
import warnings

import numpy as np
import pytest
from scipy.stats import CensoredData, ecdf

from proxy.compare.life import Life
from proxy.compare.survival import MOST_POSITIONS, curve, grid, survival


def drawn(chance: random.Random, number: int, hazard: float, mean_length: float) -> list[Life]:
    """Replies of geometric length, each of whose tokens differs with probability ``hazard``."""
    found = []
    for name in range(number):
        length = 1 + int(chance.expovariate(1 / (mean_length - 0.5)))
        first = next((at for at in range(length) if chance.random() < hazard), None)
        found.append(Life(f"c{name}", length if first is None else first + 1, first is not None))
    return found


def reference(lives: list[Life]):
    parted = [one.exposed for one in lives if one.parted]
    return ecdf(CensoredData(uncensored=parted, right=[one.exposed for one in lives if not one.parted])).sf


def test_the_estimate_is_scipys(seeds):
    for seed in seeds:
        lives = drawn(random.Random(seed), 400, 0.01, 60)
        ours = curve(lives, grid(max(one.exposed for one in lives)))
        positions = grid(max(one.exposed for one in lives))
        theirs = reference(lives)
        for value, expected in zip(ours.values, theirs.evaluate(np.array(positions)), strict=True):
            assert value == pytest.approx(expected, abs=1e-12)
        reached = [t for t, share in enumerate(theirs.evaluate(np.arange(2000))) if share <= 0.5 + 1e-12]
        assert ours.median == (reached[0] if reached else None)


def test_the_interval_is_about_as_wide_as_greenwoods(seeds):
    for seed in seeds:
        lives = drawn(random.Random(seed), 1000, 0.01, 100)
        positions = [8, 16, 32, 64]
        ours = curve(lives, positions)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # where all have parted Greenwood's formula has no value
            theirs = reference(lives).confidence_interval(method="linear")
        for at, edges in zip(positions, ours.intervals, strict=True):
            low, high = theirs.low.evaluate(at), theirs.high.evaluate(at)
            assert edges is not None
            assert edges[1] - edges[0] == pytest.approx(high - low, rel=0.25)


def test_a_constant_hazard_gives_its_survival_and_its_median(seeds):
    for seed in seeds:
        found = curve(drawn(random.Random(seed), 4000, 0.02, 100), [1, 16, 32, 64])
        for at, value in zip([1, 16, 32, 64], found.values, strict=True):
            share = 0.98**at
            assert value == pytest.approx(share, abs=5 * (share * (1 - share) / 2000) ** 0.5)
        assert found.median == pytest.approx(34.3, abs=5)  # ln 2 / -ln 0.98
        assert found.median_interval is not None
        low, high = found.median_interval
        assert low is not None
        assert high is not None
        assert low <= found.median <= high


def test_conversations_are_drawn_whole():
    """A conversation of twenty streams that part alike is worth one, not twenty."""
    apart = [Life(f"c{name}", 10, name % 2 == 0) for name in range(400)]
    together = [Life(f"c{name // 20}", 10, name // 20 % 2 == 0) for name in range(400)]
    (narrow,), (wide,) = curve(apart, [10]).intervals, curve(together, [10]).intervals
    assert curve(apart, [10]).values == curve(together, [10]).values == (0.5,)
    assert narrow is not None
    assert wide is not None
    assert wide[1] - wide[0] > 3 * (narrow[1] - narrow[0])


def test_nothing_seen_is_no_certainty():
    found = curve([Life(f"c{name}", 5 + name, parted=False) for name in range(20)], [1, 5, 24, 25])
    assert found.values == (1.0, 1.0, 1.0, None)
    assert found.at_risk == (20, 20, 1, 0)
    assert found.intervals[0] == (pytest.approx(1 - 2.9957 / 20, abs=1e-4), 1.0)
    assert found.intervals[2:] == ((0.0, 1.0), None)
    assert (found.median, found.median_interval) == (None, (None, None))


def test_all_parted_is_none_either():
    found = curve([Life(f"c{name}", 1, parted=True) for name in range(30)], [1, 2])
    assert found.values == (0.0, 0.0)
    assert found.intervals[0] == (0.0, pytest.approx(2.9957 / 30, abs=1e-4))
    assert found.median == 1


def test_few_conversations_have_no_interval():
    found = curve([Life(f"c{name}", 3, name == 0) for name in range(9)], [3])
    assert found.intervals == (None,)
    assert found.median_interval is None


def test_who_is_censored_where_another_parts_was_watched_there():
    assert curve([Life("a", 4, parted=True), Life("b", 4, parted=False)], [3, 4]).values == (1.0, 0.5)


def test_positions_are_few_and_reach_the_end():
    assert grid(0) == []
    assert grid(1) == [1]
    assert grid(17) == [1, 2, 3, 4, 6, 8, 12, 16]
    assert len(grid(2**40)) <= MOST_POSITIONS


def test_arms_stand_side_by_side_at_the_same_positions():
    own = [Life(f"c{name}", 8, name < 15) for name in range(20)]
    floor = [Life(f"c{name}", 2, parted=False) for name in range(20)]
    found = survival({"candidate": own, "control": floor}, resampled=True)
    assert found["positions"] == [1, 2, 3, 4, 6, 8]
    assert found["candidate"] == [1.0, 1.0, 1.0, 1.0, 1.0, 0.25]
    assert found["control"] == [1.0, 1.0, None, None, None, None]
    assert found["at_risk"]["control"] == [20, 20, 0, 0, 0, 0]
    assert found["intervals"]["control"][2] is None
    assert found["streams"] == {"candidate": 20, "control": 20}
    assert found["events"] == {"candidate": 15, "control": 0}
    assert found["median"] == {"candidate": {"position": 8, "interval": [8, 8]}}
    assert "intervals" not in survival({"candidate": own}, resampled=False)
    assert survival({"candidate": [], "control": []}, resampled=True) == {}
