"""LMDeploy: what is asked, how pieces and their rows are read, how prompts are rendered and given tokens scored.

Shapes are those of LMDeploy 0.18 (its protocol, ``chat_completions`` and ``endpoints``); ``protocol_models`` holds them against its own models.
"""

import asyncio
import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.canary import chat_template_hash, tokenizer_hash, values_mode
from engines.capabilities import Level
from engines.dialect import Answer, DialectError, Endpoint
from engines.lmdeploy import DIALECT, ask, inject, read, strip
from engines.probe import probe
from proxy.compare.token_stream import Alternative, Channel

CHAT, COMPLETIONS = Endpoint.CHAT, Endpoint.COMPLETIONS
JSON, SSE = (("content-type", "application/json"),), (("content-type", "text/event-stream; charset=utf-8"),)


def answer(value, status=200):
    return Answer(status, JSON, ((9, json.dumps(value).encode()),))


def stream(*events):
    body = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events) + b"data: [DONE]\n\n"
    return Answer(200, SSE, ((9, body),))


def row(piece, logprob, *others):
    """One row, as ``_create_chat_completion_logprobs`` makes it: pieces of the vocabulary, the chosen token not in its list."""
    top = [{"token": name, "bytes": list(name.encode()), "logprob": value} for name, value in others]
    return {"token": piece, "bytes": list(piece.encode()), "logprob": logprob, "top_logprobs": top}


def chat(content, rows, ids, **more):
    """A whole chat, dumped with every field."""
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": content, "reasoning_content": None, "tool_calls": None},
        "logprobs": {"content": rows} if rows is not None else None,
        "output_token_logprobs": None,
        "finish_reason": "stop",
        "output_ids": ids,
        "routed_experts": None,
    }
    return {"choices": [choice | more], "usage": {"prompt_tokens": 3, "completion_tokens": len(ids or ())}}


def event(delta, **choice):
    """An event of a stream, dumped without what is null."""
    return {
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": {"role": "assistant", **delta}, **choice}],
    }


def test_a_chat_is_asked_for_logprobs_and_ids_and_is_greedy_in_both_ways():
    assert ask(CHAT, {"temperature": 0, "top_k": 40}, 20) == {
        "temperature": 0,
        "top_k": 1,
        "logprobs": True,
        "top_logprobs": 20,
        "return_token_ids": True,
    }
    assert ask(CHAT, {"temperature": 0.5, "top_k": -1}, 5)["top_k"] == 0
    assert "top_k" not in ask(CHAT, {}, 5)
    assert ask(CHAT, {"stream": True}, 5)["stream_options"] == {"include_usage": True}


def test_without_a_logprobs_mode_ids_are_still_to_be_had():
    assert ask(CHAT, {}, 0) == {"return_token_ids": True}


def test_a_completion_is_not_asked_for_what_breaks_its_stream():
    assert ask(COMPLETIONS, {"logprobs": 5, "temperature": 0.0}, 20) == {"temperature": 0.0, "top_k": 1}
    assert inject(COMPLETIONS, {"prompt": "x"}, 20) == {"prompt": "x"}


def test_what_cannot_be_taken_away_again_is_not_injected():
    assert inject(CHAT, {}, 20) == {"logprobs": True, "top_logprobs": 20, "return_token_ids": True}
    assert inject(CHAT, {"logprobs": True}, 20) == {"logprobs": True, "return_token_ids": True}
    assert inject(CHAT, {"logprobs": 1}, 20) == {"logprobs": 1}
    assert inject(CHAT, {"return_token_ids": 0}, 20) == {"return_token_ids": 0}


def test_pieces_are_read_as_text_and_bytes_under_their_ids():
    value = chat(
        "The 🌊é",
        [
            row("The", -0.1, ("ĠThe", -2.5)),
            row("Ġð", -0.2, ("Ġthe", -1.9)),
            row("ŁĮ", -0.3),
            row("Ĭ", -0.4),
            row("Ã©", -0.5, ("é", -3.0)),
        ],
        [5, 6, 7, 8, 9],
    )
    choice = read(CHAT, {"logprobs": True}, answer(value)).choices[0]
    assert [(token.id, token.text, token.data, token.logprob) for token in choice.tokens] == [
        (5, "The", b"The", -0.1),
        (6, " ", b" \xf0", -0.2),
        (7, "", b"\x9f\x8c", -0.3),
        (8, "", b"\x8a", -0.4),
        (9, "é", "é".encode(), -0.5),
    ]
    assert choice.tokens[1].top == (Alternative(-0.2, 6, " ", b" \xf0"), Alternative(-1.9, None, " the", b" the"))
    assert choice.tokens[2].top == ()
    assert not choice.rows_missing


def test_sentencepiece():
    value = chat("the sea", [row("▁the", -0.1, ("<0xE2>", -4.0)), row("▁sea", -0.2)], [5, 6])
    choice = read(CHAT, {"logprobs": True}, answer(value)).choices[0]
    assert [(token.text, token.data) for token in choice.tokens] == [(" the", b" the"), (" sea", b" sea")]
    assert choice.tokens[0].top == (Alternative(-0.1, 5, " the", b" the"), Alternative(-4.0, None, "", b"\xe2"))


