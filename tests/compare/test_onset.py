"""Faults from a known position on are found there, whatever noise lies before; and without one nothing is."""

import random
from collections.abc import Callable

import pytest

from proxy.compare.life import Life
from proxy.compare.onset import alone, loaded, onset

ALPHA = 0.01
Hazard = Callable[[int], float]


def life(chance: random.Random, hazard: Hazard, length: int, name: str) -> Life:
    first = next((at for at in range(length) if chance.random() < hazard(at)), None)
    return Life(name, length if first is None else first + 1, first is not None)


def pairs(
    seed: object, own: Hazard, floor: Hazard, number: int = 300, lengths: tuple[int, int] = (100, 600)
) -> list[tuple[Life, Life]]:
    chance = random.Random(str(seed))
    found = []
    for name in range(number):
        length = chance.randrange(*lengths)
        found.append((life(chance, own, length, f"c{name}"), life(chance, floor, length, f"c{name}")))
    return found


def since(begin: int, hazard: float, base: float = 0.0) -> Hazard:
    return lambda at: hazard if at >= begin else base


@pytest.mark.parametrize("begin", [16, 64, 256, 300])
@pytest.mark.parametrize("number", [40, 300])
def test_a_sure_fault_is_located_exactly(seeds, begin, number):
    for seed in seeds:
        found = onset(pairs(seed, since(begin, 1.0), since(0, 0.0), number, (begin + 50, begin + 200)), ALPHA)
        assert found is not None
        assert (found.position, found.between) == (begin, (begin, begin))
        assert (found.worse, found.better) == (number, 0)
        assert found.log_e > 0.6 * number


@pytest.mark.parametrize("base", [0.0, 0.0005, 0.002])
def test_a_fault_at_256_is_found_at_256_whatever_noise_comes_before(seeds, base):
    for seed in seeds:
        made = pairs(seed, since(256, 0.05 + base, base), since(0, base), 400, (300, 900))
        found = onset(made, ALPHA)
        assert found is not None
        assert abs(found.position - 256) <= 8
        low, high = found.between
        assert 236 <= low <= found.position <= high <= 276
        # Without the control it is found by the rate alone.
        single = alone([own for own, _ in made], ALPHA)
        assert single is not None
        assert abs(single.position - 256) <= 8


def test_arms_that_are_alike_have_no_onset_but_once_in_a_hundred(seeds):
    found = 0
    for seed in seeds:
        for trial in range(100):
            rising = pairs(f"{seed} {trial}", lambda at: 0.001 + at / 50_000, lambda at: 0.001 + at / 50_000, 60)
            found += onset(rising, ALPHA) is not None
    assert found <= 12 * len(seeds)  # once in a hundred at most: 1.0 expected of each seed


def test_a_constant_excess_begins_at_the_beginning(seeds):
    for seed in seeds:
        found = onset(pairs(seed, since(0, 0.01), since(0, 0.001)), ALPHA)
        assert found is not None
        assert found.between[0] == 0
        assert found.position <= 16


def test_one_rate_is_no_onset_without_a_control(seeds):
    found = 0
    for seed in seeds:
        for trial in range(100):
            found += (
                alone([own for own, _ in pairs(f"{seed} {trial}", since(0, 0.01), since(0, 0), 60)], ALPHA) is not None
            )
    assert found <= 12 * len(seeds)


def test_a_control_that_is_worse_is_no_onset(seeds):
    for seed in seeds:
        assert onset(pairs(seed, since(0, 0.0), since(256, 0.5)), ALPHA) is None


def test_nothing_has_no_onset():
    assert onset([], ALPHA) is None
    assert alone([], ALPHA) is None
    same = Life("c", 5, parted=True)
    assert onset([(same, same)] * 50, ALPHA) is None
    assert onset([(same, Life("c", 3, parted=False))] * 50, ALPHA) is None  # nobody watched the control there


def test_coins_are_an_e_value():
    """Its mean over all sequences of fair coins is 1: summed up over how many fall on each side."""
    from math import comb, exp

    for n in (1, 7, 40):
        mean = sum(comb(n, worse) / 2**n * exp(loaded(worse, n - worse)) for worse in range(n + 1))
        assert mean == pytest.approx(1.0)
