"""What a shadow's copy may leave out: what says nothing, and nothing else."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.neutral import at_most, with_max_tokens, without_neutral

ALL = frozenset(
    {
        "presence_penalty",
        "frequency_penalty",
        "repetition_penalty",
        "top_p",
        "top_k",
        "min_p",
        "n",
        "logit_bias",
        "echo",
    }
)


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ({"presence_penalty": 0, "frequency_penalty": 0.0, "repetition_penalty": 1.0}, {}),
        ({"presence_penalty": 0.1, "frequency_penalty": -1, "repetition_penalty": 1.1}, None),
        ({"temperature": 0.7, "top_p": 1, "top_k": -1, "min_p": 0}, {"temperature": 0.7}),
        ({"temperature": 0.7, "top_p": 0.9, "top_k": 40, "min_p": 0.05}, None),
        ({"temperature": 0, "top_p": 0.9, "top_k": 40, "min_p": 0.05}, {"temperature": 0}),
        ({"temperature": False, "top_p": 0.9}, None),
        ({"n": 1, "logit_bias": {}, "echo": False}, {}),
        ({"n": 2, "logit_bias": {"5": 1}, "echo": True}, None),
        ({"n": True, "echo": 0}, None),  # spelled so that an engine may read it otherwise
        ({"presence_penalty": None, "stop": None}, {"stop": None}),
    ],
)
def test_what_says_nothing_goes_and_what_says_something_stays(body, left):
    before = copy.deepcopy(body)
    assert without_neutral(body, ALL) == (body if left is None else left)
    assert body == before


def test_only_named_fields_go():
    assert without_neutral({"top_p": 1, "min_p": 0}, frozenset({"min_p"})) == {"top_p": 1}


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ({"max_completion_tokens": 9}, {"max_tokens": 9}),
        ({"max_completion_tokens": 9, "max_tokens": 5}, {"max_tokens": 9}),  # the newer name is the one that is meant
        ({"max_completion_tokens": None, "max_tokens": 5}, {"max_tokens": 5}),
        ({"max_tokens": 5}, {"max_tokens": 5}),
        ({}, {}),
    ],
)
def test_one_bound_on_the_length(body, wanted):
    assert with_max_tokens(body) == wanted


def test_a_number_is_cut_to_what_the_engine_allows():
    assert at_most({"top_logprobs": 20}, "top_logprobs", 5) == {"top_logprobs": 5}
    for kept in ({"top_logprobs": 3}, {"top_logprobs": True}, {"top_logprobs": "20"}, {}):
        assert at_most(kept, "top_logprobs", 5) == kept


@given(
    st.dictionaries(st.sampled_from(sorted(ALL)), st.none() | st.booleans() | st.integers() | st.floats() | st.text())
)
def test_anything_can_stand_in_a_body(body):
    left = without_neutral(body, ALL)
    assert left.keys() <= body.keys()
    assert all(left[name] is body[name] for name in left)
