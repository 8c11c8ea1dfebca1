"""``/v1/embeddings``: real replies as floats and as base64, and every way not to be a list of vectors."""

from __future__ import annotations

import base64
import json
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.dialect import Answer
from engines.endpoints.vectors import read
from proxy.compare.vectors import compare_vectors

LLAMA, VLLM = "llama.cpp-q4_1", "vllm-cpu-fp32"
JSON = (("content-type", "application/json"),)


def whole(document, **request):
    return read(request, Answer(200, JSON, ((0, json.dumps(document).encode()),)))


def data(*embeddings):
    return {"data": [{"index": index, "embedding": one} for index, one in enumerate(embeddings)]}


def packed(*values):
    return base64.b64encode(struct.pack(f"<{len(values)}f", *values)).decode()


@pytest.mark.parametrize("folder", [LLAMA, VLLM])
def test_a_real_list_as_floats_and_as_base64(recorded, folder):
    floats, coded = recorded(folder, "embeddings_list"), recorded(folder, "embeddings_base64")
    first, second = read(floats.request, floats.answer), read(coded.request, coded.answer)
    assert (first.error, first.prompt_tokens, first.model) == (None, 14, "smollm2-135m")
    assert [len(vector) for vector in first.vectors] == [576, 576]
    assert [len(vector) for vector in second.vectors] == [576, 576]
    for one, other in zip(first.vectors, second.vectors, strict=True):
        assert list(one) == pytest.approx(list(other), abs=1e-6)
        assert sum(value * value for value in one) == pytest.approx(1.0, abs=1e-5)  # both give unit vectors


def test_two_engines_that_pool_otherwise_are_told_apart(recorded):
    """llama.cpp was started with the mean of all tokens, vLLM takes the last one's: no rounding, another vector."""
    replies = [
        read(case.request, case.answer) for case in (recorded(folder, "embeddings_list") for folder in (VLLM, LLAMA))
    ]
    comparison = compare_vectors(*replies)
    assert (comparison.outcome, comparison.findings) == ("measured", ())
    assert [round(one.cosine_distance, 3) for one in comparison.vectors] == [0.214, 0.224]


def test_a_refused_request_is_an_error(recorded):
    case = recorded(LLAMA, "embeddings_error")
    assert read(case.request, case.answer).error == "status_400"


def test_vectors_stand_in_the_order_of_the_inputs():
    listed = [{"index": 1, "embedding": [2.0]}, {"index": 0, "embedding": packed(1.5)}]
    assert [list(vector) for vector in whole({"data": listed}).vectors] == [[1.5], [2.0]]
    assert [list(vector) for vector in whole({"data": [{"embedding": [3]}, {"embedding": [[4]]}]}).vectors] == [
        [3.0],
        [4.0],
    ]


@pytest.mark.parametrize(
    ("document", "error"),
    [
        ({}, "no_vectors"),
        ({"data": []}, "no_vectors"),
        ({"data": "x"}, "no_vectors"),
        (data([1.0], []), "vector_encoding"),
        (data([1.0, None]), "vector_encoding"),
        (data([1.0, "x"]), "vector_encoding"),
        (data([[1.0], [2.0]]), "vector_encoding"),
        (data([float("nan")]), "vector_encoding"),
        (data([1.0, float("inf"), float("-inf")]), "vector_encoding"),
        (data(10**400), "vector_encoding"),
        (data([1.0, -1e308]), "vector_encoding"),
        (data("not base64!"), "vector_encoding"),
        (data(base64.b64encode(b"12345").decode()), "vector_encoding"),
        (data(packed(float("nan"))), "vector_encoding"),
        (data(None), "vector_encoding"),
        ({"error": {"message": "x"}}, "error_in_body"),
        ([1], "no_vectors"),
    ],
)
def test_what_is_no_list_of_vectors_says_so(document, error):
    reply = whole(document)
    assert (reply.error, reply.vectors) == (error, ())


@pytest.mark.parametrize(("field", "value"), [("embed_dtype", "float16"), ("endianness", "big")])
def test_another_width_or_byte_order_is_not_guessed(field, value):
    assert whole(data(packed(1.0)), **{field: value}).error == "vector_encoding"
    assert list(whole(data([1.0]), **{field: value}).vectors[0]) == [1.0]  # plain numbers have neither


@settings(max_examples=100, deadline=None)
@given(
    vectors=st.lists(
        st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=8),
        min_size=1,
        max_size=4,
    )
)
def test_base64_and_floats_are_the_same_vectors(vectors):
    coded = whole(data(*(packed(*vector) for vector in vectors)), encoding_format="base64")
    assert [list(vector) for vector in coded.vectors] == vectors
    assert [list(vector) for vector in whole(data(*vectors)).vectors] == vectors


@settings(max_examples=100, deadline=None)
@given(
    body=st.binary(max_size=60)
    | st.text(max_size=30).map(lambda text: json.dumps({"data": [{"embedding": text}]}).encode())
)
def test_any_bytes_are_read_without_raising(body):
    assert read({}, Answer(200, JSON, ((0, body),))) is not None
