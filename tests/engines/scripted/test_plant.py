"""Each planted difference does what it says, and nothing else."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from engines.dialect import Call, Endpoint
from engines.registry import dialect
from engines.scripted.model import Toy
from engines.scripted.render import ids_of
from engines.scripted.script import Script
from proxy.compare.token_stream import Channel, TokenStream
from tests.engines.scripted.playing import PATHS, engine, fetching, greedy, request, script

#: One rule that thinks, speaks and calls.
RULE = {
    "after": "weather",
    "reasoning": "Let me look.",
    "say": "It will rain.",
    "calls": [{"name": "look", "arguments": {"place": "Paris", "days": 2}}],
}
TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]


def said(played: Script, name: str = "vllm", endpoint: Endpoint = Endpoint.CHAT, **more: Any) -> TokenStream:
    speaks = dialect(name)
    body = speaks.ask(endpoint, request(endpoint, **more), 5)
    got = asyncio.run(fetching(name, engine(played))(Call(PATHS[endpoint], body)))
    reply = speaks.read(endpoint, body, got)
    assert reply.error is None
    return reply.choices[0]


def planted(**differences: Any) -> Script:
    return script(replies=[RULE], differences=differences)


def test_a_planted_template_is_no_other_model_for_given_ids() -> None:
    asked = [{"role": "user", "content": "weather"}]
    mine, theirs = script(replies=[RULE]), planted(template={"turn": "[{role}] {content}\n", "open": "[a] "})
    given = ids_of(mine, asked, None)
    assert (
        greedy(Toy(theirs), given, 60)
        == greedy(Toy(mine), given, 60)
        == greedy(Toy(theirs), ids_of(theirs, asked, None), 60)
    )
    said = (*given, *greedy(Toy(mine), given, 60))
    for upto in range(len(given), len(said)):
        assert Toy(theirs).logits(said[:upto]) == Toy(mine).logits(said[:upto])


def values(stream: TokenStream) -> list[float | None]:
    return [token.logprob for token in stream.tokens]


WELL = script(replies=[RULE])


def test_noise_has_its_size_and_its_beginning() -> None:
    well, noisy = engine().toy, engine(planted(noise=0.1)).toy
    context = tuple(range(7, 20))
    off = [a - b for a, b in zip(noisy.logits(context), well.logits(context), strict=True)]
    assert 0.09 < (sum(one * one for one in off) / len(off)) ** 0.5 < 0.11
    assert abs(sum(off) / len(off)) < 0.02
    assert engine(planted(noise=0.1, noise_seed=2)).toy.logits(context) != noisy.logits(context)
    late = engine(planted(noise=0.1, noise_from=14)).toy
    assert late.logits(context) == well.logits(context)
    assert late.logits((*context, 9)) != well.logits((*context, 9))


def test_noise_grows_with_each_further_token() -> None:
    well, growing = engine().toy, engine(planted(noise=0.1, noise_growth=0.02, noise_from=10)).toy
    steady = engine(planted(noise=0.1)).toy
    for length, size in ((9, 0.0), (10, 0.1), (15, 0.2)):
        context = tuple(range(7, 7 + length))
        rows = zip(growing.logits(context), steady.logits(context), well.logits(context), strict=True)
        assert all(a - c == pytest.approx(size / 0.1 * (b - c), abs=2e-5) for a, b, c in rows)


@pytest.mark.parametrize(("precision", "step"), [("bf16", 2**-4), ("fp16", 2**-7)])
def test_rounded_logits_are_on_their_grid(precision: str, step: float) -> None:
    toy = engine(planted(precision=precision)).toy
    for place in range(20):
        logits = [one for one in toy.logits(tuple(range(7, 8 + place))) if 8 <= one < 16]
        assert all(one / step == round(one / step) for one in logits)


def test_ties_are_taken_by_their_rule() -> None:
    tied = {"after": "weather", "tokens": [{"text": " the", "logprob": -1.25, "top": {" of": -1.25, " and": -1.25}}]}
    table = engine().toy.table
    ids = [table.find(text) for text in (" the", " of", " and")]
    asked = {"messages": [{"role": "user", "content": "weather"}]}
    for rule, expected in (("lowest", {min(ids)}), ("highest", {max(ids)}), ("random", set(ids))):
        played = script(replies=[tied], differences={"ties": rule})
        stream = said(played, "vllm", **asked)
        assert stream.tokens[0].id in expected
        assert stream.tokens[0].logprob == -1.25
        assert stream.tokens[0].top[1].logprob == -1.25


@pytest.mark.parametrize("name", ["vllm", "sglang", "llama_cpp", "reference"])
def test_chosen_tokens_have_their_chosen_values_decoded_and_scored(name: str) -> None:
    chosen = [
        {"text": " the", "logprob": -0.5, "top": {" of": -1.5, "#270": -3.0}},
        {"id": 300, "logprob": -2.0, "top": {" of": -2.25}},
        {"text": "<|end|>", "logprob": -0.125},
    ]
    played = engine(script(replies=[{"after": "weather", "tokens": chosen}]))
    asked = {"messages": [{"role": "user", "content": "weather"}]}
    stream = said(played.script, name, **asked)
    ids = [played.toy.table.find(" the"), 300, 0]
    assert [token.id for token in stream.tokens] == ids
    assert values(stream) == pytest.approx([-0.5, -2.0, -0.125], abs=1e-6)
    # SGLang's alternatives are texts.
    named = [(played.toy.table.find(one.text or "") if one.id is None else one.id) for one in stream.tokens[0].top]
    best = [(known, one.logprob) for known, one in zip(named, stream.tokens[0].top, strict=True)][:3]
    assert [one for one, _ in best] == [ids[0], played.toy.table.find(" of"), 270]
    assert [value for _, value in best] == pytest.approx([-0.5, -1.5, -3.0], abs=1e-6)
    speaks = dialect(name)
    assert speaks.prompt_ids is not None
    assert speaks.score is not None
    fetch = fetching(name, played)
    (prompt,) = asyncio.run(speaks.prompt_ids(fetch, Endpoint.CHAT, request(Endpoint.CHAT, **asked)))
    scored = asyncio.run(speaks.score(fetch, "toy", prompt, tuple(one or 0 for one in ids), 3))
    assert [one.token.logprob for one in scored] == values(stream)


def test_one_wrong_token_is_the_second_best() -> None:
    well, wrong = said(WELL), said(planted(wrong_token=5))
    assert [token.id for token in well.tokens[:5]] == [token.id for token in wrong.tokens[:5]]
    assert wrong.tokens[5].id == well.tokens[5].top[1].id


def test_processed_values_are_those_after_temperature() -> None:
    sampled = {"temperature": 0.5, "seed": 3}
    raw, scaled = said(WELL, **sampled), said(planted(processed_logprobs=True), **sampled)
    assert [token.id for token in raw.tokens] == [token.id for token in scaled.tokens]
    one, other = raw.tokens[0].top, scaled.tokens[0].top
    assert other[0].logprob - other[1].logprob == pytest.approx(2 * (one[0].logprob - one[1].logprob), abs=1e-5)
    assert values(said(planted(processed_logprobs=True))) == values(said(WELL))  # greedy: no temperature to scale by


def test_shifted_rows_are_those_of_the_token_before_in_streams_alone() -> None:
    well = said(WELL)
    assert said(planted(shifted_rows=True)) == well
    shifted = said(planted(shifted_rows=True), stream=True)
    assert [token.id for token in shifted.tokens] == [token.id for token in well.tokens]
    assert values(shifted)[1:] == values(well)[:-1]


def test_alternatives_are_duplicated_missing_or_those_of_the_first() -> None:
    well = said(WELL, "llama_cpp")
    double = said(planted(alternatives="duplicated"), "llama_cpp")
    assert [one.id for one in double.tokens[3].top[:2]] == [well.tokens[3].top[0].id] * 2
    fewer = said(planted(alternatives="missing"), "llama_cpp")
    assert fewer.tokens[3].top == (well.tokens[3].top[0], *well.tokens[3].top[2:])
    assert values(double) == values(fewer) == values(well)
    first = said(planted(alternatives="first_repeated"), "openai", stream=True)
    assert all(token.top == first.tokens[0].top for token in first.tokens)
    assert values(first) == pytest.approx(values(well))


def test_the_oldest_tokens_of_a_long_prompt_are_dropped() -> None:
    long = {"messages": [{"role": "user", "content": "the people know " * 20}]}
    whole, short = said(WELL, **long), said(planted(context_cut=30), **long)
    assert whole.prompt_ids is not None
    assert short.prompt_ids == (whole.prompt_ids[0], *whole.prompt_ids[-29:])
    assert said(planted(context_cut=500), **long) == whole


def test_another_default_temperature_and_length_hold_where_a_request_says_none() -> None:
    open_ = {"temperature": None, "max_tokens": None}
    assert [token.id for token in said(planted(temperature=0.0), **open_).tokens[:5]] == [
        token.id for token in said(WELL, temperature=0, max_tokens=None).tokens[:5]
    ]
    assert said(planted(max_tokens=3), **open_).count == 3
    assert said(planted(temperature=0.9, max_tokens=3)) == said(WELL)


def test_a_second_bos_and_another_template_are_in_the_prompt() -> None:
    well, double = said(WELL), said(planted(double_bos=True))
    assert double.prompt_ids == (1, *(well.prompt_ids or ()))
    assert values(double) != values(well)
    other = said(planted(template={"turn": "[{role}] {content}\n", "open": "[assistant] "}))
    assert (
        engine().toy.table.decode(other.prompt_ids or ())
        == f"[user] {request(Endpoint.CHAT)['messages'][0]['content']}\n[assistant] "
    )


WEATHER = {"messages": [{"role": "user", "content": "the weather"}], "tools": TOOLS, "max_tokens": 400}


@pytest.mark.parametrize("name", ["vllm", "sglang"])
@pytest.mark.parametrize("stream", [False, True])
def test_reasoning_text_and_calls_come_in_their_channels(name: str, stream: bool) -> None:
    got = said(WELL, name, stream=stream, **WEATHER)
    assert (got.reasoning, got.text, got.finish_reason) == ("Let me look.", "It will rain.", "tool_calls")
    assert [(one.name, json.loads(one.arguments)) for one in got.tool_calls] == [
        ("look", RULE["calls"][0]["arguments"])
    ]
    if name == "vllm":
        assert {token.channel for token in got.tokens} >= {Channel.CONTENT, Channel.REASONING}


def test_parsers_that_fail_change_no_token() -> None:
    well = said(WELL, **WEATHER)
    moved = said(planted(reasoning_in_content=True), **WEATHER)
    assert (moved.reasoning, moved.text) == ("", "<think>Let me look.</think>It will rain.")
    raw = said(planted(tool_calls_in_content=True), **WEATHER)
    assert raw.tool_calls == ()
    assert raw.text.startswith("It will rain.<tool_call>{")
    assert raw.finish_reason == "stop"
    for other in (moved, raw):
        assert [token.id for token in other.tokens] == [token.id for token in well.tokens]
        assert values(other) == values(well)


def test_tool_calls_are_altered_as_planted() -> None:
    def call(**differences: Any) -> Any:
        return said(planted(**differences), **WEATHER).tool_calls[0]

    assert call(tool_name="look_up").name == "look_up"
    reordered = call(tool_arguments="reordered").arguments
    assert reordered == '{"days":2,"place":"Paris"}'
    with pytest.raises(ValueError):
        json.loads(call(tool_arguments="broken").arguments)


@pytest.mark.parametrize("stream", [False, True])
def test_a_stop_string_ends_the_text_or_stays_in_it(stream: bool) -> None:
    asked = {**WEATHER, "stop": ["rain"], "stream": stream}
    assert (said(WELL, **asked).text, said(WELL, **asked).finish_reason) == ("It will ", "stop")
    assert said(planted(keep_stop=True), **asked).text == "It will rain"
