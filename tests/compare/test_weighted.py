"""Long integers give the same replicates as adding up one by one."""

import random

import pytest

from proxy.compare.bins import bins_of, span
from proxy.compare.quantile import quantile
from proxy.compare.resample import REPLICATES, weights
from proxy.compare.weighted import LARGEST_WEIGHT, Histograms, Outside, Sums, Weights, unpack, width_for

RNG = random.Random(5)
NAMES = [f"c{number}" for number in range(12)]


def test_no_weight_is_larger_than_a_lane_has_room_for():
    assert max(max(weights(str(number))) for number in range(300)) <= LARGEST_WEIGHT
    assert [width_for(values) for values in ([], [0], [2**27], [2**28], [-(2**60)], [2**90])] == [
        32,
        32,
        32,
        64,
        96,
        96,
    ]


@pytest.mark.parametrize("size", [1, 2**20, 2**40, 2**80, 2**1000])
def test_sums_are_those_of_adding_up(size):
    values = {name: RNG.randint(-size, size) for name in NAMES}
    sums = Sums(values.values())
    for name, value in values.items():
        sums.add(Weights(weights(name)), value)
    table = {name: weights(name) for name in NAMES}
    assert sums.replicates() == [
        sum(table[name][number] * value for name, value in values.items()) for number in range(REPLICATES)
    ]


def test_every_lane_can_hold_the_worst_sum():
    worst = Weights(bytes([LARGEST_WEIGHT]) * REPLICATES)
    for value in (2**28 - 1, -(2**28), 2**59, -(2**91)):
        sums = Sums([value])
        sums.add(worst, value)
        assert sums.replicates() == [LARGEST_WEIGHT * value] * REPLICATES
    assert unpack(0, 64) == [0] * REPLICATES


def filled(values, shares):
    counts: dict[int, int] = {}
    for own in values.values():
        for index in bins_of(own):
            counts[index] = counts.get(index, 0) + 1
    made = Histograms(counts, shares)
    for name, own in values.items():
        made.add(Weights(weights(name)), bins_of(own))
    return made, {index: span(index) for index in counts}


def test_quantiles_are_those_of_the_values_as_often_as_they_weigh():
    values = {name: [RNG.expovariate(1.0) for _ in range(RNG.randint(1, 40))] for name in NAMES}
    whole, spans = filled(values, None)
    for share in (0.5, 0.99):
        found = whole.quantile(share, spans)
        for number in range(0, REPLICATES, 37):
            resampled = sorted(one for name, own in values.items() for one in own * weights(name)[number])
            assert found[number] == pytest.approx(quantile(resampled, share), rel=1 / 32)


def test_keeping_apart_only_what_is_near_a_quantile_changes_none():
    values = {f"c{number}": [RNG.expovariate(1.0) for _ in range(50)] for number in range(60)}
    whole, spans = filled(values, None)
    some, _ = filled(values, (0.5, 0.99))
    assert [some.quantile(share, spans) for share in (0.5, 0.99)] == [
        whole.quantile(share, spans) for share in (0.5, 0.99)
    ]
    with pytest.raises(Outside):
        some.quantile(0.2, spans)


def test_a_replicate_without_a_value_gives_none():
    made, spans = filled({"alone": [1.0]}, None)
    assert 0 in weights("alone")
    assert made.quantile(0.5, spans) is None