def test_the_channels_of_a_whole_reply():
    message = {"role": "assistant", "content": "Hi", "reasoning_content": "hm", "tool_calls": None}
    value = chat("", [row("hm", -0.1), row("</think>", -0.2), row("Hi", -0.3)], [5, 6, 7], message=message)
    tokens = read(CHAT, {"logprobs": True}, answer(value)).choices[0].tokens
    assert [token.channel for token in tokens][::2] == [Channel.REASONING, Channel.CONTENT]


def test_a_tool_call_bears_its_tokens_out_by_its_name():
    call = {"id": "c", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    value = chat("", [row("Ġlook", -0.1), row("_up", -0.2)], [5, 6], message=message, finish_reason="tool_calls")
    choice = read(CHAT, {"logprobs": True}, answer(value)).choices[0]
    assert [(token.text, token.channel) for token in choice.tokens] == [(" look", Channel.TOOL), ("_up", Channel.TOOL)]


def test_a_chosen_token_that_was_filtered_away_has_no_value():
    empty = {"token": "", "bytes": [], "logprob": 0.0, "top_logprobs": [{"token": "Ġa", "bytes": [1], "logprob": -0.7}]}
    tokens = read(CHAT, {"logprobs": True}, answer(chat("The", [row("The", -0.1), empty], [5, 6]))).choices[0].tokens
    assert (tokens[1].id, tokens[1].logprob, tokens[1].text) == (6, None, "")


def test_turbominds_greedy_values_are_seen_to_be_renormalised():
    value = chat("The sea", [row("The", 0.0), row("Ġsea", 0.0)], [5, 6])
    tokens = read(CHAT, {"logprobs": True}, answer(value)).choices[0].tokens
    assert [token.id for token in tokens] == [5, 6]
    assert values_mode(tokens) == "renormalised"


def test_pairs_where_there_are_no_rows():
    value = chat("The sea", None, None, output_token_logprobs=[[-0.1, 5], [-0.2, 6]])
    value["usage"]["completion_tokens"] = 2
    choice = read(CHAT, {"return_logprob": True}, answer(value)).choices[0]
    assert [(token.id, token.logprob, token.top) for token in choice.tokens] == [(5, -0.1, ()), (6, -0.2, ())]
    assert not choice.rows_missing


STREAM = (
    event({"content": ""}),
    event({"reasoning_content": "hm"}, output_ids=[4], logprobs={"content": [row("hm", -0.6)]}),
    event({"content": ""}, output_ids=[3], logprobs={"content": [row("</think>", -0.7)]}),
    event({"content": "The"}),
    event(
        {"content": " sé🌊a"},
        output_ids=[5, 6],
        logprobs={"content": [row("The", -0.1, ("ĠThe", -2.5)), row("ĠsÃ©ðŁĮĬa", -0.2)]},
    ),
    event({"content": ""}, finish_reason="stop", output_ids=[]),
    {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}},
)


def test_a_stream_with_ids_on_the_last_delta_of_a_step():
    choice = read(CHAT, {"logprobs": True, "stream": True}, stream(*STREAM)).choices[0]
    assert [(token.id, token.text, token.logprob) for token in choice.tokens] == [
        (4, "hm", -0.6),
        (3, "</think>", -0.7),
        (5, "The", -0.1),
        (6, " sé🌊a", -0.2),
    ]
    assert (choice.reasoning, choice.text, choice.rows_missing) == ("hm", "The sé🌊a", False)
    assert choice.tokens[0].channel is Channel.REASONING


@settings(max_examples=40, deadline=None)
@given(cuts=st.lists(st.integers(0, 3000), max_size=12))
def test_a_stream_reads_the_same_in_any_pieces(cuts):
    made = stream(*STREAM)
    expected = read(CHAT, {"stream": True}, made)
    for places in (cuts, range(1, len(made.body)) if len(cuts) == 1 else ()):  # byte by byte, for some
        edges = [0, *sorted({min(cut, len(made.body)) for cut in places}), len(made.body)]
        pieces = (made.body[start:end] for start, end in pairwise(edges))
        cut_up = Answer(200, SSE, tuple(enumerate(pieces)))
        assert read(CHAT, {"stream": True}, cut_up) == expected


def test_strip_leaves_what_the_client_would_have_got():
    got = [json.loads(json.dumps(one)) for one in STREAM]
    assert [strip(CHAT, {"stream": True}, one) for one in got] == [
        event({"content": ""}),
        event({"reasoning_content": "hm"}),
        None,  # a parser's marker: no event without ids
        event({"content": "The"}),
        event({"content": " sé🌊a"}),
        event({"content": ""}, finish_reason="stop"),
        STREAM[-1],
    ]
    assert strip(CHAT, {}, chat("The", [row("The", -0.1)], [5])) == chat("The", None, None) | {
        "usage": {"prompt_tokens": 3, "completion_tokens": 1}
    }
    own = {"logprobs": True, "return_token_ids": True}
    assert strip(CHAT, own, chat("The", [row("The", -0.1)], [5])) == chat("The", [row("The", -0.1)], [5])


