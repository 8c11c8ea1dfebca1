"""SGLang: what is asked, how replies are read, how prompts are rendered and given tokens scored.

Shapes are those of SGLang 0.5.23 (its protocol, ``serving_chat``, ``serving_completions`` and ``tokenizer_manager``); ``protocol_models`` holds them against its own models.
"""

import asyncio
import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.dialect import Answer, DialectError, Endpoint
from engines.sglang import DIALECT, ask, cache_salt, inject, read, strip
from proxy.compare.token_stream import Alternative, Channel

CHAT, COMPLETIONS = Endpoint.CHAT, Endpoint.COMPLETIONS
USER = [{"role": "user", "content": "hi"}]


def whole(value):
    return Answer(200, (("content-type", "application/json"),), ((9, json.dumps(value).encode()),))


def stream(*events):
    body = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events) + b"data: [DONE]\n\n"
    return Answer(200, (("content-type", "text/event-stream; charset=utf-8"),), ((9, body),))


def row(text, logprob, *listed):
    """One row of a chat, as ``_build_token_logprobs_from_raw`` makes it: the chosen token is not merged into its list."""
    top = [{"token": name, "bytes": list(name.encode()), "logprob": value} for name, value in listed]
    return {"token": text, "bytes": list(text.encode()), "logprob": logprob, "top_logprobs": top}


def chunk(rows, content=None, reasoning=None, finish=None):
    """One event of a chat, as ``build_sse_content`` makes it."""
    delta = {"reasoning_content": reasoning} | ({"content": content} if content is not None else {})
    logprobs = {"content": rows} if rows else None
    choice = {"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": finish, "matched_stop": None}
    return {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


def test_a_shadow_is_asked_for_a_whole_reply_with_ids():
    body = {"stream": True, "stream_options": {"include_usage": True}, "top_k": 0, "frequency_penalty": None}
    assert ask(CHAT, body, 20) == {
        "stream": False,
        "top_k": -1,
        "logprobs": True,
        "top_logprobs": 20,
        "return_token_ids": True,
    }
    assert ask(COMPLETIONS, {"top_k": 3}, 20) == {"top_k": 3, "logprobs": 20, "stream": False, "return_token_ids": True}
    assert body["stream"] is True


def test_a_streamed_chat_is_never_asked_for_ids_on_the_live_path():
    assert inject(CHAT, {"stream": True}, 20) == {"stream": True, "logprobs": True, "top_logprobs": 20}
    assert inject(CHAT, {"stream": False}, 20)["return_token_ids"] is True
    assert inject(CHAT, {"stream": "true"}, 20) == {"stream": "true", "logprobs": True, "top_logprobs": 20}
    assert inject(COMPLETIONS, {"stream": True}, 20) == {"stream": True, "logprobs": 20, "return_token_ids": True}
    assert inject(CHAT, {"return_token_ids": "yes"}, 20) == {"return_token_ids": "yes"}


def test_a_whole_chat_has_ids_of_prompt_and_reply():
    value = {
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hi", "reasoning_content": None},
                "logprobs": {
                    "content": [
                        row("Hi", -0.5, ("Hi", -0.5), ("Hey", -1.5)),
                        row("<|im_end|>", -0.1, ("<|im_end|>", -0.1), ("!", -2.5)),
                    ]
                },
                "finish_reason": "stop",
                "matched_stop": 2,
                "prompt_token_ids": [1, 2, 3],
                "response_token_ids": [7, 2],
            }
        ],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2},
    }
    choice = read(CHAT, ask(CHAT, {}, 2), whole(value)).choices[0]
    assert [(token.id, token.text, token.logprob) for token in choice.tokens] == [
        (7, "Hi", -0.5),
        (2, "<|im_end|>", -0.1),
    ]
    assert choice.prompt_ids == (1, 2, 3)
    assert choice.tokens[0].top == (Alternative(-0.5, None, "Hi", b"Hi"), Alternative(-1.5, None, "Hey", b"Hey"))
    assert not choice.rows_missing


