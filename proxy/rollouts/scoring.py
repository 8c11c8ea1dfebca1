"""Rollouts scored by an engine, where no trainer has: the engine stands for the trainer.

House rules. Asks through the dialect's forced scoring; never a token is guessed. At most so many at once, results in the order of the file, and no more rollouts held than are
being scored. What the engine refuses is ``not_scored`` and counted; an engine that refuses the first many, or is not heard of many times in a row, is given up.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable

from msgspec import Struct
from msgspec.structs import replace

from engines.capabilities import remedy
from engines.dialect import Dialect, DialectError, Fetch
from engines.registry import detect, dialect
from proxy.rollouts.rollout import Rollout, Unusable

#: Refusals before any success after which the engine is taken to score nothing.
_PATIENCE = 8
#: Failures of which an engine knows nothing, since it was not heard: so many in a row, and it is gone.
_UNHEARD = frozenset({"refused", "timeout", "reset", "cut", "dns", "tls"})


class NoScores(Exception):
    """The engine cannot score given tokens; the text says why."""


class Scorer(Struct, frozen=True):
    """An engine that scores: how it is asked, for which model."""

    fetch: Fetch
    dialect: Dialect
    model: str | None = None


async def scorer(fetch: Fetch, engine: str, model: str | None) -> Scorer:
    """Return the engine behind ``fetch`` as a scorer; ``engine`` "auto" is detected. Raises NoScores."""
    try:
        found = dialect(engine if engine != "auto" else await detect(fetch))
    except DialectError as error:
        raise NoScores(f"{error.reason}: {remedy(error.reason)}") from None
    if found.score is None:
        raise NoScores(
            f"{found.name} cannot score given tokens: name an engine that can (vllm, sglang, llama_cpp, reference, ...)"
        )
    return Scorer(fetch, found, model)


async def scored(
    rollouts: Iterable[tuple[int, Rollout | Unusable]], by: Scorer, concurrency: int
) -> AsyncIterator[tuple[int, Rollout | Unusable]]:
    """Yield the same rollouts in the same order, those without a trainer's logprobs with the engine's. Raises NoScores."""
    waiting: deque[tuple[int, asyncio.Task[Rollout | Unusable]]] = deque()
    refused, unheard, succeeded, source = 0, 0, False, iter(rollouts)
    loop = asyncio.get_running_loop()
    try:
        while True:
            while len(waiting) < concurrency and (following := next(source, None)) is not None:
                waiting.append((following[0], loop.create_task(_score(following[1], by))))
            if not waiting:
                return
            number, task = waiting[0]
            found = await task
            waiting.popleft()
            succeeded = succeeded or (isinstance(found, Rollout) and found.scored)
            refused += isinstance(found, Unusable) and found.reason == "not_scored"
            if isinstance(found, Unusable) and found.reason == "not_scored":
                unheard = unheard + 1 if str(found).partition(":")[0] in _UNHEARD else 0
            elif isinstance(found, Rollout) and found.scored:
                unheard = 0
            if unheard >= _PATIENCE:
                raise NoScores(f"it does not answer any more, from line {number} back: {found}")
            if refused >= _PATIENCE and not succeeded:
                raise NoScores(f"{by.dialect.name} scored none of the first {refused} rollouts: {found}")
            yield number, found
    finally:
        for _, task in waiting:
            task.cancel()
        await asyncio.gather(*(task for _, task in waiting), return_exceptions=True)


async def _score(rollout: Rollout | Unusable, by: Scorer) -> Rollout | Unusable:
    if isinstance(rollout, Unusable) or rollout.trainer_logprobs is not None:
        return rollout
    assert by.dialect.score is not None
    ids = tuple(rollout.response_ids)
    if rollout.mask is not None:  # what padding holds is no part of any text
        ids = ids[: max((number + 1 for number, taken in enumerate(rollout.mask) if taken), default=0)]
    if not rollout.prompt_ids or min(ids, default=0) < 0:
        return Unusable(
            "not_scored", "without the ids of the prompt and of every token of the response nothing can be scored"
        )
    try:
        rows = await by.dialect.score(by.fetch, by.model, tuple(rollout.prompt_ids), ids, 1)
    except DialectError as error:
        return Unusable("not_scored", f"{error.reason}: {remedy(error.reason)}")
    values: list[float | None] = [None] * len(rollout.response_ids)
    for row in rows:
        values[row.index] = row.token.logprob
    return replace(rollout, trainer_logprobs=values, scored=True)
