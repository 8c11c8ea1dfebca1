"""The next token: penalties as documented, cuts that leave what they should, draws that follow the distribution."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.scripted.model import log_softmax
from engines.scripted.sampling import Sampling, adjusted, choose, filtered
from engines.scripted.script import Differences

LOGITS = (2.0, 1.0, 0.0, -1.0)


def test_penalties_count_what_was_said_and_repetition_the_prompt_too() -> None:
    said = (0, 0, 2)
    assert adjusted(LOGITS, Sampling(presence=0.5, frequency=0.25), (1,), said) == [1.0, 1.0, -0.75, -1.0]
    assert adjusted(LOGITS, Sampling(repetition=2.0), (1, 3), said) == [1.0, 0.5, 0.0, -2.0]
    assert adjusted(LOGITS, Sampling(bias={3: 10.0, 99: 1.0}), (), ()) == [2.0, 1.0, 0.0, 9.0]


@pytest.mark.parametrize(
    ("sampling", "left"),
    [
        (Sampling(), [0, 1, 2, 3]),
        (Sampling(top_k=2), [0, 1]),
        (Sampling(top_p=0.7), [0, 1]),
        (Sampling(top_p=0.6), [0]),
        (Sampling(min_p=0.2), [0, 1]),
        (Sampling(top_k=3, top_p=0.99, min_p=0.01), [0, 1, 2]),
    ],
)
def test_cuts(sampling: Sampling, left: list[int]) -> None:
    assert filtered(log_softmax(LOGITS), sampling) == left


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_draws_follow_the_distribution(temperature: float) -> None:
    sampling = Sampling(temperature=temperature)
    drawn = Counter(choose(LOGITS, sampling, 0, (place,), Differences()) for place in range(4000))
    for token, logprob in enumerate(log_softmax(LOGITS, temperature)):
        expected = math.exp(logprob)
        # Four standard errors of a share of 4000 draws; the draws are hashes, so this is decided once and for all.
        assert abs(drawn[token] / 4000 - expected) < 4 * math.sqrt(expected * (1 - expected) / 4000)


@given(st.lists(st.floats(-50, 50), min_size=2, max_size=40), st.floats(0.1, 5))
def test_probabilities_add_up_to_one(logits: list[float], temperature: float) -> None:
    assert math.fsum(map(math.exp, log_softmax(logits, temperature))) == pytest.approx(1.0, abs=1e-5)