def test_lowest_float_and_parts_of_characters():
    rows = [
        {
            "token": "�",
            "bytes": [0xF0, 0x9F],
            "logprob": -0.5,
            "top_logprobs": [
                {"token": "�", "bytes": [0xF0, 0x9F], "logprob": -0.5},
                {"token": "x", "bytes": [120], "logprob": -3.4028234663852886e38},
            ],
        },
        {"token": "�", "bytes": [0xEF, 0xBF, 0xBD], "logprob": -3.4028234663852886e38, "top_logprobs": []},
    ]
    value = {
        "choices": [{"message": {"content": "�"}, "logprobs": {"content": rows}, "finish_reason": "length"}],
        "usage": {"completion_tokens": 2},
    }
    one, other = read(CHAT, {}, whole(value)).choices[0].tokens
    assert (one.data, one.logprob, one.top) == (b"\xf0\x9f", -0.5, (Alternative(-0.5, None, "�", b"\xf0\x9f"),))
    assert (other.data, other.logprob) == (None, None)  # older versions: bytes of what the decoder made of it


def test_alternatives_repeated_in_an_event_of_several_tokens_are_not_compared():
    first = (("The", -0.1), ("A", -2.5))
    events = (
        chunk([row("The", -0.1, *first), row(" sea", -0.4, *first)], "The sea"),
        chunk([row(" is", -0.2, (" is", -0.2), (" was", -1.9))], " is", finish="length"),
    )
    tokens = read(CHAT, {"stream": True, "logprobs": True, "top_logprobs": 2}, stream(*events)).choices[0].tokens
    assert [(token.text, token.logprob, len(token.top)) for token in tokens] == [
        ("The", -0.1, 2),
        (" sea", -0.4, 0),
        (" is", -0.2, 2),
    ]


def test_reasoning_without_rows_is_said_to_lack_them():
    events = (chunk([], reasoning="hm"), chunk([row("Hi", -0.5)], "Hi", finish="stop"))
    usage = {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}
    choice = read(CHAT, {"logprobs": True}, stream(*events, usage)).choices[0]
    assert choice.rows_missing
    assert (choice.reasoning, choice.text) == ("hm", "Hi")


def test_rows_of_reasoning_are_in_its_channel():
    events = (chunk([row("hm", -0.2)], reasoning="hm"), chunk([row("Hi", -0.5)], "Hi", finish="stop"))
    choice = read(CHAT, {"logprobs": True}, stream(*events)).choices[0]
    assert [token.channel for token in choice.tokens] == [Channel.REASONING, Channel.CONTENT]


def completion(top, ids=(7, 8)):
    logprobs = {"tokens": ["é", "x"], "token_logprobs": [-0.5, -0.1], "top_logprobs": top, "text_offset": [-1, -1]}
    return {
        "choices": [
            {
                "index": 0,
                "text": "éx",
                "logprobs": logprobs,
                "finish_reason": "length",
                "token_ids": list(ids),
                "prompt_token_ids": [1],
            }
        ],
        "usage": {"completion_tokens": 2},
    }


def test_completions_list_by_text_and_lose_equal_ones():
    value = completion([{"é": -0.5, "y": -2.0, "z": -3.0}, {"x": -0.1, "w": -2.0}])
    first, second = read(COMPLETIONS, {"logprobs": 3}, whole(value)).choices[0].tokens
    assert [(one.text, one.logprob) for one in first.top] == [
        (None, -0.5),
        ("y", -2.0),
        ("z", -3.0),
    ]  # é, or the byte E9
    assert second.top == ()  # three were asked for, two of them shared a text
    assert (first.id, first.text, second.id) == (7, "é", 8)


