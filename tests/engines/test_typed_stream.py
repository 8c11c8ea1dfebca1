"""Streams read the short way say what they say the long way, and only those of the usual shape are."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines import typed_stream
from engines.body import document
from engines.choices import reply
from engines.dialect import Answer, Endpoint
from engines.openai import read
from proxy.compare.columns import Columns
from tests.engines.test_typed import LISTED, ROWS, row

ROLE = {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}], "model": "m"}
USAGE = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": None}}


def event(rows, text="a", **more):
    return {
        "id": "c",
        "model": "m",
        "choices": [{"index": 0, "delta": {"content": text}, "logprobs": {"content": rows} if rows else None, **more}],
    }


def answer(events, *, done=True, end=b"\n\n"):
    lines = [one if isinstance(one, bytes) else b"data: " + orjson.dumps(one) for one in events]
    body = b"".join(line + b"\n\n" for line in lines) + b"data: [DONE]\n\n" * done
    return Answer(200, (("content-type", "text/event-stream"),), ((0, body[:-2] + end),))


def long_way(given_answer):
    value, error = document(given_answer)
    return reply(value, {}, error)


def short_way(given_answer):
    return read(Endpoint.CHAT, {}, given_answer)


@pytest.mark.parametrize("label", [True, False, "spelled"])
@pytest.mark.parametrize("done", [True, False])
def test_the_usual_stream_is_read_as_columns(label, done):
    rows = [row(n, LISTED, label=label) for n in (3, 1, 2)]
    if label is True:
        rows[1].pop("bytes")  # its text is then known from the event alone
    events = [
        ROLE,
        event(rows[:1], token_ids=[3]),
        event(rows[1:2], " w1", token_ids=[1]),
        event(rows[2:], token_ids=[2]),
    ]
    given_answer = answer([*events, event([], "", finish_reason="stop"), USAGE], done=done)
    found = short_way(given_answer)
    assert isinstance(found.choices[0].tokens, Columns)
    assert found == long_way(given_answer)
    assert [token.text for token in found.choices[0].tokens] == [" w3", " w1", " w2"]
    assert (found.model, found.prompt_tokens, found.choices[0].finish_reason) == ("m", 3, "stop")
    assert short_way(answer(events, done=False)).error == "cut"


ONE = event([row(3, LISTED, label=False)])


@pytest.mark.parametrize(
    "odd",
    [
        event([row(3, LISTED, label=False)], index=1),
        {"choices": [*ONE["choices"], *ONE["choices"]]},
        {"choices": [{**ONE["choices"][0], "delta": {"content": "a", "reasoning": "b"}}]},
        {"choices": [{**ONE["choices"][0], "delta": {"tool_calls": [{"function": {"name": "f"}}]}}]},
        {**ONE, "error": {"code": 1}},
        {"object": "error", "choices": []},
        {"model": "x"},
        b"data: null",
        b'data: {"choices":[],"a":"\xff"}',
        b": a comment",
        b"event: error\ndata: {}",
        b"data: x",
        b'data: {"choices":[]} {"choices":[]}',
        b'data: {"choices":\n\ndata: []}',
        b'data: {"choices":[],"a":"\n\ndata: "}',
    ],
)
def test_what_is_not_usual_is_read_the_long_way(odd):
    for events in ([ONE, odd, ONE], [odd, ONE], [ONE, odd]):
        found = short_way(answer(events))
        assert not any(isinstance(choice.tokens, Columns) for choice in found.choices)
        assert found == long_way(answer(events))
    for given_answer in (answer([ONE], end=b"\n"), answer([ONE], end=b"\r\n\r\n"), answer([ONE], done=False, end=b"")):
        assert short_way(given_answer) == long_way(given_answer)


EVENTS = st.one_of(
    st.builds(
        lambda rows, label, text, more: event([row(n, listed, label=label, logprob=value) for n, listed, value in rows], text, **more),
        ROWS | st.just([]),
        st.sampled_from([True, False, "spelled"]),
        st.sampled_from(["a", "", "\n", "é", None, 'data: {"']),
        st.sampled_from([{}, {}, {"finish_reason": "stop"}, {"token_ids": [3]}, {"index": 1}, {"index": None}, {"prompt_token_ids": [1]}]),
    ),
    st.sampled_from([ROLE, USAGE, b"data: {}", b": x", {**ROLE, "usage": {"prompt_tokens": 4}}, {**USAGE, "system_fingerprint": "f"}]),
)  # fmt: skip


@given(st.lists(EVENTS, max_size=5), st.booleans(), st.sampled_from([b"\n\n", b"\n", b"", b"\r\n"]))
def test_any_stream_says_the_same(events, done, end):
    given_answer = answer(events, done=done, end=end)
    assert short_way(given_answer) == long_way(given_answer)


def test_texts_alone_are_read_in_one_go_where_their_events_differ_in_more():
    events = [{"t": number, **event([], text)} for number, text in enumerate(["a", "b", 'c"', "\n"])]
    for more in ([], [event([], "d", finish_reason="stop"), USAGE], [b"data: x"]):
        given_answer = answer([*events, *more])
        assert short_way(given_answer) == long_way(given_answer)
    assert typed_stream.stream(answer(events).body, rows_shown=False) is not None