def test_errors_are_flat_and_wrapped_in_a_stream():
    flat = {
        "message": "quotes the prompt",
        "type": "invalid_request_error",
        "code": 400,
        "param": None,
        "object": "error",
    }
    assert read(CHAT, {}, answer(flat, 400)).error == "status_400"
    assert read(CHAT, {}, stream(event({"content": "x"}), {"error": flat})).error == "stream_error"


def test_prompts_are_rendered_as_far_as_a_route_does_it(scripted):
    fetch = scripted({"/v1/encode": lambda body: {"input_ids": [len(body["input"])], "length": 1}})
    one = {"messages": [{"role": "user", "content": "abc"}]}
    assert asyncio.run(DIALECT.prompt_ids(fetch, CHAT, one)) == ((3,),)
    assert fetch.calls[-1].body == {"input": "abc", "do_preprocess": True}
    assert asyncio.run(DIALECT.prompt_ids(fetch, COMPLETIONS, {"prompt": ["ab", [7]]})) == ((2,), (7,))
    assert fetch.calls[-1].body == {"input": "ab"}
    assert asyncio.run(DIALECT.tokenize(fetch, "abcd", "m")) == (4,)
    assert fetch.calls[-1].body == {"input": "abcd", "add_bos": False}


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [{"role": "system", "content": "a"}, {"role": "user", "content": "b"}]},
        {"messages": [{"role": "assistant", "content": "a"}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}]},
        {"messages": [{"role": "user", "content": "a", "name": "x"}]},
        {"messages": [{"role": "user", "content": "a"}], "tools": [{}]},
        {"messages": [{"role": "user", "content": "a"}], "chat_template_kwargs": {"enable_thinking": False}},
        {"messages": [], "input_ids": [1]},
    ],
)
def test_other_chats_cannot_be_rendered(scripted, body):
    fetch = scripted({"/v1/encode": {"input_ids": [1]}})
    with pytest.raises(DialectError) as error:
        asyncio.run(DIALECT.prompt_ids(fetch, CHAT, body))
    assert error.value.reason == "no_prompt_ids"
    assert fetch.calls == []


def test_its_chat_template_is_not_known_by_the_one_chat_it_renders(scripted):
    fetch = scripted({"/v1/encode": {"input_ids": [1]}})
    assert asyncio.run(chat_template_hash(fetch, DIALECT, "m")) is None
    assert asyncio.run(tokenizer_hash(fetch, DIALECT, "m")) is not None


def test_given_tokens_are_scored(scripted):
    def generated(body):
        # rows of what follows the boundary (``logprob_token_ids`` in its ``async_engine``), without texts
        ids = body["input_ids"][body["logprob_start_len"] + 1 :]
        meta = {
            "input_token_logprobs": [[-0.1 * one, one] for one in ids],
            "input_top_logprobs": [[[-0.1 * one, one], [-9.0, 99]] for one in ids],
        }
        return {"text": "", "output_ids": [], "meta_info": meta}

    fetch = scripted({"/generate": generated})
    rows = asyncio.run(DIALECT.score(fetch, "m", (1, 2, 3), (4, 5), 2))
    assert [(row.index, row.token.id) for row in rows] == [(0, 4), (1, 5)]
    assert [row.token.logprob for row in rows] == pytest.approx([-0.4, -0.5])
    assert [one.id for one in rows[1].token.top] == [5, 99]
    assert (fetch.calls[0].body["logprob_start_len"], fetch.calls[0].body["max_tokens"]) == (2, 0)
    (only,) = asyncio.run(DIALECT.score(fetch, None, (), (4, 5), 2))
    assert (only.index, only.token.id) == (1, 5)


def test_versions_and_engines_without_scoring_refuse(scripted):
    with pytest.raises(DialectError) as error:
        asyncio.run(DIALECT.score(scripted({"/generate": Answer(400, JSON, ((0, b"{}"),))}), None, (1,), (2,), 2))
    assert error.value.reason == "status_400"
    nothing = {"text": "", "output_ids": [1], "meta_info": {"input_token_logprobs": None}}
    with pytest.raises(DialectError) as error:
        asyncio.run(DIALECT.score(scripted({"/generate": nothing}), None, (1,), (2,), 2))
    assert error.value.reason == "no_prompt_logprobs"


def test_an_engine_without_a_logprobs_mode_is_found_to_have_ids(scripted):
    def answered(body):
        if body.get("logprobs"):  # the check of its ``validation``
            return Answer(400, JSON, ((0, b'{"object": "error", "message": "not enabled logprobs_mode"}'),))
        return chat("The sea", None, [5, 6] if body.get("return_token_ids") else None)

    fetch = scripted({"/v1/models": {"data": [{"id": "m", "owned_by": "lmdeploy"}]}, "/v1/chat/completions": answered})
    found = asyncio.run(probe(fetch, DIALECT))
    assert (found.capabilities.text_only, found.capabilities.token_ids) == (True, True)
    assert found.capabilities.level is Level.TEXT
    assert [one.finding for one in found.findings] == ["no_logprobs"]
