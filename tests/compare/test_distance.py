import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.compare import distance
from proxy.compare.row import read_row
from proxy.compare.token_stream import Alternative, Token


def test_relative_error_is_defined_only_where_the_ratio_says_something():
    assert distance.relative_error(-2.0, -2.5) == 0.25
    assert distance.relative_error(-1e-3, -2e-3) == pytest.approx(1.0)
    assert distance.relative_error(-9.99e-4, -2e-3) is None
    assert distance.relative_error(0.0, -1.0) is None


def test_errors_and_estimators_of_one_token():
    assert distance.error(-1.0, -1.5) == -0.5
    assert distance.error(None, -1.5) is None
    assert distance.error(-1.0, None) is None
    assert distance.probability_error(math.log(0.5), math.log(0.25)) == pytest.approx(0.25)
    assert distance.k1(-0.5) == 0.5
    assert distance.k3(math.log(2.0)) == pytest.approx(1.0 - math.log(2.0))
    assert distance.k3(0.0) == 0.0
    assert math.isfinite(distance.k3(1e6))


def test_rank_counts_the_more_likely_and_is_a_lower_bound_below_the_list(make):
    row = read_row(make.token(3, -2.0, [(1, -0.5), (2, -1.5), (3, -2.0)]))
    assert distance.rank(row, -2.0) == 3
    assert distance.rank(row, -0.5) == 1
    assert distance.rank(read_row(make.token(9, -8.0, [(1, -0.5), (2, -1.5)])), -8.0) == 3
    assert distance.rank(row, None) is None
    assert distance.rank(read_row(make.token(9, -8.0)), -8.0) is None


def test_bounds_of_a_pair_worked_by_hand():
    p, q = (0.5, 0.25), (0.25, 0.25)  # rests 0.25 and 0.5
    pairs = [(math.log(a), math.log(b)) for a, b in zip(p, q, strict=True)]
    kl, tv = distance.lower_bounds(pairs)
    exact = 0.5 * math.log(2.0) + 0.25 * math.log(0.5)
    # What a shifted row could make of it: slopes of kl - log(0.25 / 0.5) and 0.25 / 0.5 - 1.
    assert kl == pytest.approx(exact - distance.NORMALISER_ERROR * (exact + math.log(2.0) + 0.5))
    assert tv == pytest.approx(0.25)


def test_lists_that_sum_to_more_than_one_give_up_their_smallest_member():
    p = q = (0.7, 0.3000001)
    pairs = [(math.log(a), math.log(b)) for a, b in zip(p, q, strict=True)]
    assert distance.lower_bounds(pairs) == (0.0, 0.0)
    assert distance.lower_bounds([(0.0, math.log(0.5))]) == (0.0, 0.0)
    assert distance.lower_bounds([]) == (0.0, 0.0)
    kl, tv = distance.lower_bounds([(math.log(0.7), math.log(0.6)), (math.log(0.3), math.log(0.3))])
    assert kl == pytest.approx(0.7 * math.log(0.7 / 0.6) + 0.3 * math.log(0.3 / 0.4), rel=1e-3)
    assert tv == pytest.approx(0.1)


def test_shared_tokens_go_by_id_then_bytes_then_unambiguous_text(make):
    p = read_row(make.token(1, -0.5, [(1, -0.5), (2, -2.0)]))
    q = read_row(make.token(1, -0.6, [(1, -0.6), (3, -2.0)]))
    assert distance.shared(p, q) == [(-0.5, -0.6)]
    same_text = (Alternative(-1.0, text="a"), Alternative(-2.0, text="a"), Alternative(-3.0, text="b"))
    assert distance.shared(read_row(Token("c", logprob=-0.9, top=same_text)), q) == []
    other = read_row(Token("b", logprob=-0.1, top=(Alternative(-0.1, text="b"), Alternative(-5.0, text="a"))))
    assert distance.shared(read_row(Token("c", logprob=-0.9, top=same_text)), other) == [(-3.0, -0.1)]
    raw = read_row(Token("\ufffd", data=b"\xc3", logprob=-0.3, top=(Alternative(-0.3, text="\ufffd", data=b"\xc3"),)))
    assert distance.shared(raw, raw) == [(-0.3, -0.3)]


logits = st.lists(st.floats(-12.0, 12.0), min_size=3, max_size=12)


@settings(max_examples=300)
@given(st.data(), st.integers(1, 12), st.integers(1, 12), st.booleans(), st.booleans())
def test_bounds_never_exceed_the_truth(make, data, top_p, top_q, exact, shifted):
    """Nor where a row is shifted as a whole, as far as float32 normalisers shift it."""
    p_logits = data.draw(logits)
    q_logits = data.draw(st.lists(st.floats(-12.0, 12.0), min_size=len(p_logits), max_size=len(p_logits)))
    p, q = make.log_softmax(p_logits, exact=exact), make.log_softmax(q_logits, exact=exact)
    chosen = data.draw(st.integers(0, len(p) - 1))
    pairs = distance.shared(read_row(make.row(p, chosen, top_p)), read_row(make.row(q, chosen, top_q)))
    most = distance.NORMALISER_ERROR if shifted else 0.0
    a, b = (data.draw(st.floats(-most, most)) for _ in range(2))
    kl, tv = distance.lower_bounds([(one + a, other + b) for one, other in pairs])
    true_kl = math.fsum(math.exp(a) * (a - b) for a, b in zip(p, q, strict=True))
    true_tv = 0.5 * math.fsum(abs(math.exp(a) - math.exp(b)) for a, b in zip(p, q, strict=True))
    assert 0.0 <= kl <= true_kl + 1e-6
    assert (
        0.0 <= tv <= true_tv + 1e-6 + abs(a) + abs(b)
    )  # a row shifted by a moves its listed mass by a, and its rest as much the other way


@given(st.lists(st.floats(-60.0, 0.0), min_size=1, max_size=20))
def test_an_arm_held_against_itself_is_at_no_distance(values):
    assert distance.lower_bounds([(value, value) for value in values]) == (0.0, 0.0)


@given(st.floats(-50.0, 50.0))
def test_k3_is_never_negative(d):
    assert distance.k3(d) >= 0.0


def test_equal_values_correlate_to_the_last_bit():
    draw = random.Random(1)
    for _ in range(20):  # the fourth of these would come out as 0.9999999999999998 otherwise
        values = [-draw.expovariate(1) for _ in range(50)]
        assert distance.correlation([(value, value) for value in values]) == 1.0


def test_correlation_needs_two_pairs_and_variance_on_both_sides():
    assert distance.correlation([(-1.0, -2.0), (-2.0, -4.0), (-3.0, -6.0)]) == pytest.approx(1.0)
    assert distance.correlation([(-1.0, -4.0), (-2.0, -2.0)]) == pytest.approx(-1.0)
    assert distance.correlation([(-1.0, -2.0)]) is None
    assert distance.correlation([(-1.0, -2.0), (-1.0, -3.0)]) is None