def test_a_completions_stream_tells_ids_chunk_by_chunk():
    def event(text, ids, rows, prompt=None, finish=None):
        names, values = zip(*rows, strict=True)
        logprobs = {
            "tokens": list(names),
            "token_logprobs": list(values),
            "top_logprobs": [],
            "text_offset": [-1] * len(names),
        }
        choice = {
            "index": 0,
            "text": text,
            "logprobs": logprobs,
            "finish_reason": finish,
            "matched_stop": None,
            "token_ids": ids,
        }
        return {"choices": [choice | ({"prompt_token_ids": prompt} if prompt else {})], "usage": None}

    answer = stream(
        event("a", [5], [("a", -0.1)], [1, 2]), event("bc", [6, 7], [("b", -0.2), ("c", -0.3)], finish="length")
    )
    choice = read(COMPLETIONS, {"logprobs": 0, "stream": True}, answer).choices[0]
    assert [(token.id, token.text, token.logprob) for token in choice.tokens] == [
        (5, "a", -0.1),
        (6, "b", -0.2),
        (7, "c", -0.3),
    ]
    assert choice.prompt_ids == (1, 2)


@settings(max_examples=40, deadline=None)
@given(cuts=st.lists(st.integers(0, 3000), max_size=12))
def test_a_stream_reads_the_same_in_any_pieces(cuts):
    events = (
        chunk([row("hm", -0.2, ("hm", -0.2), ("so", -1.9))], reasoning="hm"),
        chunk([row("né", -0.1, ("né", -0.1), ("A", -2.5)), row(" 🌊", -0.4, ("né", -0.1), ("A", -2.5))], "né 🌊"),
        chunk([], "", finish="stop"),
        {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 3}},
    )
    answer = stream(*events)
    request = {"logprobs": True, "top_logprobs": 2, "stream": True}
    expected = read(CHAT, request, answer)
    assert len(expected.choices[0].tokens) == 3
    for places in (cuts, range(1, len(answer.body)) if len(cuts) == 1 else ()):  # byte by byte, for some
        edges = [0, *sorted({min(cut, len(answer.body)) for cut in places}), len(answer.body)]
        pieces = (answer.body[start:end] for start, end in pairwise(edges))
        cut_up = Answer(200, answer.headers, tuple(enumerate(pieces)))
        assert read(CHAT, request, cut_up) == expected


def test_strip_leaves_what_the_client_would_have_got():
    got = chunk([row("Hi", -0.5)], "Hi")
    assert strip(CHAT, {}, json.loads(json.dumps(got))) == chunk([], "Hi")
    assert strip(CHAT, {}, chunk([row("{", -0.5)])) is None  # text held back by a parser: sent for its row alone
    assert strip(CHAT, {"logprobs": True}, chunk([row("{", -0.5)])) == chunk([row("{", -0.5)])
    assert strip(CHAT, {}, chunk([], finish="stop")) == chunk([], finish="stop")
    value = completion([{"x": -0.1}, {"y": -0.2}])
    stripped = strip(COMPLETIONS, {}, json.loads(json.dumps(value)))
    assert stripped["choices"][0] == {"index": 0, "text": "éx", "logprobs": None, "finish_reason": "length"}
    kept = strip(
        CHAT,
        {"return_prompt_token_ids": True},
        {"choices": [{"prompt_token_ids": [1], "response_token_ids": [2], "logprobs": None}]},
    )
    assert kept == {"choices": [{"prompt_token_ids": [1], "logprobs": None}]}


def test_errors_are_flat():
    flat = {"object": "error", "message": "quotes the prompt", "type": "BadRequest", "param": None, "code": 400}
    assert read(CHAT, {}, Answer(400, (), ((0, json.dumps(flat).encode()),))).error == "status_400"
    assert read(CHAT, {}, whole(flat)).error == "error_in_body"
    assert read(CHAT, {}, stream(chunk([], "Hi"), {"error": flat})).error == "stream_error"


def test_chats_are_rendered_by_the_engine(scripted):
    fetch = scripted({"/tokenize": {"tokens": [1, 2, 3], "count": 3, "max_model_len": 8192}})
    body = {
        "model": "m",
        "messages": USER,
        "chat_template_kwargs": {"enable_thinking": False},
        "temperature": 0,
        "add_generation_prompt": True,
    }
    assert asyncio.run(DIALECT.prompt_ids(fetch, CHAT, body)) == ((1, 2, 3),)
    assert fetch.calls[0].body == {name: body[name] for name in ("model", "messages", "chat_template_kwargs")}


