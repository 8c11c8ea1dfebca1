"""Every dialect, asked and read by the product's own reader, yields exactly what the toy model says."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from engines.dialect import Call, Dialect, Endpoint
from engines.registry import detect, dialect
from engines.scripted.engine import Engine
from engines.scripted.render import ids_of, plain_ids
from engines.scripted.writers.registry import NAMES
from proxy.compare.token_stream import Reply, TokenStream
from tests.engines.scripted.playing import PATHS, QUESTION, best, engine, fetching, greedy, request, script

TOP = 4
#: What a dialect cannot tell, by endpoint.
NO_ROWS = {("transformers", Endpoint.CHAT), ("transformers", Endpoint.COMPLETIONS)} | {
    (name, Endpoint.COMPLETIONS) for name in ("ollama", "tgi", "tensorrt_llm", "lmdeploy")
}


def prompt_of(played: Engine, endpoint: Endpoint) -> tuple[int, ...]:
    if endpoint is Endpoint.CHAT:
        return ids_of(played.script, [{"role": "user", "content": QUESTION}], None)
    return plain_ids(played.script, QUESTION)


def ask(name: str, played: Engine, endpoint: Endpoint, **more: Any) -> tuple[Dialect, Reply]:
    speaks = dialect(name)
    body = speaks.ask(endpoint, request(endpoint, **more), TOP)
    got = asyncio.run(fetching(name, played)(Call(PATHS[endpoint], body)))
    assert got.status == 200, got.body
    return speaks, speaks.read(endpoint, body, got)


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("endpoint", list(PATHS))
@pytest.mark.parametrize("name", NAMES)
def test_what_is_read_is_what_the_toy_says(name: str, endpoint: Endpoint, streamed: bool) -> None:
    played = engine()
    prompt = prompt_of(played, endpoint)
    wanted = greedy(played.toy, prompt, 12)
    _, reply = ask(name, played, endpoint, stream=streamed)
    assert reply.error is None
    assert reply.prompt_tokens in (len(prompt), None)
    (choice,) = reply.choices
    assert choice.text == played.toy.table.decode(tuple(wanted))
    assert choice.finish_reason == "length"
    assert choice.count in (12, None)
    if (name, endpoint) in NO_ROWS:
        assert not choice.has_logprobs
        return
    assert not choice.rows_missing
    _rows_are_those_of(played, choice, prompt, wanted)


def _rows_are_those_of(played: Engine, choice: TokenStream, prompt: tuple[int, ...], wanted: list[int]) -> None:
    table = played.toy.table
    assert len(choice.tokens) == len(wanted)
    for place, (token, known) in enumerate(zip(choice.tokens, wanted, strict=True)):
        assert token.id in (known, None)
        assert token.text in (table.text_of(known), "")
        expected = best(played.toy, (*prompt, *wanted[:place]), TOP)
        assert token.logprob == pytest.approx(expected[0][1], abs=2e-6)
        assert [one.logprob for one in token.top] == pytest.approx([value for _, value in expected], abs=2e-6)
        for other, (number, _) in zip(token.top, expected, strict=True):
            assert other.id in (number, None)
            assert other.text in (table.text_of(number, special=True), None, "")
            assert other.id is not None or other.text


@pytest.mark.parametrize("vocabulary", [{"kind": "bytes"}, {"list": [" sea", " sun", "st"]}], ids=["bytes", "list"])
@pytest.mark.parametrize("name", ["vllm", "llama_cpp", "lmdeploy"])
def test_other_vocabularies_do_as_well(name: str, vocabulary: dict[str, Any]) -> None:
    played = engine(script(vocabulary=vocabulary))
    prompt = prompt_of(played, Endpoint.CHAT)
    wanted = greedy(played.toy, prompt, 12)
    (choice,) = ask(name, played, Endpoint.CHAT)[1].choices
    assert choice.text == played.toy.table.decode(tuple(wanted))
    assert [token.id for token in choice.tokens] == wanted


@pytest.mark.parametrize("name", [one for one in NAMES if dialect(one).score is not None])
def test_scoring_gives_the_values_of_the_toy(name: str) -> None:
    played, speaks = engine(), dialect(name)
    assert speaks.score is not None
    prompt = prompt_of(played, Endpoint.CHAT)
    forced = played.toy.table.encode(" the way of the other world is not the same")
    scored = asyncio.run(speaks.score(fetching(name, played), "toy", prompt, forced, TOP))
    assert [one.index for one in scored] == list(range(len(forced)))
    for one in scored:
        context = (*prompt, *forced[: one.index])
        assert one.token.id == forced[one.index]
        assert one.token.logprob == played.toy.logprobs(context)[forced[one.index]]
        top = best(played.toy, context, TOP)
        listed = {other.id: other.logprob for other in one.token.top}
        for number, value in top[: TOP - 1]:
            assert listed[number] == pytest.approx(value, abs=2e-6)


@pytest.mark.parametrize("endpoint", list(PATHS))
@pytest.mark.parametrize("name", [one for one in NAMES if dialect(one).prompt_ids is not None])
def test_the_prompt_is_what_the_toy_sees(name: str, endpoint: Endpoint) -> None:
    played, speaks = engine(), dialect(name)
    assert speaks.prompt_ids is not None
    found = asyncio.run(speaks.prompt_ids(fetching(name, played), endpoint, request(endpoint)))
    assert found == (prompt_of(played, endpoint),)


@pytest.mark.parametrize("name", [one for one in NAMES if dialect(one).tokenize is not None])
def test_texts_come_back_from_their_ids(name: str) -> None:
    speaks, text = dialect(name), "naïve café: the people — 日本語 🎉 of\n\tthe world"
    assert speaks.tokenize is not None
    ids = asyncio.run(speaks.tokenize(fetching(name), text, "toy"))
    assert ids == engine().toy.table.encode(text)
    if speaks.detokenize is not None:
        assert asyncio.run(speaks.detokenize(fetching(name), ids, "toy")) == text


@pytest.mark.parametrize("name", NAMES)
def test_an_engine_is_known_by_its_routes(name: str) -> None:
    assert asyncio.run(detect(fetching(name))) == name
