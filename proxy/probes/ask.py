"""One run: every probe of a set put to an engine once.

House rules. Asks through the injected ``fetch`` only. A run is whole or none: what an engine fails to answer twice is a ``NoRun`` with a bounded reason, never a gap of 0. Each
run brings a salt of its own, so that no cache answers for the engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec import Struct

from engines.dialect import Call, Dialect, Endpoint, Fetch, Json
from proxy.compare.token_stream import Alternative, Token
from proxy.probes.probe import Named, Probe

#: Alternatives asked for: as many as OpenAI's completions give.
TOP = 5
#: A gap is cut here; a token that is not among the alternatives is at least so far away for all we want to know.
CAP = 5.0
_PATH = "/v1/completions"


class NoRun(Exception):
    """The engine did not answer all probes; ``reason`` is a dialect's bounded label, or ``no_alternatives``."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Subject(Struct, frozen=True):
    """An engine to ask: how, and for which model (None: it has one)."""

    fetch: Fetch
    dialect: Dialect
    model: str | None = None


class Run(Struct, frozen=True):
    """What one run showed, a value a probe: the gap between its two tokens in nats (at most ``CAP`` either way), and whether another token than ``first`` led."""

    gaps: tuple[float, ...]
    flipped: tuple[bool, ...]


async def run(subject: Subject, probes: Sequence[Probe], salt: str, concurrency: int = 4) -> Run:
    """Ask every probe once, at most ``concurrency`` at a time. Raises NoRun."""
    turns = asyncio.Semaphore(concurrency)

    async def one(number: int, probe: Probe) -> tuple[float, bool]:
        async with turns:
            return gap_of(await row(subject, probe.ids, probe.text, f"{salt}-{number}"), probe)

    tasks = [asyncio.ensure_future(one(number, probe)) for number, probe in enumerate(probes)]
    try:
        found = await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
    gaps, flipped = zip(*found, strict=True)
    return Run(gaps, flipped)


async def row(subject: Subject, ids: Sequence[int], text: str | None, salt: str) -> Token:
    """Return the next token after a prompt, with its alternatives; asked twice before it is given up. Raises NoRun."""
    reason = "no_alternatives"
    for _ in range(2):
        for prompt in (list(ids), text):
            if not prompt:
                continue
            body = _body(subject, prompt, salt)
            reply = subject.dialect.read(Endpoint.COMPLETIONS, body, await subject.fetch(Call(_PATH, body)))
            tokens = reply.choices[0].tokens if reply.choices else ()
            if reply.error is None and tokens and len(tokens[0].top) > 1:
                return tokens[0]
            reason = reply.error or "no_alternatives"
            if reason not in {"status_400", "status_422"}:  # those may be about ids, and text be taken
                break
    raise NoRun(reason)


def _body(subject: Subject, prompt: list[int] | str, salt: str) -> Json:
    question: Json = {"prompt": prompt, "max_tokens": 1, "temperature": 0, "stream": False}
    if subject.model is not None:
        question["model"] = subject.model
    body = subject.dialect.ask(Endpoint.COMPLETIONS, question, TOP)
    return subject.dialect.cache_salt(body, salt) if subject.dialect.cache_salt is not None else body


def gap_of(found: Token, probe: Probe) -> tuple[float, bool]:
    """Return the gap between a probe's two tokens in a row, and whether another one leads. A token that is not listed is ``CAP`` away."""
    first, second = _logprob(found, probe.first), _logprob(found, probe.second)
    if first is None:
        return -CAP, True
    gap = CAP if second is None else max(-CAP, min(CAP, first - second))
    return gap, max(one.logprob for one in found.top) > first


def _logprob(found: Token, wanted: Named) -> float | None:
    return next((one.logprob for one in found.top if wanted.same(one.id, one.text)), None)


def named(one: Alternative) -> Named:
    """Return an alternative's name."""
    return Named(one.id, one.text)