def test_chats_where_tokenize_knows_only_prompts(scripted):
    refused = Answer(400, (), ((0, b"{}"),))
    reply = {"choices": [{"prompt_token_ids": [4, 5], "message": {"content": "x"}}]}
    fetch = scripted({"/tokenize": refused, "/v1/chat/completions": reply})
    assert asyncio.run(DIALECT.prompt_ids(fetch, CHAT, {"messages": USER})) == ((4, 5),)
    assert fetch.calls[1].body["max_tokens"] == 1
    for last in ({"choices": [{}]}, {"choices": []}):
        with pytest.raises(DialectError) as error:
            asyncio.run(
                DIALECT.prompt_ids(
                    scripted({"/tokenize": refused, "/v1/chat/completions": last}), CHAT, {"messages": USER}
                )
            )
        assert error.value.reason == "no_prompt_ids"
    with pytest.raises(DialectError, match="status_503"):
        asyncio.run(DIALECT.prompt_ids(scripted({"/tokenize": Answer(503)}), CHAT, {"messages": USER}))
    with pytest.raises(DialectError, match="multimodal"):
        asyncio.run(
            DIALECT.prompt_ids(fetch, CHAT, {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]})
        )


def test_prompts_and_texts(scripted):
    fetch = scripted({"/tokenize": lambda body: {"tokens": [len(body["prompt"])]}, "/detokenize": {"text": "ab"}})
    assert asyncio.run(DIALECT.prompt_ids(fetch, COMPLETIONS, {"prompt": ["abc", [7, 8]]})) == ((3,), (7, 8))
    assert asyncio.run(DIALECT.tokenize(fetch, "ab", "m")) == (2,)
    assert fetch.calls[-1].body == {"prompt": "ab", "add_special_tokens": False, "model": "m"}
    assert asyncio.run(DIALECT.detokenize(fetch, (1, 2), None)) == "ab"
    assert fetch.calls[-1].body == {"tokens": [1, 2], "skip_special_tokens": False}


def generated(body):
    """Answer as ``/generate`` does: rows from ``logprob_start_len`` on, the first of them null (``logprob_result_processor``)."""
    start, ids = body["logprob_start_len"], body["input_ids"]
    rows = [[None if at == start else -0.1 * ids[at], ids[at], f"t{ids[at]}"] for at in range(start, len(ids))]
    tops = [None if row[0] is None else [[row[0], row[1], row[2]], [-9.0, 99, "z"]] for row in rows]
    return {"text": "x", "output_ids": [1], "meta_info": {"input_token_logprobs": rows, "input_top_logprobs": tops}}


def test_given_tokens_are_scored_from_the_prompts_last_token_on(scripted):
    fetch = scripted({"/generate": generated})
    rows = asyncio.run(DIALECT.score(fetch, "m", (1, 2, 3), (4, 5), 2))
    assert [(row.index, row.token.id, row.token.text) for row in rows] == [(0, 4, "t4"), (1, 5, "t5")]
    assert [row.token.logprob for row in rows] == pytest.approx([-0.4, -0.5])
    assert [one.id for one in rows[0].token.top] == [4, 99]
    assert fetch.calls[0].body["logprob_start_len"] == 2
    assert fetch.calls[0].body["input_ids"] == [1, 2, 3, 4, 5]
    (only,) = asyncio.run(DIALECT.score(fetch, None, (), (4, 5), 2))  # the first token of all has no row
    assert (only.index, only.token.id) == (1, 5)


@pytest.mark.parametrize("meta", [None, {}, {"input_token_logprobs": [[None, 3, ""]]}, {"input_token_logprobs": "x"}])
def test_scores_that_are_not_there(scripted, meta):
    with pytest.raises(DialectError) as error:
        asyncio.run(DIALECT.score(scripted({"/generate": {"meta_info": meta}}), None, (3,), (4,), 2))
    assert error.value.reason == "no_prompt_logprobs"


def test_cache_salt():
    assert cache_salt({"model": "m"}, "x") == {"model": "m", "cache_salt": "x"}
