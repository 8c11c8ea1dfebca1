"""Rollouts scored by an engine: in their order, refused where they must be."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from engines.dialect import Dialect, DialectError, Fetch, Scored
from engines.http_fetch import connect
from engines.registry import dialect
from proxy.compare.token_stream import Token
from proxy.rollouts import Rollout, Settings, Unusable
from proxy.rollouts.scoring import NoScores, Scorer, scored, scorer
from proxy.rollouts.tally import Tally
from tests.planted import serving


def by(answers: Any, name: str = "vllm") -> Scorer:
    async def score(
        fetch: Fetch, model: str | None, prompt: tuple[int, ...], ids: tuple[int, ...], top: int
    ) -> tuple[Scored, ...]:
        return await answers(prompt, ids)

    async def fetch(call: Any) -> Any:
        raise AssertionError(call)

    made: Dialect = replace(dialect(name), score=score)
    return Scorer(fetch, made)


def collected(source: list[Rollout | Unusable], scorer_: Scorer, concurrency: int = 3) -> list[Rollout | Unusable]:
    async def main() -> list[Rollout | Unusable]:
        return [one async for _, one in scored(enumerate(source, 1), scorer_, concurrency)]

    return asyncio.run(main())


def rollout(number: int, **more: Any) -> Rollout:
    return Rollout([number, number + 1], [-1.0, -1.0], prompt_ids=(9,), **more)


def test_results_keep_the_order_and_the_limit() -> None:
    running = most = 0

    async def answer(prompt: tuple[int, ...], ids: tuple[int, ...]) -> tuple[Scored, ...]:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001 * (5 - ids[0] % 5))  # the later ones are done first
        running -= 1
        return tuple(Scored(at, Token(text="", id=one, logprob=-one / 10)) for at, one in enumerate(ids))

    found = collected([rollout(number) for number in range(12)], by(answer))
    assert [list(one.trainer_logprobs or ()) for one in found if isinstance(one, Rollout)] == [
        [-number / 10, -(number + 1) / 10] for number in range(12)
    ]
    assert most == 3


def test_what_has_a_trainer_already_is_not_asked_for() -> None:
    async def answer(prompt: tuple[int, ...], ids: tuple[int, ...]) -> tuple[Scored, ...]:
        raise AssertionError(ids)

    own = rollout(1, trainer_logprobs=[-1.0, -2.0])
    assert collected([own, Unusable("not_json", "x")], by(answer))[0] is own


def test_positions_that_were_not_scored_are_left_out_and_counted() -> None:
    async def answer(prompt: tuple[int, ...], ids: tuple[int, ...]) -> tuple[Scored, ...]:
        return (Scored(1, Token(text="", id=ids[1], logprob=-1.5)),)

    tally = Tally(Settings())
    for one in collected([rollout(1)], by(answer)):
        assert isinstance(one, Rollout)
        tally.add(one)
    found = tally.measured()
    assert (found.tokens, found.left_out, found.value("k1_nats")) == (1, {"not_scored": 1}, 0.5)


def test_a_refusal_is_counted_and_an_engine_that_refuses_all_is_given_up() -> None:
    async def answer(prompt: tuple[int, ...], ids: tuple[int, ...]) -> tuple[Scored, ...]:
        if ids[0] % 2:
            raise DialectError("status_400", "/v1/completions")
        return tuple(Scored(at, Token(text="", id=one, logprob=-1.0)) for at, one in enumerate(ids))

    found = collected([rollout(number) for number in range(6)], by(answer))
    assert [one.reason for one in found if isinstance(one, Unusable)] == ["not_scored"] * 3
    with pytest.raises(NoScores, match="none of the first 8"):
        collected([rollout(2 * number + 1) for number in range(20)], by(answer))


def test_without_a_prompt_or_with_labels_nothing_is_sent() -> None:
    async def answer(prompt: tuple[int, ...], ids: tuple[int, ...]) -> tuple[Scored, ...]:
        raise AssertionError(ids)

    lines: list[Rollout | Unusable] = [Rollout([1], [-1.0]), rollout(-100)]
    assert [one.reason for one in collected(lines, by(answer)) if isinstance(one, Unusable)] == ["not_scored"] * 2


def test_padding_is_not_sent() -> None:
    asked: list[tuple[int, ...]] = []

    async def answer(prompt: tuple[int, ...], ids: tuple[int, ...]) -> tuple[Scored, ...]:
        asked.append(ids)
        return tuple(Scored(at, Token(text="", id=one, logprob=-1.0)) for at, one in enumerate(ids))

    padded = Rollout([4, 5, 0, 0], [-1.0] * 4, prompt_ids=(9,), mask=[True, True, False, False])
    (found,) = collected([padded], by(answer))
    assert asked == [(4, 5)]
    assert isinstance(found, Rollout)
    assert found.trainer_logprobs == [-1.0, -1.0, None, None]


def test_an_engine_that_scores_nothing_is_refused_by_name() -> None:
    async def main() -> None:
        async with serving("{}", "ollama") as url, connect(url) as fetch:
            await scorer(fetch, "auto", None)

    with pytest.raises(NoScores, match="ollama cannot score given tokens"):
        asyncio.run(main())


def test_an_engine_that_is_not_heard_any_more_is_given_up() -> None:
    async def answer(prompt: tuple[int, ...], ids: tuple[int, ...]) -> tuple[Scored, ...]:
        if ids[0] >= 5 and ids[0] != 10:
            raise DialectError("reset" if ids[0] % 2 else "timeout", "/v1/completions")
        return tuple(Scored(at, Token(text="", id=one, logprob=-1.0)) for at, one in enumerate(ids))

    assert len(collected([rollout(number) for number in range(18)], by(answer))) == 18  # 5 in a row, and 7
    with pytest.raises(NoScores, match=r"does not answer any more, from line 19 back: timeout"):
        collected([rollout(number) for number in range(30)], by(answer))
