"""What single dialects do in their own way: characters of several tokens, calls in streams, stop strings, their own routes, what they refuse."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engines.dialect import Answer, Call, Endpoint
from engines.registry import dialect
from engines.scripted.writers.registry import NAMES, writer
from proxy.compare.token_stream import TokenStream
from tests.engines.scripted.playing import PATHS, answer, engine, request, script

SAID = "naïve 日本 🎉 of"
RULE = {
    "after": "weather",
    "reasoning": "Let me look.",
    "say": "It will rain.",
    "calls": [{"name": "look", "arguments": {"place": "Paris", "days": 2}}],
}
TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
WEATHER = {"messages": [{"role": "user", "content": "the weather"}], "tools": TOOLS, "max_tokens": 400}
PLAYED = engine(script(replies=[RULE, {"after": "people", "say": SAID}]))


def got(name: str, path: str, body: dict[str, Any] | None, method: str = "POST") -> Answer:
    return answer(PLAYED, writer(name), Call(path, body, method))


def value(name: str, path: str, body: dict[str, Any] | None, method: str = "POST") -> Any:
    seen = got(name, path, body, method)
    assert seen.status == 200, seen.body
    return json.loads(seen.body)


def said(name: str, *, stream: bool, **more: Any) -> TokenStream:
    speaks = dialect(name)
    body = speaks.ask(Endpoint.CHAT, request(Endpoint.CHAT, stream=stream, **more), 5)
    reply = speaks.read(Endpoint.CHAT, body, got(name, PATHS[Endpoint.CHAT], body))
    assert reply.error is None, reply.error
    return reply.choices[0]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_characters_of_several_tokens_come_through(name: str, stream: bool) -> None:
    choice = said(name, stream=stream, max_tokens=60)
    assert choice.text == SAID
    assert choice.finish_reason == "stop"
    ids = PLAYED.toy.table.encode(SAID)
    if choice.has_ids:
        assert tuple(token.id for token in choice.tokens)[: len(ids)] == ids
    if name in ("vllm", "sglang", "reference", "openai"):
        assert len(choice.tokens) == len(ids) + 1  # the end token too
        assert not choice.rows_missing
    if name == "llama_cpp":
        assert choice.has_ids
        assert [token.logprob is None for token in choice.tokens].count(True) == 8  # parts before a character's last


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_reasoning_and_calls_come_through(name: str, stream: bool) -> None:
    choice = said(name, stream=stream, **WEATHER)
    assert (choice.reasoning, choice.text, choice.finish_reason) == ("Let me look.", "It will rain.", "tool_calls")
    (call,) = choice.tool_calls
    assert (call.name, json.loads(call.arguments)) == ("look", {"place": "Paris", "days": 2})


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_a_stop_string_ends_the_text(name: str, stream: bool) -> None:
    choice = said(name, stream=stream, stop=["本 "], max_tokens=60)
    assert choice.text == "naïve 日"
    assert choice.finish_reason == "stop"


@pytest.mark.parametrize("name", NAMES)
def test_refusals_have_the_status_of_the_engine(name: str) -> None:
    bad = {"model": "toy", "messages": "x"}
    assert got(name, PATHS[Endpoint.CHAT], bad).status == (422 if name == "tgi" else 400)
    assert got(name, "/nowhere", {}).status == 404
    unknown = got(name, PATHS[Endpoint.CHAT], request(Endpoint.CHAT) | {"model": "other"}).status
    assert unknown == {"llama_cpp": 200, "transformers": 400, "tgi": 422}.get(name, 404)


@pytest.mark.parametrize(("name", "most"), [("vllm", 20), ("openai", 20), ("ollama", 20), ("lmdeploy", 20), ("tgi", 5)])
def test_more_alternatives_than_the_engine_gives_are_refused(name: str, most: int) -> None:
    asked = request(Endpoint.CHAT, logprobs=True)
    assert got(name, PATHS[Endpoint.CHAT], asked | {"top_logprobs": most}).status == 200
    assert got(name, PATHS[Endpoint.CHAT], asked | {"top_logprobs": most + 1}).status in (400, 422)


def test_sglang_generates_in_its_own_words() -> None:
    ids = list(PLAYED.toy.table.encode(" the people"))
    body = {
        "input_ids": ids,
        "sampling_params": {"max_new_tokens": 3, "temperature": 0},
        "return_logprob": True,
        "logprob_start_len": 0,
        "top_logprobs_num": 2,
    }
    found = value("sglang", "/generate", body)
    meta = found["meta_info"]
    assert len(found["output_ids"]) == 3
    assert meta["finish_reason"] == {"type": "length", "length": 3}
    assert meta["input_token_logprobs"][0] == [None, ids[0], None]
    assert meta["input_token_logprobs"][1][:2] == [PLAYED.toy.logprobs(tuple(ids[:1]))[ids[1]], ids[1]]
    assert [row[1] for row in meta["output_token_logprobs"]] == found["output_ids"]
    assert meta["input_top_logprobs"][0] is None
    assert all(len(row) == 2 for row in meta["output_top_logprobs"])
    streamed = got("sglang", "/generate", body | {"stream": True}).body.split(b"\n\n")
    last = json.loads(streamed[-3].removeprefix(b"data: "))
    assert (last["text"], last["output_ids"]) == (found["text"], found["output_ids"])  # cumulative


def test_tgi_generates_in_its_own_words() -> None:
    body = {
        "inputs": "the people",
        "parameters": {"max_new_tokens": 3, "details": True, "decoder_input_details": True, "top_n_tokens": 2},
    }
    details = value("tgi", "/generate", body)["details"]
    assert [len(details[name]) for name in ("prefill", "tokens", "top_tokens")] == [5, 3, 3]
    assert details["prefill"][0]["logprob"] is None
    assert details["finish_reason"] == "length"
    assert value("tgi", "/tokenize", {"inputs": "é of"})[1:] == [
        {"id": 7 + 0xC3, "text": "\ufffd", "start": 0, "stop": 1},
        {"id": 7 + 0xA9, "text": "\ufffd", "start": 0, "stop": 1},
        {"id": 264, "text": " of", "start": 1, "stop": 4},
    ]


def test_ollama_speaks_lines_on_its_own_routes() -> None:
    body = {"model": "toy", "messages": [{"role": "user", "content": "the weather"}], "options": {"temperature": 0}}
    lines = [json.loads(line) for line in got("ollama", "/api/chat", body).body.splitlines()]
    assert (
        "".join(line["message"]["content"] for line in lines)
        == "It will rain.<tool_call>"
        + json.dumps({"name": "look", "arguments": RULE["calls"][0]["arguments"]})
        + "</tool_call>"
    )
    assert "".join(line["message"].get("thinking", "") for line in lines) == "Let me look."
    assert [line["done"] for line in lines] == [False] * (len(lines) - 1) + [True]
    whole = value(
        "ollama", "/api/generate", {"model": "toy", "prompt": "x", "stream": False, "options": {"num_predict": 2}}
    )
    assert (whole["done_reason"], whole["eval_count"]) == ("length", 2)
    assert json.loads(got("ollama", "/api/show", {"model": "nobody"}).body) == {"error": "model not found"}


def test_what_tgi_reads_otherwise() -> None:
    plain, bent = (
        value("tgi", "/v1/completions", {"prompt": "to be", "max_tokens": 30, "temperature": 0, **more})
        for more in ({}, {"presence_penalty": 0.0})
    )
    assert plain["choices"] != bent["choices"]  # a presence penalty of 0 is a repetition penalty of 2
    assert got("tgi", PATHS[Endpoint.CHAT], request(Endpoint.CHAT, top_p=1.0)).status == 422
    assert got("tgi", PATHS[Endpoint.CHAT], request(Endpoint.CHAT, stop="x")).status == 422


def test_a_script_lays_its_own_values_over_the_routes() -> None:
    laid = engine(
        script(routes={"/server_info": {"dtype": "bfloat16", "api_key": "sk-1"}, "/version": None, "/x": "y"})
    )
    shown = json.loads(answer(laid, writer("sglang"), Call("/server_info", None, "GET")).body)
    assert (shown["dtype"], shown["api_key"], shown["attention_backend"]) == ("bfloat16", "sk-1", "torch_native")
    assert answer(laid, writer("vllm"), Call("/version", None, "GET")).status == 404
    assert answer(laid, writer("vllm"), Call("/x", None, "GET")).body == b"y"


@pytest.mark.parametrize("name", NAMES)
def test_equal_requests_are_answered_equally(name: str) -> None:
    sampled = request(Endpoint.CHAT) | {"temperature": 0.9, "seed": 5}
    once, again = (got(name, PATHS[Endpoint.CHAT], sampled).body for _ in range(2))
    assert once == again
    assert got(name, PATHS[Endpoint.CHAT], sampled | {"seed": 6}).body != once


def test_bias_and_cuts_of_a_request_are_honoured() -> None:
    assert _ids({"logit_bias": {"270": 100}, "max_tokens": 4}) == [270] * 4
    assert _ids({"top_k": 1, "temperature": 1.0}) == _ids({})


@pytest.mark.parametrize("bias", [{"7": 1e10}, {"7": -1e308}, {"7": "1"}, {"x": 1}])
def test_a_bias_that_is_no_number_a_logit_can_take_is_refused(bias: dict[str, Any]) -> None:
    body = request(Endpoint.CHAT) | {"logit_bias": bias}
    assert got("vllm", PATHS[Endpoint.CHAT], body).status == 400
    pairs = [[int(key) if key.isdecimal() else key, [value]] for key, value in bias.items()]
    assert got("llama_cpp", "/completion", {"prompt": "x", "logit_bias": pairs}).status == 400


def test_every_seed_of_64_bits_is_one() -> None:
    sampled = {"temperature": 1.0, "max_tokens": 3}
    assert _ids({**sampled, "seed": (1 << 63) - 1}) == _ids({**sampled, "seed": (1 << 63) - 1})


def _ids(more: dict[str, Any]) -> list[int]:
    body = {"model": "toy", "prompt": "to be", "max_tokens": 8, "temperature": 0, "return_token_ids": True, **more}
    found: list[int] = value("vllm", PATHS[Endpoint.COMPLETIONS], body)["choices"][0]["token_ids"]
    return found
