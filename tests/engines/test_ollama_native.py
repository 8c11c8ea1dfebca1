"""Ollama's own routes: lines and whole replies give the tokens of the reply that ``/v1`` gives."""

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.dialect import Answer, Endpoint
from engines.ollama import DIALECT
from engines.ollama_native import as_openai, native_document
from proxy.compare.token_stream import ToolCall
from tests.engines.accents import OLLAMA, PROMPT, TEXT, TOKENS, answer

CHAT = Endpoint.CHAT
DONE = {"done": True, "done_reason": "stop", "prompt_eval_count": PROMPT, "eval_count": len(TOKENS)}


def said(text, **more):
    return {"message": {"role": "assistant", "content": text, **more}}


def lines(*parts):
    return b"".join(json.dumps({"model": "m", "done": False, **part}).encode() + b"\n" for part in parts)


def over_the_wire(body, kind="application/x-ndjson"):
    return Answer(200, (("content-type", kind),), ((0, body),))


def read(body):
    return DIALECT.read(CHAT, {}, over_the_wire(body))


ROWS = [OLLAMA.row(one) for one in TOKENS]
STREAM = lines(*({**said(one.text), "logprobs": [OLLAMA.row(one)]} for one in TOKENS), {**said(""), **DONE})
WHOLE = lines({**said(TEXT), "logprobs": ROWS, **DONE})
GENERATED = lines({"response": TEXT, "logprobs": ROWS, **DONE})


@pytest.mark.parametrize("body", [STREAM, WHOLE, GENERATED], ids=["stream", "whole", "generate"])
def test_the_tokens_are_those_of_v1(body):
    mine, other = read(body), DIALECT.read(CHAT, {}, answer(OLLAMA.whole()))
    assert (mine.error, mine.choices, mine.prompt_tokens) == (None, other.choices, other.prompt_tokens)
    assert (mine.completion_tokens, mine.model) == (len(TOKENS), "m")


@pytest.mark.parametrize("body", [WHOLE, GENERATED])
def test_a_whole_reply_is_known_by_its_words(body):
    assert DIALECT.read(CHAT, {}, over_the_wire(body, "application/json; charset=utf-8")) == read(body)


def test_what_v1_says_is_not_taken_for_it():
    assert native_document(answer(OLLAMA.whole())) is None
    assert native_document(answer(OLLAMA.stream())) is None
    assert native_document(Answer(404, (), ((0, b'{"error":"model not found"}'),))) is None
    assert native_document(Answer(0, failure="refused")) is None


def test_thinking_and_calls():
    call = {"function": {"name": "find", "arguments": {"city": "Paris", "n": 2}}}
    (choice,) = read(lines(said("", thinking="hm"), said("", tool_calls=[call]), {**said(""), **DONE})).choices
    assert (choice.reasoning, choice.text, choice.finish_reason) == ("hm", "", "tool_calls")
    assert choice.tool_calls == (ToolCall(name="find", arguments='{"city":"Paris","n":2}'),)
    (choice,) = read(lines({"response": "", "thinking": "hm"}, {"response": "Yes", **DONE})).choices
    assert (choice.reasoning, choice.text) == ("hm", "Yes")


@pytest.mark.parametrize(
    ("body", "error", "text"),
    [
        (b'{"error":"out of memory"}\n', "stream_error", None),
        (lines(said("a")) + b'{"error":"out of memory"}\n', "stream_error", "a"),
        (lines(said("a")), "cut", "a"),
        (lines(said("a")) + b'{"message":', "cut", "a"),
        (lines(said("a")) + b"[1]\n", "not_json", "a"),
        (lines(said("a")) + b"<html>\n", "not_json", "a"),
        (b"", "no_choices", None),
    ],
)
def test_how_lines_break_off(body, error, text):
    seen = read(body)
    assert seen.error == error
    assert [choice.text for choice in seen.choices] == ([] if text is None else [text])


@settings(max_examples=40, deadline=None)
@given(draw=st.data())
def test_any_split_gives_the_same_reply(draw):
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(STREAM)), max_size=9)))
    edges = [0, *cuts, len(STREAM)]
    pieces = tuple((at, STREAM[start:end]) for at, (start, end) in enumerate(pairwise(edges)))
    assert DIALECT.read(CHAT, {}, Answer(200, (("content-type", "application/x-ndjson"),), pieces)) == read(STREAM)


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["message", "response", "logprobs", "done", "error", "thinking"]),
        st.none() | st.integers() | st.lists(st.none()),
    )
)
def test_any_line_is_read(part):
    seen = DIALECT.read(CHAT, {}, over_the_wire(json.dumps(part).encode()))
    assert (seen.error is None) == (part.get("done") is True and not part.get("error"))


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ({}, {"stream": True}),
        ({"stream": False, "options": {"temperature": 0, "num_predict": 8}}, {"temperature": 0, "max_tokens": 8}),
        ({"options": {"num_predict": -1, "repeat_penalty": 1.1}}, {"stream": True, "repetition_penalty": 1.1}),
        ({"options": {"stop": ["x"], "seed": None, "num_ctx": 4096}}, {"stream": True, "stop": ["x"]}),
        ({"options": None}, {"stream": True}),
    ],
)
def test_a_request_in_openais_words_keeps_its_own(body, shown):
    asked = as_openai(body)
    assert asked == {**shown, **body}
