"""Real engines as arms: asked and read by the product's own dialects and compared by its own functions, with no proxy between.

What is known of them is the plant of the reference engine (``engines/reference/README.md``), and its whole vocabulary.
"""

from __future__ import annotations

import asyncio
import io
import json
import urllib.request
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from engines.dialect import Call, Endpoint, Fetch
from engines.http_fetch import connect
from engines.registry import dialect
from proxy.compare.compare_forced import compare_forced
from proxy.compare.compare_free import compare_free
from proxy.compare.comparison import Comparison, FlipClass, Source
from proxy.compare.layers import Known
from proxy.compare.near_tie import Tau
from proxy.compare.token_stream import Reply, Token
from proxy.compare.verdict import State, Tally, Terms, judge
from proxy.demo import prompts
from tests.engine_fixtures import MODEL

QUESTIONS = prompts._QUESTIONS
TERMS = Terms()
Rows = tuple[tuple[int, Token], ...]
Given, Got = TypeVar("Given"), TypeVar("Got")


def planted(url: str, spelling: str) -> str:
    """The address at which the reference engine has this fault."""
    return f"{url}/planted/{spelling}"


def greedy(question: str, tokens: int, **fields: Any) -> dict[str, Any]:
    """A greedy chat."""
    messages = [{"role": "user", "content": question}]
    return {"model": MODEL, "messages": messages, "max_tokens": tokens, "temperature": 0, **fields}


def replies(
    url: str, bodies: Iterable[dict[str, Any]], *, engine: str = "reference", together: int = 1, top: int = 20
) -> list[Reply]:
    """Ask each; ``together`` at a time."""
    speak = dialect(engine)

    async def one(fetch: Fetch, body: dict[str, Any]) -> Reply:
        shaped = speak.ask(Endpoint.CHAT, body, top)
        reply = speak.read(Endpoint.CHAT, shaped, await fetch(Call("/v1/chat/completions", shaped)))
        assert reply.error is None, reply.error
        return reply

    return _each(url, one, bodies, together)


def scores(
    url: str, given: Iterable[Reply], *, engine: str = "reference", together: int = 1, top: int = 20
) -> list[Rows]:
    """Each reply's tokens, scored by this engine."""
    score = dialect(engine).score
    assert score is not None

    async def one(fetch: Fetch, reply: Reply) -> Rows:
        prompt, ids = ids_of(reply)
        return tuple((row.index, row.token) for row in await score(fetch, MODEL, prompt, ids, top))

    return _each(url, one, given, together)


def ids_of(reply: Reply) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Prompt and output as token ids."""
    (choice,) = reply.choices
    ids = tuple(token.id for token in choice.tokens if token.id is not None)
    assert choice.prompt_ids is not None
    assert len(ids) == len(choice.tokens)
    return choice.prompt_ids, ids


def truth(url: str, reply: Reply) -> NDArray[np.float64]:
    """Every token's logprob (nats) at every position of a reply, as this (reference) engine has it: (positions, vocabulary)."""
    prompt, ids = ids_of(reply)
    body = json.dumps({"tokens": [*prompt, *ids], "start": len(prompt)}).encode()
    request = urllib.request.Request(f"{url}/full_logprobs", body, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        found: NDArray[np.float64] = np.load(io.BytesIO(answer.read()))
    assert found.shape[0] == len(ids)
    return found


def forced(primary: Sequence[Reply], rows: Sequence[Rows], tau: Tau) -> list[Comparison]:
    """Scores held against the replies that they score."""
    return [
        compare_forced(reply, [row], source=Source.REPLY, tau=tau, greedy=True)
        for reply, row in zip(primary, rows, strict=True)
    ]


def free(primary: Sequence[Reply], shadow: Sequence[Reply], tau: Tau, known: Known | None = None) -> list[Comparison]:
    """Replies held against replies."""
    return [
        compare_free(left, right, source=Source.REPLY, tau=tau, greedy=True, known=known or Known())
        for left, right in zip(primary, shadow, strict=True)
    ]


def bad(comparison: Comparison) -> bool:
    """Whether a conversation has a genuine flip, of either mode."""
    (choice,) = comparison.choices
    flips = (*choice.flips, *((choice.first,) if choice.first is not None else ()))
    return any(flip.kind is FlipClass.GENUINE for flip in flips)


def foretold() -> int:
    """Conversations that a FAIL takes where every one is bad for the candidate alone."""
    return next(n for n in range(1, 1000) if judge(Tally(worse=n), TERMS).state is State.FAIL)


def tally(candidate: Iterable[Comparison], control: Iterable[Comparison]) -> Tally:
    """Pairs of outcomes, one a conversation."""
    total = Tally()
    for b, a in zip(map(bad, candidate), map(bad, control), strict=True):
        total += Tally(worse=b and not a, better=a and not b, both=a and b, neither=not a and not b)
    return total


def _each(url: str, one: Callable[[Fetch, Given], Awaitable[Got]], given: Iterable[Given], together: int) -> list[Got]:
    async def main() -> list[Got]:
        room = asyncio.Semaphore(together)
        async with connect(url, timeout=240) as fetch:

            async def bounded(item: Given) -> Got:
                async with room:
                    return await one(fetch, item)

            return await asyncio.gather(*map(bounded, given))

    return asyncio.run(main())
