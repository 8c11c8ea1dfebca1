"""Deltas of every engine's making merged into the whole reply."""

import json
import time

import pytest

from engines.choices import reply
from engines.stream import merge
from proxy.compare.sse import SseReader
from proxy.compare.token_stream import Channel, ToolCall


def events(*values, done=True):
    lines = [value if isinstance(value, str) else json.dumps(value) for value in values] + ["[DONE]"] * done
    reader = SseReader()
    return reader.feed("".join(f"data: {line}\n\n" for line in lines).encode()) + reader.finish()


def delta(content, finish=None, **choice):
    return {"choices": [{"index": 0, "delta": content, "finish_reason": finish, **choice}]}


def read(*values, done=True):
    value, error = merge(events(*values, done=done))
    return reply(value, {}, error)


def row(text):
    return {"token": text, "logprob": -0.5, "bytes": list(text.encode())}


def test_several_tokens_in_an_event_and_tokens_without_text():
    seen = read(
        delta({"role": "assistant", "content": None}),
        delta({"content": "ab"}, logprobs={"content": [row("a"), row("b")]}),
        delta({}, logprobs={"content": [row("c")]}),
        delta({"content": "cd"}),
        delta({}, "stop"),
        {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 3}},
    )
    (choice,) = seen.choices
    assert (choice.text, [token.text for token in choice.tokens]) == ("abcd", ["a", "b", "c"])
    assert (choice.count, choice.rows_missing, seen.prompt_tokens, seen.error) == (3, False, 3, None)


def test_null_events_unknown_fields_and_unknown_channels_are_passed_over():
    seen = read("null", {"obfuscation": "x"}, delta({"content": "a", "mood": "b"}, "eos", other=1))
    assert (seen.choices[0].text, seen.choices[0].finish_reason, seen.error) == ("a", "stop", None)


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_reasoning_is_one_channel_under_both_names(name):
    (choice,) = read(
        delta({name: "hm"}, logprobs={"content": [row("hm")]}),
        delta({"content": "so"}, "stop", logprobs={"content": [row("so")]}),
    ).choices
    assert (choice.reasoning, choice.text) == ("hm", "so")
    assert [token.channel for token in choice.tokens] == [Channel.REASONING, Channel.CONTENT]


def test_tool_calls_are_merged_by_index():
    def call(index, **rest):
        return delta({"tool_calls": [{"index": index, **rest}]})

    (choice,) = read(
        call(0, id="a", type="function", function={"name": "f", "arguments": ""}),
        call(0, function={"arguments": '{"x"'}),
        call(1, id="b", function={"name": "g", "arguments": "{}"}),
        call(0, function={"arguments": ": 1}"}),
        delta({}, "tool_calls"),
    ).choices
    assert choice.tool_calls == (ToolCall("f", '{"x": 1}', "a"), ToolCall("g", "{}", "b"))
    assert choice.finish_reason == "tool_calls"


def test_the_older_single_function_call():
    (choice,) = read(
        delta({"function_call": {"name": "f", "arguments": "{"}}),
        delta({"function_call": {"arguments": "}"}}, "function_call"),
    ).choices
    assert choice.tool_calls == (ToolCall("f", "{}"),)


def test_tokens_of_a_tool_call_are_marked():
    (choice,) = read(
        delta({"content": "a"}, logprobs={"content": [row("a")]}),
        delta(
            {"tool_calls": [{"index": 0, "function": {"name": "f"}}]},
            "tool_calls",
            logprobs={"content": [row("<call>")]},
        ),
    ).choices
    assert [token.channel for token in choice.tokens] == [Channel.CONTENT, Channel.TOOL]


def test_ids_come_as_deltas_and_name_the_tokens_without_rows():
    seen = read(
        {"choices": [{"index": 0, "delta": {"role": "assistant"}}], "prompt_token_ids": [1, 2]},
        delta({"content": "a"}, token_ids=[5]),
        delta({"content": ""}, "stop", token_ids=[6, 7]),
    )
    (choice,) = seen.choices
    assert ([token.id for token in choice.tokens], choice.count, choice.prompt_ids) == ([5, 6, 7], 3, (1, 2))


