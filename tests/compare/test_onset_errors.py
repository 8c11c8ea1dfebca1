"""Errors that grow from a known position on are found there, exactly where every position was scored."""

import random

import pytest

from proxy.compare.onset_errors import Errors, errors_onset

ALPHA = 0.01


def pairs(seed: object, begin: int, factor: float, number: int = 300, size: float = 0.01) -> list[Errors]:
    chance = random.Random(str(seed))

    def errors(length: int, larger: float) -> list[float]:
        return [abs(chance.gauss(0, size * (larger if at >= begin else 1))) for at in range(length)]

    lengths = [chance.randrange(begin + 50, begin + 300) for _ in range(number)]
    return [Errors(range(length), errors(length, factor), errors(length, 1)) for length in lengths]


@pytest.mark.parametrize("begin", [64, 256, 300])
@pytest.mark.parametrize("number", [40, 200])
def test_three_times_the_error_is_located_exactly(seeds, begin, number):
    for seed in seeds:
        found = errors_onset(pairs(seed, begin, 3.0, number), ALPHA)
        assert found is not None
        assert abs(found.position - begin) <= (12 if number == 40 else 3)
        assert found.between[0] <= begin <= found.between[1] or abs(found.position - begin) <= 12
        assert found.better <= 0.05 * number


def test_a_fifth_more_is_found_at_the_power_of_two(seeds):
    for seed in seeds:
        found = errors_onset(pairs(seed, 256, 1.2), ALPHA)
        assert found is not None
        assert found.position == 256


def test_arms_that_agreed_to_the_last_digit_before():
    made = [Errors(range(512), [0.0] * 256 + [0.01] * 256, [0.0] * 512) for _ in range(12)]
    found = errors_onset(made, ALPHA)
    assert found is not None
    assert (found.position, found.between, found.worse, found.better) == (256, (256, 256), 12, 0)


def test_noise_that_is_larger_everywhere_begins_at_the_beginning(seeds):
    for seed in seeds:
        found = errors_onset(pairs(seed, 0, 1.5, 100), ALPHA)
        assert found is not None
        assert (found.position, found.between[0]) == (0, 0)


def test_errors_that_grow_all_along_begin_early(seeds):
    """As with a quantised cache: the longer it is, the more is off. There is no jump, and none is claimed far along."""
    for seed in seeds:
        chance = random.Random(seed)
        made = [
            Errors(range(300), [abs(chance.gauss(0, 0.01 * (1 + at / 100))) for at in range(300)], [abs(chance.gauss(0, 0.01)) for _ in range(300)])
            for _ in range(200)
        ]  # fmt: skip
        found = errors_onset(made, ALPHA)
        assert found is not None
        assert found.position <= 64


def test_arms_that_are_alike_have_no_onset_but_once_in_a_hundred(seeds):
    found = 0
    for seed in seeds:
        for trial in range(60):
            found += errors_onset(pairs(f"{seed} {trial}", 10, 1.0, 40), ALPHA) is not None
    assert found <= 10 * len(seeds)


def test_a_sample_of_positions_is_enough():
    at = [0, 7, 130, 255, 256, 300, 420]
    made = [Errors(at, [0.0] * 4 + [0.5] * 3, [0.0] * 7) for _ in range(12)]
    found = errors_onset(made, ALPHA)
    assert found is not None
    assert found.position == 256
    assert errors_onset([Errors([], [], [])] * 12, ALPHA) is None
    assert errors_onset([], ALPHA) is None
