"""Choosing the next token."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.reference.sampling import Sampling, adjusted, generator, greedy, pick, probabilities

LOGITS = np.log(np.array([0.1, 0.4, 0.3, 0.2], dtype=np.float32))


def test_greedy_takes_the_lowest_id_among_equals():
    equal = np.array([1.0, 7.5, 7.5, 0.0, 7.5], dtype=np.float32)
    assert greedy(equal, "lowest", generator(Sampling(), 0)) == 1
    assert greedy(equal, "highest", generator(Sampling(), 0)) == 4
    source = generator(Sampling(seed=1), 0)
    drawn = [greedy(equal, "random", source) for _ in range(60)]
    assert set(drawn) == {1, 2, 4}
    again = generator(Sampling(seed=1), 0)
    assert drawn == [greedy(equal, "random", again) for _ in range(60)]


def test_temperature_zero_is_greedy_and_needs_no_random_number():
    source = generator(Sampling(seed=1), 0)
    before = source.bit_generator.state
    assert pick(LOGITS, Sampling(temperature=0.0), source) == 1
    assert source.bit_generator.state == before


def test_neutral_sampling_keeps_the_distribution():
    assert probabilities(LOGITS, Sampling()) == pytest.approx([0.1, 0.4, 0.3, 0.2], abs=1e-6)


@pytest.mark.parametrize(
    ("sampling", "expected"),
    [
        (Sampling(top_k=2), [0, 4 / 7, 3 / 7, 0]),
        (Sampling(top_k=0), [0.1, 0.4, 0.3, 0.2]),
        (Sampling(top_k=-1), [0.1, 0.4, 0.3, 0.2]),
        (Sampling(top_p=0.75), [0, 4 / 9, 3 / 9, 2 / 9]),
        (Sampling(top_p=0.65), [0, 4 / 7, 3 / 7, 0]),
        (Sampling(top_p=1e-9), [0, 1, 0, 0]),
        (Sampling(min_p=0.6), [0, 4 / 7, 3 / 7, 0]),
        (Sampling(temperature=0.5), [1 / 30, 16 / 30, 9 / 30, 4 / 30]),
        (Sampling(top_k=3, top_p=0.7), [0, 4 / 7, 3 / 7, 0]),
    ],
)
def test_cuts(sampling, expected):
    assert probabilities(LOGITS, sampling) == pytest.approx(expected, abs=1e-6)


def test_draws_follow_the_chances():
    source = generator(Sampling(seed=5), 0)
    counts = np.bincount([pick(LOGITS, Sampling(), source) for _ in range(20_000)], minlength=4)
    assert counts / 20_000 == pytest.approx([0.1, 0.4, 0.3, 0.2], abs=0.015)


@given(st.integers(0, 2**32), st.integers(0, 3))
def test_a_cut_token_is_never_drawn(seed, choice):
    assert pick(LOGITS, Sampling(top_k=2, seed=seed), generator(Sampling(seed=seed), choice)) in {1, 2}


def test_a_seed_repeats_and_choices_differ():
    def draw(choice):
        source = generator(Sampling(seed=7), choice)
        return [pick(LOGITS, Sampling(seed=7), source) for _ in range(30)]

    assert draw(0) == draw(0)
    assert draw(0) != draw(1)


def test_nothing_to_adjust_returns_the_same_array():
    assert adjusted(LOGITS, Sampling(temperature=0.3), [1], [2]) is LOGITS


def test_bias_and_forbidden_tokens():
    changed = adjusted(LOGITS, Sampling(bias=((0, 5.0), (1, -100.0))), [], [], forbidden=[2])
    assert changed[0] == pytest.approx(LOGITS[0] + 5)
    assert changed[1] == pytest.approx(LOGITS[1] - 100)
    assert changed[2] == -np.inf
    assert LOGITS[2] > -2  # the argument is left alone


def test_penalties():
    logits = np.array([2.0, -2.0, 1.0, 1.0], dtype=np.float32)
    assert adjusted(logits, Sampling(repetition_penalty=2.0), [0], [1, 1]).tolist() == [1.0, -4.0, 1.0, 1.0]
    assert adjusted(logits, Sampling(presence_penalty=0.5, frequency_penalty=0.25), [0], [2, 2, 3]).tolist() == [
        2.0,
        -2.0,
        0.0,
        0.25,
    ]