def test_swallowed_rows_leave_ids_without_values():
    (choice,) = read(
        delta({"content": "a"}, logprobs={"content": [row("a")]}, token_ids=[5]), delta({}, "stop", token_ids=[6])
    ).choices
    assert [(token.id, token.logprob) for token in choice.tokens] == [(5, None), (6, None)]
    assert choice.rows_missing is False


def test_a_labelled_row_takes_its_text_from_its_event():
    (choice,) = read(
        delta({"content": "The"}, "stop", logprobs={"content": [{"token": "token_id:504", "logprob": -1.0}]})
    ).choices
    assert (choice.tokens[0].id, choice.tokens[0].text) == (504, "The")


def test_completions_arrays_are_joined():
    def chunk(text, finish=None):
        arrays = {"tokens": [text], "token_logprobs": [-1.0], "top_logprobs": [{text: -1.0}], "text_offset": [0]}
        return {"choices": [{"index": 0, "text": text, "logprobs": arrays, "finish_reason": finish}]}

    (choice,) = read(chunk("a"), chunk("b", "length")).choices
    assert (choice.text, [token.text for token in choice.tokens]) == ("ab", ["a", "b"])
    assert choice.tokens[1].top[0].text == "b"


def test_missing_done_is_tolerated_and_a_missing_finish_is_a_cut():
    assert read(delta({"content": "a"}, "stop"), done=False).error is None
    assert read(delta({"content": "a"}), done=False).error == "cut"
    assert read(delta({"content": "a"}), done=True).error is None
    assert read(done=True).error == "no_choices"


@pytest.mark.parametrize(
    "broken",
    [{"error": {"message": "boom", "code": 500}}, {"error": "boom"}, '"boom"', {"object": "error", "message": "boom"}],
)
def test_errors_inside_a_stream(broken):
    seen = read(delta({"content": "a"}), broken)
    assert (seen.error, seen.choices[0].text) == ("stream_error", "a")


def test_an_error_event_and_broken_events():
    reader = SseReader()
    assert merge(reader.feed(b'event: error\ndata: {"message": "x"}\n\n'))[1] == "stream_error"
    assert merge(SseReader().feed(b"event: error\ndata: boom\n\n"))[1] == "stream_error"
    assert read("{broken").error == "not_json"
    reader = SseReader()
    assert merge(reader.feed(b'data: {"choi') + reader.finish())[1] == "cut"


def test_an_engine_that_gave_up():
    assert read(delta({"content": "a"}, "abort")).error == "finish_abort"


def test_continuous_usage_ends_with_the_last():
    first = {**delta({"content": "a"}), "usage": {"prompt_tokens": 3, "completion_tokens": 1}}
    last = {**delta({"content": "b"}, "stop"), "usage": {"prompt_tokens": 3, "completion_tokens": 2}}
    assert read(first, last).completion_tokens == 2


def test_usage_that_grows_is_gathered_once():
    said = [{**delta({"content": ""}), "usage": {f"field_{number}": number}} for number in range(20_000)]
    value, _ = merge(events(*said))
    assert len(value["usage"]) == 20_000


@pytest.mark.parametrize("odd", [5, [], "x", True])
def test_usage_that_is_none_does_not_stand_in_the_way_of_what_follows(odd):
    said = [
        {**delta({"content": "a"}, "stop"), "usage": one}
        for one in (odd, {"prompt_tokens": 3}, {"completion_tokens": 1})
    ]
    value, error = merge(events(*said))
    assert (value["usage"], error) == ({"prompt_tokens": 3, "completion_tokens": 1}, None)


def test_many_small_events_take_time_in_proportion():
    def seconds(number):
        chunk = b'data: {"choices": [{"index": 0, "text": "a", "token_ids": [1], "logprobs": {"tokens": ["a"]}}]}\n\n'
        found = SseReader().feed(chunk * number)
        started = time.process_time()
        merged, _ = merge(found)
        took = time.process_time() - started
        assert merged["choices"][0]["token_ids"] == [1] * number
        assert merged["choices"][0]["logprobs"]["tokens"] == ["a"] * number
        return took

    # Five times as many: five times as long when linear, twenty-five times when each event copies what came before.
    assert seconds(100_000) < 12 * max(min(seconds(20_000) for _ in range(2)), 0.05)
