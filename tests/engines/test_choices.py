"""Whole replies to token streams: counting, channels, indices, finish reasons."""

import pytest

from engines import openai
from engines.choices import reply
from engines.dialect import Answer, Endpoint
from proxy.compare.token_stream import Channel


def rows(*texts):
    return {"content": [{"token": text, "logprob": -0.5} for text in texts]}


def chat(finish="stop", usage=None, logprobs=None, **message):
    return {
        "choices": [{"index": 0, "message": message, "logprobs": logprobs, "finish_reason": finish}],
        "usage": {"completion_tokens": usage, "prompt_tokens": 4},
    }


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ("stop", "stop"),
        ("eos", "stop"),
        ("eos_token", "stop"),
        ("stop_sequence", "stop"),
        ("word", "stop"),
        ("length", "length"),
        ("tool_calls", "tool_calls"),
        ("something new", "other"),
        (None, None),
        (7, None),
    ],
)
def test_finish_reasons(given, named):
    assert reply(chat(given, content="a"), {}, None).choices[0].finish_reason == named


def test_rows_that_do_not_add_up_are_missing():
    assert reply(chat(usage=2, content="ab", logprobs=rows("a", "b")), {}, None).choices[0].rows_missing is False
    assert reply(chat(usage=3, content="ab", logprobs=rows("a", "b")), {}, None).choices[0].rows_missing is True
    assert reply(chat(usage=None, content="ab", logprobs=rows("a", "b")), {}, None).choices[0].rows_missing is False
    assert reply(chat(usage=3, content="ab"), {}, None).choices[0].rows_missing is False


def test_channels_of_a_whole_reply_are_cut_where_the_texts_end():
    seen = reply(
        chat(
            content="so",
            reasoning="hm ok",
            tool_calls=[{"id": "a", "function": {"name": "f", "arguments": "{}"}}],
            logprobs=rows("<think>", "hm", " ok", "</think>", "so", "<call>", "{}", ""),
        ),
        {},
        None,
    )
    (choice,) = seen.choices
    reasoning, content, tool = Channel.REASONING, Channel.CONTENT, Channel.TOOL
    assert [token.channel for token in choice.tokens] == [
        reasoning, reasoning, reasoning, content, content, tool, tool, tool
    ]  # fmt: skip


def test_texts_that_are_not_in_the_tokens_leave_the_channel_alone():
    seen = reply(chat(content="so", reasoning="hm", logprobs=rows("", "")), {}, None)
    assert [token.channel for token in seen.choices[0].tokens] == [Channel.CONTENT, Channel.CONTENT]


def test_choices_come_in_index_order_and_by_place_when_indices_are_useless():
    def texts(*indices):
        choices = [{"index": index, "text": str(at)} for at, index in enumerate(indices)]
        return [(choice.index, choice.text) for choice in reply({"choices": choices}, {}, None).choices]

    assert texts(1, 0) == [(0, "1"), (1, "0")]
    assert texts(0, 0) == [(0, "0"), (1, "1")]
    assert texts(None, 0) == [(0, "0"), (1, "1")]


def test_ids_that_contradict_the_rows_win_without_values():
    value = {
        "choices": [
            {
                "index": 0,
                "text": "a",
                "token_ids": [9],
                "logprobs": {"content": [{"id": 8, "token": "a", "logprob": -1}]},
            }
        ]
    }
    (choice,) = reply(value, {}, None).choices
    assert [(token.id, token.logprob) for token in choice.tokens] == [(9, None)]


def test_echoed_rows_that_do_not_add_up_are_missing():
    value = {
        "choices": [{"index": 0, "text": "abc", "logprobs": rows("a", "b", "c")}],
        "usage": {"completion_tokens": 1, "prompt_tokens": 1},
    }
    assert reply(value, {"echo": True}, None).choices[0].rows_missing is True
    value["usage"]["prompt_tokens"] = 2
    (choice,) = reply(value, {"echo": True}, None).choices
    assert ([token.text for token in choice.tokens], choice.rows_missing) == (["c"], False)


def test_usage_and_identity():
    value = {
        **chat(content="a", usage=1),
        "model": "m",
        "system_fingerprint": "f",
        "usage": {"prompt_tokens": 5, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 4}},
    }
    seen = reply(value, {}, None)
    assert (seen.prompt_tokens, seen.completion_tokens, seen.cached_tokens) == (5, 1, 4)
    assert (seen.model, seen.system_fingerprint) == ("m", "f")


@pytest.mark.parametrize(
    ("message", "finish", "text", "refused"),
    [
        ({"content": None, "refusal": "I cannot help with that."}, "stop", "I cannot help with that.", True),
        ({"content": "", "refusal": None}, "content_filter", "", True),
        ({"content": "Yes.", "refusal": None}, "stop", "Yes.", False),
        ({"content": "Yes.", "refusal": 5}, "stop", "Yes.", False),
    ],
)
def test_a_refusal_is_what_the_client_reads_and_said_to_be_one(message, finish, text, refused):
    (choice,) = reply(chat(finish, **message), {}, None).choices
    assert (choice.text, choice.refused) == (text, refused)


def test_a_streamed_refusal_is_that_of_the_whole_reply():
    events = b"".join(
        b'data: {"choices":[{"index":0,"delta":%s,"finish_reason":%s}]}\n\n' % pair
        for pair in ((b'{"refusal":"I "}', b"null"), (b'{"refusal":"cannot."}', b"null"), (b"{}", b'"stop"'))
    )
    answer = Answer(200, (("content-type", "text/event-stream"),), ((0, events + b"data: [DONE]\n\n"),))
    seen = openai.read(Endpoint.CHAT, {}, answer)
    assert seen.error is None
    assert (seen.choices[0].text, seen.choices[0].refused) == ("I cannot.", True)
