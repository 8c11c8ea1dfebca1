"""Any HTTP answer, of any status and any bytes, is an object and a bounded label."""

import re

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.body import document, is_stream
from engines.dialect import Answer, Endpoint
from engines.registry import NAMES, dialect

JSON = (("content-type", "application/json"),)
SSE = (("content-type", "text/event-stream; charset=utf-8"),)
LABEL = re.compile(r"^[a-z]+(_[a-z]+)*(_\d{1,3})?$")


def answer(body, status=200, headers=JSON, failure=None):
    return Answer(status, headers, ((0, body),) if body else (), failure)


@pytest.mark.parametrize(
    ("given_answer", "label"),
    [
        (answer(b"", 0, failure="refused"), "refused"),
        (answer(b'{"error": {"message": "x"}}', 404), "status_404"),
        (answer(b'{"detail": "Not Found"}', 404), "status_404"),
        (answer(b"Internal Server Error", 500, ()), "status_500"),
        (answer(b"", 302), "status_302"),
        (answer(b"", 99999), "status_0"),
        (answer(b"<html>"), "not_json"),
        (answer(b""), "not_json"),
        (answer(b"\xff\xfe"), "not_json"),
        (answer(b"[" * 100_000), "not_json"),
        (answer(b"[]"), "no_choices"),
        (answer(b"{}"), "no_choices"),
        (answer(b'{"choices": []}'), "no_choices"),
        (answer(b'{"choices": [1]}'), "no_choices"),
        (answer(b'{"detail": "x"}'), "no_choices"),
        (answer(b'{"error": "overloaded", "error_type": "overloaded"}'), "error_in_body"),
        (answer(b'{"object": "error", "message": "x", "code": 400}'), "error_in_body"),
        (answer(b'{"choices": [{"text": "x"}]}'), None),
        (answer(b'{"choices": [{"text": "x"}]}', failure="reset"), "reset"),
        (answer(b"", 200, SSE), "no_choices"),
        (answer(b'{"error": {"message": "x"}}', 200, SSE), "error_in_body"),
    ],
)
def test_labels(given_answer, label):
    assert document(given_answer)[1] == label


@pytest.mark.parametrize(
    ("headers", "body", "stream"),
    [
        (SSE, b"{}", True),
        (JSON, b"data: {}\n\n", True),
        ((), b"\xef\xbb\xbf: ping\n\n", True),
        ((), b'event: error\ndata: "x"\n\n', True),
        ((), b"\r\r\r\r\rdata: {}\n\n", True),
        ((), b'{"data": 1}', False),
    ],
)
def test_a_stream_is_known_by_its_type_or_its_start(headers, body, stream):
    assert is_stream(answer(body, 200, headers)) is stream
    bytewise = tuple((1, body[at : at + 1]) for at in range(len(body)))
    assert is_stream(Answer(200, headers, bytewise)) is stream


def test_what_came_before_a_failure_is_kept():
    body = b'data: {"choices": [{"index": 0, "delta": {"content": "Hel"}}]}\n\n'
    value, error = document(answer(body, headers=SSE, failure="reset"))
    assert (value["choices"][0]["message"]["content"], error) == ("Hel", "reset")


scalars = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=6)
numbers = st.floats() | st.integers(-10_000, 2**64) | st.none() | st.text(max_size=3)


def maybe(strategy):
    """What the shape says, or anything else."""
    return st.one_of(
        strategy, scalars, st.lists(scalars, max_size=2), st.dictionaries(st.text(max_size=3), scalars, max_size=2)
    )


