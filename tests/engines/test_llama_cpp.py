"""llama.cpp: asked whole, all ids in; merged rows told apart; prompts rendered and tokenized as the server does."""

import asyncio
import json

import pytest

from engines.dialect import Answer, DialectError, Endpoint
from engines.llama_cpp import DIALECT, ask, cache_salt, inject, read

CHAT, COMPLETIONS = Endpoint.CHAT, Endpoint.COMPLETIONS
PARTY = [240, 159, 142, 137]


def row(known, data, own=None, logprob=-0.5):
    listed = {"id": known, "token": "", "bytes": data if own is None else own, "logprob": logprob}
    return {"id": known, "token": bytes(data).decode(), "bytes": data, "logprob": logprob, "top_logprobs": [listed]}


def answer(rows, *, ids=None, count=None, finish="length", choices=1):
    message = {"role": "assistant", "content": "".join(one["token"] for one in rows)}
    one = {"finish_reason": finish, "message": message, "logprobs": {"content": rows}}
    value = {"choices": [{**one, "index": index} for index in range(choices)]}
    if count is not None:
        value["usage"] = {"completion_tokens": count, "prompt_tokens": 4}
    if ids is not None:
        value["__verbose"] = {"tokens": ids}
    return Answer(200, (("content-type", "application/json; charset=utf-8"),), ((0, json.dumps(value).encode()),))


def test_a_shadow_is_asked_whole():
    shaped = ask(CHAT, {"stream": True, "stream_options": {"include_usage": True}, "messages": []}, 20)
    assert shaped == {
        "messages": [],
        "stream": False,
        "logprobs": True,
        "top_logprobs": 20,
        "return_tokens": True,
        "verbose": True,
    }
    assert ask(COMPLETIONS, {"prompt": "x"}, 20)["logprobs"] == 20


def test_inject_never_turns_a_stream_off():
    assert inject(CHAT, {"stream": True}, 5) == {"stream": True, "logprobs": True, "top_logprobs": 5}
    assert inject(CHAT, {"stream": True, "tools": [{}]}, 5) == {"stream": True, "tools": [{}]}
    assert inject(CHAT, {}, 5)["verbose"] is True
    assert inject(CHAT, {"n_probs": 3}, 5) == {"n_probs": 3}  # its own way of asking for logprobs
    assert inject(CHAT, {"verbose": True}, 5) == {"verbose": True}  # the reply would show what we added
    assert "top_logprobs" not in inject(CHAT, {"logprobs": True}, 5)  # it gives twenty by itself
    assert inject(CHAT, {"logprobs": True, "top_logprobs": 0}, 5)["top_logprobs"] == 5


def test_merged_rows_are_told_apart_by_the_ids():
    rows = [row(1, [72, 105]), row(227, PARTY, [137], -0.25)]
    choice = read(CHAT, {}, answer(rows, ids=[1, 10813, 232, 227, 10813], count=5)).choices[0]
    assert [token.id for token in choice.tokens] == [1, 10813, 232, 227, 10813]
    assert [token.logprob for token in choice.tokens] == [-0.5, None, None, -0.25, None]
    assert (choice.count, choice.rows_missing, choice.has_ids) == (5, False, True)


def test_ids_that_do_not_fit_the_rows_leave_ids_without_values():
    choice = read(CHAT, {}, answer([row(1, [72])], ids=[5, 6], count=2)).choices[0]
    assert [(token.id, token.logprob) for token in choice.tokens] == [(5, None), (6, None)]


def test_ids_that_do_not_add_up_are_not_used():
    choice = read(CHAT, {}, answer([row(1, [72])], ids=[1], count=2)).choices[0]
    assert (len(choice.tokens), choice.rows_missing) == (1, True)


def test_of_a_prompt_list_only_evident_merges_are_known():
    plain = read(COMPLETIONS, {}, answer([row(1, [72])], ids=[1], count=1, choices=2))
    assert [(choice.count, choice.rows_missing) for choice in plain.choices] == [(None, False)] * 2
    assert plain.completion_tokens is None
    merged = read(COMPLETIONS, {}, answer([row(227, PARTY, [137])], choices=2))
    assert [choice.rows_missing for choice in merged.choices] == [True, True]


def test_the_servers_timings_count_where_usage_is_missing(recorded):
    case = recorded("llama.cpp-q4_1", "chat_stream_logprobs")
    stripped = case.answer.body.replace(b'"usage"', b'"usagf"')
    assert b'"predicted_n":12' in stripped
    choice = read(CHAT, {}, Answer(200, case.answer.headers, ((0, stripped),))).choices[0]
    assert (choice.count, choice.rows_missing) == (12, False)


def test_probability_zero_is_no_value():
    choice = read(CHAT, {}, answer([row(1, [72], logprob=-3.4028234663852886e38)], count=1)).choices[0]
    assert (choice.tokens[0].logprob, choice.tokens[0].top) == (None, ())


def test_prompts_are_rendered_and_tokenized_with_special_tokens(scripted):
    fetch = scripted({"/apply-template": {"prompt": "<s>hi"}, "/tokenize": {"tokens": [1, 2]}})
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "temperature": 1, "tools": [{}]}
    assert asyncio.run(DIALECT.prompt_ids(fetch, CHAT, body)) == ((1, 2),)
    assert fetch.calls[0].body == {"messages": body["messages"], "tools": [{}]}
    assert fetch.calls[1].body == {"content": "<s>hi", "add_special": True, "parse_special": True}
    assert asyncio.run(DIALECT.prompt_ids(fetch, COMPLETIONS, {"prompt": ["a", "b"]})) == ((1, 2), (1, 2))
    with pytest.raises(DialectError, match="status_404"):
        asyncio.run(DIALECT.prompt_ids(scripted({}), CHAT, body))


def test_visible_text_has_no_special_tokens(scripted):
    fetch = scripted({"/tokenize": {"tokens": [7]}, "/detokenize": {"content": "x"}})
    assert asyncio.run(DIALECT.tokenize(fetch, "x", None)) == (7,)
    assert fetch.calls[0].body == {"content": "x", "add_special": False, "parse_special": False}
    assert asyncio.run(DIALECT.detokenize(fetch, (7,), None)) == "x"


def test_instead_of_a_salt_the_cache_is_off():
    assert cache_salt({"model": "m"}, "x") == {"model": "m", "cache_prompt": False}
