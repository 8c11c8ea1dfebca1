"""What a rollout must hold, and what happens to what is no number."""

from __future__ import annotations

import math

import pytest

from proxy.rollouts import compare_rollouts
from proxy.rollouts.rollout import LEFT_OUT, REASONS, Unusable, make, values

NAN, INF = math.nan, math.inf


def test_values_that_are_no_numbers_are_left_out_and_counted() -> None:
    rollout = make(
        [1, 2, 3, 4, 5, 6],
        [-1.0, None, -1.0, -1.0, -9999.0, -1.0],
        [-1.0, -1.0, NAN, -INF, -1.0, -65504.0],
    )
    seen = values(rollout)
    assert (list(seen.positions), list(seen.ps), list(seen.qs)) == ([0], [-1.0], [-1.0])
    assert seen.left_out == {"rollout_not_finite": 2, "trainer_not_finite": 2, "trainer_impossible": 1}
    assert set(seen.left_out) <= set(LEFT_OUT)


@pytest.mark.parametrize(
    ("ids", "ps", "qs", "mask", "reason", "says"),
    [
        ([1, 2], [-1.0], [-1.0, -1.0], None, "length_mismatch", "2 response ids, but 1 in rollout logprobs"),
        ([1, 2], [-1.0, -1.0], [-1.0] * 3, None, "length_mismatch", "3 in trainer logprobs"),
        ([1, 2], [-1.0, -1.0], [-1.0] * 2, [1], "length_mismatch", "1 in mask"),
        ([1, 2], [-1.0, 0.7], [-1.0] * 2, None, "positive_logprobs", "0.7 at position 1"),
        ([1], [-1.0], [2.0], None, "positive_logprobs", "trainer logprobs: 2 at position 0"),
        ([1], ["x"], [-1.0], None, "not_numbers", "a str among the numbers"),
        ([1], [True], [-1.0], None, "not_numbers", "a bool among the numbers"),
        ([1], {"a": 1}, [-1.0], None, "not_numbers", "a dict, not a list"),
        ([1.5], [-1.0], [-1.0], None, "not_numbers", "not all are whole numbers"),
        ([], [], [], None, "no_response_ids", "no ids"),
        ([1], None, [-1.0], None, "no_rollout_logprobs", "no rollout logprobs"),
        ([1], [-1.0], [-1.0], [0], "nothing_unmasked", "leaves no token"),
        ([-100], [-1.0], [-1.0], None, "nothing_unmasked", "leaves no token"),
    ],
)
def test_a_rollout_that_cannot_be_compared_says_why(
    ids: list[int], ps: object, qs: object, mask: object, reason: str, says: str
) -> None:
    with pytest.raises(Unusable, match=says) as found:
        make(ids, ps, qs, mask=mask)
    assert found.value.reason == reason
    assert reason in REASONS


def test_what_is_masked_may_hold_anything() -> None:
    seen = values(make([5, 6, 0, 0], [-1.0, -2.0, 1.0, NAN], [-1.0, -2.5, 7.0, None], mask=[1, 1, 0, 0]))
    assert (list(seen.ps), list(seen.qs), seen.left_out) == ([-1.0, -2.0], [-1.0, -2.5], {"masked": 2})


def test_a_label_of_minus_100_takes_no_part() -> None:
    seen = values(make([5, -100, 7], [-1.0, 0.0, -2.0], [-1.0, 0.0, -2.0]))
    assert (list(seen.positions), seen.left_out) == ([0, 2], {"masked": 1})


def test_a_logprob_rounded_to_just_above_0_is_one() -> None:
    assert list(values(make([1], [0.0], [1e-6])).qs) == [1e-6]


def test_without_any_trainer_there_is_nothing_to_compare() -> None:
    with pytest.raises(Unusable) as found:
        values(make([1], [-1.0]))
    assert found.value.reason == "no_trainer_logprobs"


def test_arrays_are_taken_as_they_are() -> None:
    numpy = pytest.importorskip("numpy")
    ids = numpy.array([[1, 2, 0], [3, 4, 5]])
    ps, qs = numpy.full((2, 3), -1.0, dtype="float32"), numpy.full((2, 3), -1.5, dtype="float32")
    found = compare_rollouts(ids, ps, qs, masks=numpy.array([[1, 1, 0], [1, 1, 1]]))
    assert (found.rollouts, found.tokens, found.left_out) == (2, 5, {"masked": 1})
    assert found.value("k1_nats") == pytest.approx(0.5)


def test_arguments_must_be_of_one_length() -> None:
    with pytest.raises(ValueError, match="2, 1, 2, 2"):
        compare_rollouts([[1], [2]], [[-1.0]], [[-1.0], [-1.0]])


def test_bad_responses_are_counted_beside_good_ones() -> None:
    found = compare_rollouts([[1], [2]], [[-1.0], [3.0]], [[-1.0], [-1.0]])
    assert (found.rollouts, found.unusable) == (1, {"positive_logprobs": 1})
