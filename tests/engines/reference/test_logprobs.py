"""Values and order of logprobs."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from engines.reference.logprobs import FLOOR, Ranked, first, log_normaliser, row, rows

LOGITS = arrays(np.float32, st.integers(2, 40), elements=st.sampled_from([-4.0, -1.5, 0.0, 0.125, 0.25, 3.0, 17.0]))


def test_values_are_the_log_softmax_in_double_precision():
    found = row(np.array([2.0, 1.0, 0.0], dtype=np.float32), 1, 3)
    total = math.log(math.exp(2) + math.exp(1) + 1)
    assert found.token == Ranked(1, pytest.approx(1 - total, abs=1e-15), 2)
    assert [ranked.id for ranked in found.top] == [0, 1, 2]
    assert sum(math.exp(ranked.logprob) for ranked in found.top) == pytest.approx(1, abs=1e-15)


@given(LOGITS, st.integers(0, 50))
def test_the_order_is_by_logit_and_then_by_id(logits, count):
    expected = sorted(range(logits.size), key=lambda number: (-float(logits[number]), number))[:count]
    assert first(logits, count) == expected


@given(LOGITS, st.data())
def test_a_rank_is_the_place_in_that_order(logits, data):
    token = data.draw(st.integers(0, logits.size - 1))
    found = row(logits, token, logits.size)
    assert found.top[found.token.rank - 1] == found.token
    assert [ranked.rank for ranked in found.top] == list(range(1, logits.size + 1))


def test_equal_logits_have_exactly_equal_values_and_the_lower_id_first():
    found = row(np.array([1.0, 9.5, 3.0, 9.5], dtype=np.float32), 3, 2)
    assert [ranked.id for ranked in found.top] == [1, 3]
    assert found.top[0].logprob == found.top[1].logprob == found.token.logprob
    assert found.token.rank == 2


def test_the_last_place_of_a_list_goes_to_the_lowest_of_the_tied():
    assert first(np.array([5.0, 1.0, 5.0, 5.0, 7.0], dtype=np.float32), 2) == [4, 0]


def test_an_impossible_token_has_the_floor():
    assert row(np.array([0.0, -np.inf], dtype=np.float32), 1, 0).token.logprob == FLOOR


def test_large_logits_do_not_overflow():
    assert log_normaliser(np.array([3e38, 3e38], dtype=np.float32)) == pytest.approx(3e38, rel=1e-6)


@pytest.mark.parametrize("bad", [[np.nan, 1.0], [np.inf, 1.0], [-np.inf, -np.inf]])
def test_logits_that_are_no_numbers_are_an_error(bad):
    with pytest.raises(FloatingPointError, match="not finite"):
        log_normaliser(np.array(bad, dtype=np.float32))


def test_rows_go_with_their_tokens():
    found = rows(np.array([[0.0, 1.0], [1.0, 0.0]], dtype=np.float32), [1, 1], 0)
    assert [line.token.rank for line in found] == [1, 2]
