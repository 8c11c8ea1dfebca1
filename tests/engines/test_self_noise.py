"""An engine against itself: what is measured, on which question, and what is left unknown."""

from __future__ import annotations

import asyncio
import json
import math

import pytest

from engines.capabilities import SelfNoise
from engines.dialect import Answer, Endpoint
from engines.registry import dialect
from engines.self_noise import between, measure
from engines.subject import Subject
from proxy.compare.token_stream import Token, TokenStream


def stream(*pairs, text=""):
    return TokenStream(tokens=tuple(Token(text=str(id_), id=id_, logprob=value) for id_, value in pairs), text=text)


def test_values_of_the_same_tokens_are_held_against_each_other():
    one, other = stream((1, -0.5), (2, -1.0), (3, None)), stream((1, -0.25), (2, -1.125), (3, -9.0))
    assert between(one, other) == SelfNoise(positions=3, flips=0, max=0.25, median=0.1875)


def test_nothing_is_compared_after_another_token():
    one, other = stream((1, -0.5), (2, -1.0), (3, -2.0)), stream((1, -0.5), (9, -0.1), (3, -7.0))
    assert between(one, other) == SelfNoise(positions=2, flips=1, max=0.0, median=0.0)


def test_an_answer_that_ends_earlier_is_another_answer():
    assert between(stream((1, -0.5)), stream((1, -0.5), (2, -1.0))) == SelfNoise(2, 1, 0.0, 0.0)


def test_texts_alone():
    assert between(TokenStream(text="a"), TokenStream(text="a")) == SelfNoise(positions=1, flips=0)
    assert between(TokenStream(text="a"), TokenStream(text="b")) == SelfNoise(positions=1, flips=1)
    assert between(TokenStream(), TokenStream()) is None


class Cached:
    """A small vLLM whose values depend on what is in its prefix cache, and on how many it answers at once."""

    def __init__(self):
        self.cache, self.running, self.most, self.salts = set(), 0, 0, []

    async def __call__(self, call):
        body = call.body
        prefix = (body.get("cache_salt"), body["messages"][0]["content"])
        warm, _ = prefix in self.cache, self.cache.add(prefix)
        self.salts.append(body.get("cache_salt"))
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0.01)
        value = -0.5 - (0 if warm else 0.125) - (0.25 if self.running > 1 else 0)
        self.running -= 1
        row = {"token": "token_id:7", "logprob": value, "bytes": [97], "top_logprobs": []}
        choice = {"index": 0, "message": {"content": "a"}, "logprobs": {"content": [row]}, "token_ids": [7]}
        return Answer(200, (), ((0, json.dumps({"choices": [choice], "usage": {"completion_tokens": 1}}).encode()),))


@pytest.mark.parametrize("name", ["vllm", "reference"])
def test_cold_is_a_cache_of_its_own_or_a_beginning_never_seen(name):
    engine = Cached()
    cold_warm, batch_mates = asyncio.run(measure(Subject(engine, dialect(name), "m", Endpoint.CHAT)))
    assert cold_warm is not None
    assert math.isclose(cold_warm.max or 0.0, 0.125)
    assert batch_mates == SelfNoise(positions=1, flips=0, max=0.25, median=0.25)
    assert engine.most == 3
    salted = [salt for salt in engine.salts if salt is not None]
    assert len(salted) == (1 if name == "vllm" else 0)


def test_an_engine_that_refuses_is_not_measured(scripted):
    found = asyncio.run(measure(Subject(scripted({}), dialect("openai"), "m", Endpoint.CHAT)))
    assert found == (None, None)
