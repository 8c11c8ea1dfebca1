"""Rollouts that a real engine drew, scored by the same engine."""

from __future__ import annotations

import asyncio

import pytest

from engines.dialect import Endpoint
from engines.http_fetch import connect
from engines.registry import dialect
from engines.subject import Subject
from proxy.rollouts import Measured, Rollout, Settings
from proxy.rollouts.scoring import scored, scorer
from proxy.rollouts.tally import Tally

PROMPTS = [
    "The capital of France is",
    "Once upon a time",
    "def add(a, b):",
    "The sea is",
    "1, 2, 3,",
    "Dear Sir or Madam,",
]


async def own_rollouts(url: str, engine: str, model: str) -> list[Rollout]:
    """What an engine draws at temperature 1, as a trainer would keep it."""
    found = []
    async with connect(url) as fetch:
        for seed, prompt in enumerate(PROMPTS):
            subject = Subject(fetch, dialect(engine), model, Endpoint.COMPLETIONS)
            body = {"model": model, "prompt": prompt, "max_tokens": 12, "temperature": 1.0, "seed": seed}
            reply = await subject.put(body, 1)
            assert reply.error is None, reply.error
            choice = reply.choices[0]
            render = subject.dialect.prompt_ids
            assert render is not None
            (ids,) = await render(fetch, Endpoint.COMPLETIONS, body)
            found.append(
                Rollout([token.id or 0 for token in choice.tokens], [token.logprob for token in choice.tokens], prompt_ids=ids, unfiltered=True)
            )  # fmt: skip
    return found


async def scored_by_itself(url: str, engine: str, model: str) -> Measured:
    drawn = await own_rollouts(url, engine, model)
    tally = Tally(Settings())
    async with connect(url) as fetch:
        judge = await scorer(fetch, "auto", model)
        assert judge.dialect.name == engine
        async for _, one in scored(enumerate(drawn, 1), judge, 2):
            assert isinstance(one, Rollout), one
            tally.add(one)
    return tally.measured()


@pytest.mark.torch
def test_the_reference_engine_scores_what_it_drew_as_it_drew_it(reference_fp32: str) -> None:
    found = asyncio.run(scored_by_itself(reference_fp32, "reference", "smollm2-135m"))
    assert (found.rollouts, found.unusable) == (len(PROMPTS), {})
    assert found.tokens > 40
    assert (found.value("rms_difference_nats") or 1.0) < 1e-3  # fp32: decode against prefill
    assert (found.value("correlation") or 0.0) > 0.9999
    assert found.k3_is_kl == 1.0
