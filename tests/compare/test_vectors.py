"""Embeddings: the distance of directions, the largest difference of an element, and what has no distance."""

from __future__ import annotations

import math
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.compare.comparison import Mode, Source
from proxy.compare.token_stream import Reply
from proxy.compare.vectors import compare_vectors, distance


def reply(*vectors, **more):
    return Reply(vectors=tuple(array("d", vector) for vector in vectors), **more)


def test_equal_vectors_are_identical():
    comparison = compare_vectors(reply([0.1, 0.7], [3.0, 4.0]), reply([0.1, 0.7], [3.0, 4.0]))
    assert (comparison.outcome, comparison.mode, comparison.source) == ("identical", Mode.FREE, Source.TEXT)
    assert [one.cosine_distance for one in comparison.vectors] == [0.0, 0.0]
    assert comparison.vectors[1].norms == (5.0, 5.0)
    assert [one.index for one in comparison.vectors] == [0, 1]


@pytest.mark.parametrize(
    ("left", "right", "cosine", "error"),
    [
        ([1.0, 0.0], [0.0, 1.0], 1.0, 1.0),
        ([1.0, 0.0], [-1.0, 0.0], 2.0, 2.0),
        ([1.0, 0.0], [2.0, 0.0], 0.0, 1.0),  # scaled: the same direction
        ([1.0, 0.0], [1.0, 1.0], 1 - math.sqrt(0.5), 1.0),
    ],
)
def test_distances_by_hand(left, right, cosine, error):
    found = distance(0, left, right)
    assert found.cosine_distance == pytest.approx(cosine, abs=1e-15)
    assert found.element_error == error


def test_a_tiny_angle_keeps_its_digits():
    angle = 1e-6
    found = distance(0, [1.0, 0.0], [math.cos(angle), math.sin(angle)])
    assert found.cosine_distance == pytest.approx(angle**2 / 2, rel=1e-6)  # 1 - cos would be 5.0004e-13


def test_a_vector_without_a_direction_has_no_angle():
    assert distance(0, [0.0, 0.0], [1.0, 0.0]).cosine_distance is None
    assert distance(0, [1e308] * 8, [1.0] * 8).cosine_distance is None  # its length is no float
    assert compare_vectors(reply([0.0]), reply([0.0])).outcome == "identical"


def test_vectors_that_differ_are_measured_and_never_called_diverged():
    comparison = compare_vectors(reply([1.0, 0.0]), reply([1.0, 1e-9]))
    assert (comparison.outcome, comparison.incomparable) == ("measured", None)


@pytest.mark.parametrize(
    ("primary", "shadow", "reason", "detail"),
    [
        (reply([1.0], error="status_500"), reply([1.0]), "primary_error", "status_500"),
        (reply([1.0]), reply(error="no_vectors"), "shadow_error", "no_vectors"),
        (reply([1.0], prompt_tokens=3), reply([1.0], prompt_tokens=4), "prompt_tokens", None),
        (reply([1.0]), reply([1.0], [2.0]), "vector_count", "1 and 2"),
        (reply([1.0]), reply([1.0, 2.0]), "vector_dimensions", "1 and 2"),
    ],
)
def test_what_cannot_be_measured_says_why(primary, shadow, reason, detail):
    comparison = compare_vectors(primary, shadow)
    assert (comparison.outcome, comparison.incomparable, comparison.detail) == ("incomparable", reason, detail)
    assert comparison.vectors == ()
    assert comparison.findings == {"shadow_error": ("transport_errors",), "prompt_tokens": ("prompt_tokens",)}.get(
        reason, ()
    )


numbers = st.floats(-1e6, 1e6)


@given(pairs=st.lists(st.tuples(numbers, numbers), min_size=1, max_size=20))
def test_distances_are_symmetric_and_bounded(pairs):
    left, right = zip(*pairs, strict=True)
    one, other = distance(0, left, right), distance(0, right, left)
    assert one.element_error == other.element_error == max(abs(a - b) for a, b in pairs)
    assert one.cosine_distance == other.cosine_distance
    if one.cosine_distance is not None:
        assert 0.0 <= one.cosine_distance <= 2.0
