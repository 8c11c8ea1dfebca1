"""How far an engine is from itself: cold against warm, alone against with others; what no comparison with another engine can see below.

House rules. A handful of small requests. Cold is a prefix cache of its own where the engine has such a thing, else a beginning that it has never seen. Nothing is
measured of an engine that refuses any of them.
"""

from __future__ import annotations

import asyncio
import secrets
from statistics import median

from engines import canary
from engines.capabilities import SelfNoise
from engines.dialect import Json
from engines.subject import Subject
from proxy.compare.token_stream import Reply, Token, TokenStream

_LENGTH = canary.LENGTH
#: Others that run beside the canary, and for longer than it does.
_MATES, _MATES_LENGTH = 2, 16
_TOP = 2


async def measure(subject: Subject) -> tuple[SelfNoise | None, SelfNoise | None]:
    """Return cold against warm, and alone against with batch mates; None for what could not be tried."""
    asked = canary.question(subject.endpoint, subject.model, length=_LENGTH)
    fresh = secrets.token_hex(8)
    if subject.dialect.cache_salt is None:
        asked = canary.begun_with(asked, fresh)
        cold = await subject.put(asked, _TOP)
    else:
        cold = await subject.send(subject.dialect.cache_salt(subject.dialect.ask(subject.endpoint, asked, _TOP), fresh))
        await subject.put(asked, _TOP)  # fills the cache for the next one
    warm = await subject.put(asked, _TOP)
    beside = await _with_mates(subject, asked)
    return _between(cold, warm), _between(warm, beside)


async def _with_mates(subject: Subject, asked: Json) -> Reply:
    """Ask while others run; they are begun first and go on for longer."""
    question = canary.question(subject.endpoint, subject.model, length=_MATES_LENGTH)
    mates = [
        asyncio.ensure_future(subject.put(canary.begun_with(question, f"{number}."), _TOP)) for number in range(_MATES)
    ]
    try:
        return await subject.put(asked, _TOP)
    finally:
        await asyncio.gather(*mates, return_exceptions=True)


def _between(one: Reply, other: Reply) -> SelfNoise | None:
    if one.error is not None or other.error is not None or not one.choices or not other.choices:
        return None
    return between(one.choices[0], other.choices[0])


def between(one: TokenStream, other: TokenStream) -> SelfNoise | None:
    """Hold two answers of one engine to one question against each other; None when there is nothing in them."""
    if not one.tokens or not other.tokens:
        texts = one.reasoning + one.text, other.reasoning + other.text
        return SelfNoise(positions=1, flips=int(texts[0] != texts[1])) if any(texts) else None
    by_id = one.has_ids and other.has_ids
    gaps: list[float] = []
    positions = flips = 0
    for left, right in zip(one.tokens, other.tokens, strict=False):
        positions += 1
        if _name(left, by_id=by_id) != _name(right, by_id=by_id):
            flips = 1
            break
        if left.logprob is not None and right.logprob is not None:
            gaps.append(abs(left.logprob - right.logprob))
    if not flips and len(one.tokens) != len(other.tokens):
        positions, flips = positions + 1, 1  # one of them ended here
    return SelfNoise(positions, flips, max(gaps, default=None), median(gaps) if gaps else None)


def _name(token: Token, *, by_id: bool) -> object:
    return token.id if by_id else (token.text, token.data)
