"""``/v1/messages``: real replies, whole and streamed; what no recording shows; anything at all."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engines.dialect import Answer
from engines.endpoints.messages import read

LLAMA, VLLM = "llama.cpp-q4_1", "vllm-cpu-fp32"
JSON, SSE = (("content-type", "application/json"),), (("content-type", "text/event-stream"),)


def whole(document):
    return read({}, Answer(200, JSON, ((0, json.dumps(document).encode()),)))


def stream(*events):
    body = b"".join(b"event: %s\ndata: %s\n\n" % (one["type"].encode(), json.dumps(one).encode()) for one in events)
    return read({}, Answer(200, SSE, ((0, body),)))


def delta(index, **fields):
    return {"type": "content_block_delta", "index": index, "delta": fields}


@pytest.mark.parametrize("name", ["messages", "messages_limit"])
def test_real_replies_whole_and_streamed(recorded, name):
    one, other = recorded(LLAMA, name), recorded(LLAMA, f"{name}_stream")
    first, second = read(one.request, one.answer), read(other.request, other.answer)
    assert first.choices == second.choices
    assert (first.error, first.prompt_tokens, first.cached_tokens) == (
        None,
        37,
        36,
    )  # 1 input token and 36 from the cache
    assert (second.error, second.prompt_tokens, second.completion_tokens) == (None, 37, first.completion_tokens)
    assert (first.choices[0].finish_reason, first.choices[0].text[:6]) == (
        "length",
        "L'Éto" + ("i" if name == "messages" else ""),
    )


@pytest.mark.parametrize("name", ["messages", "messages_limit", "messages_tool"])
def test_vllms_replies_whole_and_streamed(recorded, name):
    one, other = recorded(VLLM, name), recorded(VLLM, f"{name}_stream")
    first, second = read(one.request, one.answer), read(other.request, other.answer)
    shown = [
        (choice.text, choice.finish_reason, choice.count, [(call.name, call.arguments) for call in choice.tool_calls])
        for choice in (*first.choices, *second.choices)
    ]
    assert shown[0] == shown[1]
    assert (
        shown[0]
        == {
            "messages": ("The capital of France is Paris.", "stop", 8, []),
            "messages_limit": ("The capital of France", "length", 4, []),
            "messages_tool": ("", "tool_calls", 39, [("get_weather", '{"city":"Paris"}')]),
        }[name]
    )
    assert (first.error, second.error, first.prompt_tokens, second.prompt_tokens) == (None, None, 37, 37)


def test_blocks_of_every_kind():
    content = [
        {"type": "thinking", "thinking": "Hm. ", "signature": "x"},
        {"type": "redacted_thinking", "data": "..."},
        {"type": "text", "text": "It is "},
        {"type": "text", "text": "warm."},
        {"type": "tool_use", "id": "t1", "name": "get_weather", "input": {"unit": "C", "city": "Paris"}},
    ]
    reply = whole({"content": content, "stop_reason": "tool_use", "usage": {"input_tokens": 5, "output_tokens": 9}})
    [choice] = reply.choices
    assert (choice.reasoning, choice.text, choice.finish_reason) == ("Hm. ", "It is warm.", "tool_calls")
    assert [(call.name, call.arguments) for call in choice.tool_calls] == [
        ("get_weather", '{"city":"Paris","unit":"C"}')
    ]


def test_a_streamed_tool_call_is_that_of_the_whole_reply():
    reply = stream(
        {"type": "message_start", "message": {"content": [], "model": "m", "usage": {"input_tokens": 5}}},
        {"type": "ping"},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
        delta(0, type="thinking_delta", thinking="Hm."),
        delta(0, type="signature_delta", signature="x"),
        {"type": "content_block_stop", "index": 0},
        {
            "type": "content_block_start",
            "index": 1,
            "content_block": {"type": "tool_use", "name": "f", "id": "t", "input": {}},
        },
        delta(1, type="input_json_delta", partial_json='{"b": 1, '),
        delta(1, type="input_json_delta", partial_json='"a": 2}'),
        {"type": "content_block_start", "index": 2, "content_block": {"type": "tool_use", "name": "g", "input": {}}},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 7}},
        {"type": "message_stop"},
    )
    [choice] = reply.choices
    assert (reply.error, reply.prompt_tokens, reply.completion_tokens, reply.model) == (None, 5, 7, "m")
    assert choice.reasoning == "Hm."
    assert [(call.name, call.arguments) for call in choice.tool_calls] == [("f", '{"a":2,"b":1}'), ("g", "{}")]


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("refusal", "content_filter"),
        ("pause_turn", "other"),
        (None, None),
    ],
)
def test_stop_reasons_in_chats_words(reason, finish):
    [choice] = whole({"content": [{"type": "text", "text": "x"}], "stop_reason": reason}).choices
    assert (choice.finish_reason, choice.refused) == (finish, reason == "refusal")


def test_errors():
    assert whole({"type": "error", "error": {"type": "overloaded_error", "message": "secret"}}).error == "error_in_body"
    assert whole({"id": "x"}).error == "no_choices"
    assert stream({"type": "error", "error": {"type": "overloaded_error"}}).error == "stream_error"
    broken = stream({"type": "message_start", "message": {}}, delta(0, type="text_delta", text="Hal"))
    assert (broken.error, broken.choices[0].text) == ("cut", "Hal")


@pytest.mark.parametrize("said", ["x", [1], {"text": 5}, {"text": ["no"]}, None])
def test_no_field_of_a_block_is_taken_for_what_was_added_to_it(said):
    begun = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "", "_pieces": said}}
    ends = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
    found = stream(begun, delta(0, type="text_delta", text="hi"), ends)
    assert (found.error, found.choices[0].text) == (None, "hi")


def test_arguments_that_are_no_json_stay_as_they_came():
    brackets = "[" * 100_000
    reply = stream(delta(0, type="input_json_delta", partial_json=brackets), {"type": "message_stop"})
    assert reply.choices[0].tool_calls[0].arguments == brackets


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
@given(draw=st.data())
def test_any_split_of_a_stream_gives_the_same_reply(recorded, draw):
    case = recorded(LLAMA, "messages_stream")
    body = case.answer.body
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(body)), max_size=12)))
    pieces = tuple((at, body[a:b]) for at, (a, b) in enumerate(pairwise([0, *cuts, len(body)])))
    assert read(case.request, Answer(200, case.answer.headers, pieces)) == read(case.request, case.answer)


kinds = st.sampled_from(
    [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "message_delta",
        "text",
        "tool_use",
        "text_delta",
        "input_json_delta",
    ]
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | kinds,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "content",
                    "index",
                    "delta",
                    "text",
                    "usage",
                    "message",
                    "content_block",
                    "partial_json",
                    "input",
                    "_pieces",
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@settings(max_examples=150, deadline=None)
@given(value=json_values, events=st.lists(json_values, max_size=4))
def test_anything_is_read_without_raising(value, events):
    assert read({}, Answer(200, JSON, ((0, json.dumps(value).encode()),))) is not None
    body = b"".join(b"data: %s\n\n" % json.dumps(one).encode() for one in events)
    assert read({}, Answer(200, SSE, ((0, body),))) is not None
