"""``/v1/responses``: real replies, whole and streamed; what no recording shows; anything at all."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engines.dialect import Answer
from engines.endpoints.responses import read
from proxy.compare.findings import canonical

VLLM, LLAMA = "vllm-cpu-fp32", "llama.cpp-q4_1"
JSON, SSE = (("content-type", "application/json"),), (("content-type", "text/event-stream"),)


def whole(document, request=None):
    return read(request or {}, Answer(200, JSON, ((0, json.dumps(document).encode()),)))


def stream(*events, request=None, end=b""):
    body = b"".join(b"event: %s\ndata: %s\n\n" % (one["type"].encode(), json.dumps(one).encode()) for one in events)
    return read(request or {}, Answer(200, SSE, ((0, body + end),)))


@pytest.mark.parametrize(
    ("folder", "name", "text", "finish", "usage"),
    [
        (VLLM, "responses", "The capital of France is Paris.", "stop", (37, 8)),
        (VLLM, "responses_items", "The capital of France is Paris.", "stop", (26, 8)),
        (VLLM, "responses_limit", "The capital of France", "length", (37, 4)),
        (LLAMA, "responses_items", "The capital of France is Paris.", "stop", (26, 8)),
        (LLAMA, "responses_limit", "L'Éto", "length", (37, 4)),  # it says completed
    ],
)
def test_real_replies(recorded, folder, name, text, finish, usage):
    case = recorded(folder, name)
    reply = read(case.request, case.answer)
    assert (reply.error, reply.prompt_tokens, reply.completion_tokens, reply.model) == (None, *usage, "smollm2-135m")
    [choice] = reply.choices
    assert (choice.text, choice.finish_reason, choice.count, choice.tokens) == (text, finish, usage[1], ())


@pytest.mark.parametrize("folder", [VLLM, LLAMA])
@pytest.mark.parametrize("name", ["responses", "responses_limit"])
def test_a_stream_reads_as_the_whole_reply(recorded, folder, name):
    one, other = recorded(folder, name), recorded(folder, f"{name}_stream")
    first, second = read(one.request, one.answer), read(other.request, other.answer)
    assert first.choices == second.choices
    assert (first.prompt_tokens, first.completion_tokens) == (second.prompt_tokens, second.completion_tokens)


def test_a_tool_call_whole_and_streamed_is_the_same_but_for_blanks(recorded):
    calls = []
    for name in ("responses_tool", "responses_tool_stream"):
        case = recorded(VLLM, name)
        [choice] = read(case.request, case.answer).choices
        assert (choice.text, choice.finish_reason) == ("", "tool_calls")
        calls += choice.tool_calls
    assert [call.name for call in calls] == ["get_weather", "get_weather"]
    assert calls[0].arguments == '{"city": "Paris"}'
    assert calls[1].arguments == '{\n    "city": "Paris"\n}'
    assert canonical(calls[0].arguments) == canonical(calls[1].arguments)


def test_a_refused_request_is_an_error(recorded):
    case = recorded(LLAMA, "responses_previous")
    assert read(case.request, case.answer).error == "status_400"


def test_reasoning_refusal_and_custom_tools_have_their_places():
    output = [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "short"}], "content": []},
        {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "long"}]},
        {"type": "message", "content": [{"type": "refusal", "refusal": "I cannot."}]},
        {"type": "custom_tool_call", "name": "run", "input": "ls", "call_id": "c1"},
        {"type": "web_search_call", "status": "completed"},
    ]
    [choice] = whole({"output": output, "status": "completed", "usage": None}).choices
    assert (choice.reasoning, choice.text, choice.refused) == ("shortlong", "I cannot.", True)
    assert [(call.name, call.arguments, call.id) for call in choice.tool_calls] == [("run", "ls", "c1")]


@pytest.mark.parametrize(
    ("document", "error"),
    [
        ({"output": [], "status": "failed", "error": {"message": "secret"}}, "error_in_body"),
        ({"output": [], "status": "cancelled"}, "finish_cancelled"),
        ({"output": [], "status": "queued"}, "finish_queued"),
        ({"status": "completed"}, "no_choices"),
        ([], "no_choices"),
    ],
)
def test_what_is_no_reply_says_why(document, error):
    assert whole(document).error == error


@pytest.mark.parametrize(
    ("reason", "finish"),
    [("max_output_tokens", "length"), ("content_filter", "content_filter"), ("sunspots", "other"), (None, "other")],
)
def test_an_incomplete_response_says_what_stopped_it(reason, finish):
    document = {"output": [], "status": "incomplete", "incomplete_details": {"reason": reason}}
    [choice] = whole(document).choices
    assert (choice.finish_reason, choice.refused) == (finish, finish == "content_filter")


def test_what_was_streamed_counts_and_the_end_fills_in():
    done = {"type": "message", "content": [{"type": "output_text", "text": "other words"}]}
    late = {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "c"}
    reply = stream(
        {"type": "response.output_item.added", "output_index": 0, "item": {"type": "message", "content": []}},
        {"type": "response.output_text.delta", "output_index": 0, "delta": "shown"},
        {"type": "response.output_item.done", "output_index": 0, "item": done},
        {"type": "response.output_item.done", "output_index": 1, "item": late},
        {"type": "response.completed", "response": {"status": "completed", "usage": {"output_tokens": 3}}},
    )
    [choice] = reply.choices
    assert (choice.text, choice.tool_calls[0].name, choice.finish_reason, choice.count) == (
        "shown",
        "f",
        "tool_calls",
        3,
    )


def test_a_stream_of_deltas_alone_is_read_and_said_to_be_cut():
    reply = stream(
        {"type": "response.reasoning_text.delta", "item_id": "r", "delta": "Hm"},
        {"type": "response.output_text.delta", "item_id": "m", "delta": "Yes"},
        {"type": "response.refusal.delta", "item_id": "n", "delta": "No"},
        {"type": "response.function_call_arguments.delta", "item_id": "f", "delta": "{}"},
    )
    [choice] = reply.choices
    assert (reply.error, choice.reasoning, choice.text, choice.refused) == ("cut", "Hm", "YesNo", True)
    assert choice.tool_calls[0].arguments == "{}"
    assert choice.finish_reason is None


def test_an_error_event_is_an_error():
    assert stream({"type": "error", "message": "no"}).error == "stream_error"
    failed = {"type": "response.failed", "response": {"status": "failed", "output": []}}
    assert stream(failed).error == "finish_failed"


NAMES = [(VLLM, "responses_stream"), (VLLM, "responses_tool_stream"), (LLAMA, "responses_limit_stream")]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
@given(which=st.sampled_from(NAMES), draw=st.data())
def test_any_split_of_a_stream_gives_the_same_reply(recorded, which, draw):
    case = recorded(*which)
    body = case.answer.body
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(body)), max_size=12)))
    pieces = tuple((at, body[a:b]) for at, (a, b) in enumerate(pairwise([0, *cuts, len(body)])))
    assert read(case.request, Answer(200, case.answer.headers, pieces)) == read(case.request, case.answer)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(which=st.sampled_from(NAMES), at=st.integers(0, 5000))
def test_a_cut_stream_says_so_and_keeps_what_came(recorded, which, at):
    case = recorded(*which)
    body = case.answer.body
    at = min(at, body.index(b"event: response.completed") if b"event: response.completed" in body else at)
    cut = read(case.request, Answer(200, case.answer.headers, ((0, body[:at]),)))
    assert cut.error in ("cut", "no_choices")
    full = read(case.request, case.answer).choices[0]
    for choice in cut.choices:
        assert full.text.startswith(choice.text)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "output",
                    "item",
                    "content",
                    "text",
                    "usage",
                    "delta",
                    "response",
                    "status",
                    "output_index",
                    "item_id",
                ]
            ),
            inner
            | st.sampled_from(
                ["message", "reasoning", "function_call", "response.output_text.delta", "response.completed"]
            ),
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
    assert read({"max_output_tokens": "4"}, Answer(200, SSE, ((0, body),))) is not None


@settings(max_examples=80, deadline=None)
@given(body=st.binary(max_size=80), status=st.integers(-1, 1000), streamed=st.booleans())
def test_any_bytes_are_read_without_raising(body, status, streamed):
    reply = read({}, Answer(status, SSE if streamed else JSON, ((0, body),)))
    assert reply.error is not None
