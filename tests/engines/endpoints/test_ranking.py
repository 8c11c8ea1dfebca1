"""``/v1/rerank`` and ``/v1/score``: every engine's shape gives the same scores."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.dialect import Answer
from engines.endpoints.ranking import read
from proxy.compare.token_stream import Score

JSON = (("content-type", "application/json"),)


def whole(document):
    return read({}, Answer(200, JSON, ((0, json.dumps(document).encode()),)))


@pytest.mark.parametrize(
    "document",
    [
        {
            "results": [
                {"index": 1, "relevance_score": 0.9, "document": {"text": "x"}},
                {"index": 0, "relevance_score": 0.5},
            ]
        },
        {"object": "list", "data": [{"index": 1, "object": "score", "score": 0.9}, {"index": 0, "score": 0.5}]},
        {"data": [{"index": 1, "relevance_score": 0.9}, {"index": 0, "relevance_score": 0.5}]},
        [{"index": 1, "score": 0.9, "document": "x", "meta_info": {}}, {"index": 0, "score": 0.5}],
    ],
    ids=["cohere", "vllm", "voyage", "sglang"],
)
def test_shapes_of_many_engines(document):
    reply = whole(document)
    assert (reply.error, reply.scores) == (None, (Score(1, 0.9), Score(0, 0.5)))


def test_scores_of_several_labels():
    reply = whole({"scores": [[0.1, 0.9], [0.6, 0.4]], "object": "scoring", "usage": {"prompt_tokens": 12}})
    assert reply.scores == (Score(0, 0.1, 0), Score(0, 0.9, 1), Score(1, 0.6, 0), Score(1, 0.4, 1))
    assert reply.prompt_tokens == 12
    setwise = whole({"scores": [[[0.1, 0.2], [0.3, 0.4]], [[0.5, 0.6]]]})
    assert setwise.scores[2:] == (Score(1, 0.3, 0), Score(1, 0.4, 1), Score(2, 0.5, 0), Score(2, 0.6, 1))
    assert whole({"scores": [0.1, 0.9]}).scores == (Score(0, 0.1), Score(1, 0.9))


@pytest.mark.parametrize(
    ("document", "error"),
    [
        ({}, "no_scores"),
        ({"results": []}, "no_scores"),
        ({"scores": []}, "no_scores"),
        ("x", "no_scores"),
        ({"results": [{"index": 0}]}, "score_values"),
        ({"results": [{"index": 0, "relevance_score": float("nan")}]}, "score_values"),
        ({"results": [{"index": 0, "relevance_score": 10**400}]}, "score_values"),
        ({"results": [{"index": 0, "relevance_score": -1e308}]}, "score_values"),
        ({"results": [{"index": -1, "relevance_score": 1}]}, "score_values"),
        ({"results": [{"index": 0, "score": True}]}, "score_values"),
        ({"results": [{"index": 0, "score": 1}, {"index": 0, "score": 2}]}, "score_values"),
        ({"error": {"message": "x"}}, "error_in_body"),
    ],
)
def test_what_is_no_list_of_scores_says_so(document, error):
    reply = whole(document)
    assert (reply.error, reply.scores) == (error, ())


def test_real_scores_are_the_same_on_both_routes(recorded):
    whole_list, best, plain = (
        read(case.request, case.answer)
        for case in (recorded("vllm-cpu-fp32", name) for name in ("rerank", "rerank_top_n", "score"))
    )
    assert [(one.index, round(one.value, 4)) for one in whole_list.scores] == [(0, 0.8788), (1, 0.7842), (2, 0.7199)]
    assert plain.scores == whole_list.scores
    assert best.scores == whole_list.scores[:2]
    assert (whole_list.prompt_tokens, whole_list.model) == (26, "smollm2-135m")


def test_an_engine_that_does_not_rerank_is_an_error(recorded):
    case = recorded("llama.cpp-q4_1", "rerank")
    assert read(case.request, case.answer).error == "status_501"


@settings(max_examples=150, deadline=None)
@given(
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.sampled_from(["results", "data", "scores", "index", "score", "usage"]), inner, max_size=4
            )
        ),
    )
)
def test_anything_is_read_without_raising(value):
    reply = whole(value)
    assert (reply.error is None) == bool(reply.scores)
