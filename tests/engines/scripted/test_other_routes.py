"""Embeddings, rerank, score, responses and messages: what the product's readers make of them, well and with noise planted."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from engines.dialect import Answer, Call, Endpoint
from engines.endpoints.speaking import ask, read
from engines.registry import dialect
from engines.scripted.script import Script
from engines.scripted.writers.registry import writer
from proxy.compare.token_stream import Reply
from tests.engines.scripted.playing import answer, engine, script

RULE = {
    "after": "weather",
    "reasoning": "Let me look.",
    "say": "It will rain.",
    "calls": [{"name": "look", "arguments": {"place": "Paris", "days": 2}}],
}
WELL = script(replies=[RULE])
PATHS = {
    Endpoint.RESPONSES: "/v1/responses",
    Endpoint.MESSAGES: "/v1/messages",
    Endpoint.EMBEDDINGS: "/v1/embeddings",
    Endpoint.RERANK: "/v1/rerank",
    Endpoint.SCORE: "/v1/score",
}
TOOL = {"name": "look", "parameters": {"type": "object"}}
CHATS = {
    Endpoint.RESPONSES: {
        "model": "toy",
        "input": "the weather",
        "tools": [{"type": "function", **TOOL}],
        "max_output_tokens": 400,
        "temperature": 0,
    },
    Endpoint.MESSAGES: {
        "model": "toy",
        "messages": [{"role": "user", "content": "the weather"}],
        "tools": [{"name": "look", "input_schema": {"type": "object"}}],
        "max_tokens": 400,
        "temperature": 0,
    },
}
LISTS = {
    Endpoint.EMBEDDINGS: {"model": "toy", "input": ["the people", "of the world"]},
    Endpoint.RERANK: {"model": "toy", "query": "the people", "documents": ["of", "the people", "world"]},
    Endpoint.SCORE: {"model": "toy", "text_1": "the people", "text_2": ["of", "the people"]},
}


def got(endpoint: Endpoint, body: dict[str, Any], played: Script = WELL) -> Answer:
    asked = ask(dialect("vllm"), endpoint, body, 5)
    return answer(engine(played), writer("vllm"), Call(PATHS[endpoint], asked))


def said(endpoint: Endpoint, body: dict[str, Any], played: Script = WELL) -> Reply:
    reply = read(dialect("vllm"), endpoint, body, got(endpoint, body, played))
    assert reply.error is None, reply.error
    return reply


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("endpoint", list(CHATS))
def test_a_chat_in_other_words_says_the_same(endpoint: Endpoint, stream: bool) -> None:
    reply = said(endpoint, CHATS[endpoint] | {"stream": stream})
    (choice,) = reply.choices
    assert (choice.text, choice.reasoning, choice.finish_reason) == ("It will rain.", "Let me look.", "tool_calls")
    assert [(call.name, json.loads(call.arguments)) for call in choice.tool_calls] == [
        ("look", {"place": "Paris", "days": 2})
    ]
    whole = said(endpoint, CHATS[endpoint])
    assert (reply.prompt_tokens, reply.completion_tokens) == (whole.prompt_tokens, whole.completion_tokens)
    assert reply.completion_tokens is not None
    assert reply.completion_tokens > 20


@pytest.mark.parametrize("endpoint", list(CHATS))
def test_a_limit_is_a_limit_in_other_words(endpoint: Endpoint) -> None:
    name = "max_output_tokens" if endpoint is Endpoint.RESPONSES else "max_tokens"
    reply = said(endpoint, CHATS[endpoint] | {name: 3})
    assert (reply.completion_tokens, reply.choices[0].finish_reason) == (3, "length")


@pytest.mark.parametrize("endpoint", list(LISTS))
def test_vectors_and_scores_are_the_same_again_and_move_with_noise(endpoint: Endpoint) -> None:
    body = LISTS[endpoint]
    once, noisy = said(endpoint, body), said(endpoint, body, script(differences={"noise": 0.01}))
    assert once == said(endpoint, body)
    assert once != noisy
    assert once.prompt_tokens == noisy.prompt_tokens


def test_an_embedding_has_length_one_and_two_encodings() -> None:
    body = LISTS[Endpoint.EMBEDDINGS]
    listed = json.loads(got(Endpoint.EMBEDDINGS, body).body)["data"]
    assert [math.fsum(one * one for one in row["embedding"]) for row in listed] == pytest.approx([1.0, 1.0])
    packed = said(Endpoint.EMBEDDINGS, body | {"encoding_format": "base64"})
    assert packed.prompt_tokens == said(Endpoint.EMBEDDINGS, body).prompt_tokens
    assert len(json.loads(got(Endpoint.EMBEDDINGS, body | {"dimensions": 8}).body)["data"][0]["embedding"]) == 8


def test_the_same_text_is_the_most_relevant() -> None:
    results = json.loads(got(Endpoint.RERANK, LISTS[Endpoint.RERANK]).body)["results"]
    assert results[0]["index"] == 1
    assert results[0]["relevance_score"] == pytest.approx(1.0)
    assert [one["relevance_score"] for one in results] == sorted(
        (one["relevance_score"] for one in results), reverse=True
    )
    assert len(json.loads(got(Endpoint.RERANK, LISTS[Endpoint.RERANK] | {"top_n": 2}).body)["results"]) == 2


@pytest.mark.parametrize(
    ("endpoint", "body"),
    [
        (Endpoint.EMBEDDINGS, {"input": 3}),
        (Endpoint.EMBEDDINGS, {"input": "x", "dimensions": 65}),
        (Endpoint.RERANK, {"query": ["a", "b"], "documents": ["x"]}),
        (Endpoint.SCORE, {"text_1": ["a", "b"], "text_2": ["x"]}),
        (Endpoint.RESPONSES, {"input": 3}),
        (Endpoint.MESSAGES, {"messages": [{"role": "user", "content": "x"}]}),
    ],
)
def test_what_cannot_be_done_is_refused(endpoint: Endpoint, body: dict[str, Any]) -> None:
    assert got(endpoint, body).status == 400