texts = maybe(st.text(max_size=5) | st.just("token_id:7") | st.just("token_id:x"))
entries = st.fixed_dictionaries(
    {},
    optional={
        "token": texts,
        "logprob": maybe(numbers),
        "id": maybe(numbers),
        "bytes": maybe(st.lists(st.integers(-1, 256), max_size=4)),
    },
)
rows = st.fixed_dictionaries(
    {},
    optional={
        "token": texts,
        "logprob": numbers,
        "id": numbers,
        "bytes": maybe(st.lists(st.integers(0, 255), max_size=4)),
        "top_logprobs": maybe(st.lists(maybe(entries), max_size=3)),
    },
)
legacy = {
    "tokens": maybe(st.lists(texts, max_size=3)),
    "token_logprobs": maybe(st.lists(numbers, max_size=3)),
    "top_logprobs": maybe(st.lists(maybe(st.dictionaries(st.text(max_size=4), numbers, max_size=3)), max_size=3)),
}
logprobs = maybe(st.fixed_dictionaries({}, optional={"content": maybe(st.lists(maybe(rows), max_size=3)), **legacy}))
call = st.fixed_dictionaries(
    {},
    optional={
        "index": numbers,
        "id": texts,
        "function": maybe(st.fixed_dictionaries({}, optional={"name": texts, "arguments": texts})),
    },
)
message = maybe(
    st.fixed_dictionaries(
        {},
        optional={
            "content": texts,
            "reasoning": texts,
            "reasoning_content": texts,
            "tool_calls": maybe(st.lists(maybe(call), max_size=2)),
            "function_call": maybe(st.just({"name": "f", "arguments": "{}"})),
        },
    )
)
choice = maybe(
    st.fixed_dictionaries(
        {},
        optional={
            "index": numbers,
            "message": message,
            "delta": message,
            "text": texts,
            "logprobs": logprobs,
            "finish_reason": texts,
            "token_ids": maybe(st.lists(st.integers(-1, 9), max_size=3)),
            "prompt_token_ids": maybe(st.lists(st.integers(0, 9), max_size=3)),
            "response_token_ids": maybe(st.lists(st.integers(-1, 9), max_size=3)),
            "output_ids": maybe(st.lists(st.integers(-1, 9), max_size=3)),
            "output_token_logprobs": maybe(st.lists(maybe(st.tuples(numbers, numbers)), max_size=3)),
        },
    )
)
objects = st.fixed_dictionaries(
    {},
    optional={
        "choices": maybe(st.lists(choice, max_size=3)),
        "usage": maybe(
            st.fixed_dictionaries(
                {},
                optional={
                    "prompt_tokens": numbers,
                    "completion_tokens": numbers,
                    "prompt_tokens_details": maybe(st.just({"cached_tokens": 1})),
                },
            )
        ),
        "error": scalars,
        "model": scalars,
        "prompt_token_ids": maybe(st.lists(st.integers(0, 9), max_size=2)),
        "timings": maybe(st.just({"predicted_n": 2})),
        "__verbose": maybe(st.just({"tokens": [1, 2]})),
    },
)


def encode(value):
    import json

    return json.dumps(value).encode()  # NaN and Infinity as Python writes them


bodies = st.one_of(
    st.binary(max_size=60),
    maybe(objects).map(encode),
    st.lists(st.one_of(maybe(objects).map(encode), st.just(b"[DONE]"), st.binary(max_size=8)), max_size=4).map(
        lambda events: b"".join(b"data: " + event + b"\n\n" for event in events)
    ),
)


@settings(max_examples=400, deadline=None)
@given(
    name=st.sampled_from(NAMES),
    endpoint=st.sampled_from(list(Endpoint)),
    body=bodies,
    status=st.sampled_from([200, 200, 200, 204, 400, 500, 0]),
    headers=st.sampled_from([JSON, SSE, ()]),
    request=maybe(st.fixed_dictionaries({}, optional={"echo": st.booleans(), "logprobs": scalars})),
)
def test_no_bytes_make_a_reader_raise(name, endpoint, body, status, headers, request):
    reply = dialect(name).read(endpoint, request if isinstance(request, dict) else {}, answer(body, status, headers))
    assert reply.error is None or LABEL.match(reply.error)
    assert orjson.dumps(reply.error) is not None
    for stream in reply.choices:
        stream.text.encode()
        assert stream.finish_reason is None or stream.finish_reason.replace("_", "").isalpha()
        for token in stream.tokens:
            token.text.encode()


@settings(max_examples=200, deadline=None)
@given(
    name=st.sampled_from(NAMES),
    endpoint=st.sampled_from(list(Endpoint)),
    value=objects,
    client=st.sampled_from(
        [{}, {"logprobs": True}, {"logprobs": True, "top_logprobs": 1}, {"logprobs": 3}, {"return_token_ids": True}]
    ),
)
def test_no_object_makes_strip_raise(name, endpoint, value, client):
    stripped = dialect(name).strip(endpoint, client, value)
    assert stripped is None or isinstance(stripped, dict)
