"""One engine as the judge deals with it: its client, its dialect, its limits; asking it and scoring with it.

House rules. The only place of the judge that talks to an engine. Nothing here raises for what an engine does: a fault comes
back as a value with a bounded reason, and the guard hears of it.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from msgspec import Struct

from engines.alike import Known
from engines.dialect import Answer, Call, Defaults, Dialect, DialectError, Endpoint, Fetch, Json, Scored
from engines.endpoints import speaking
from proxy.compare.comparison import Mode
from proxy.compare.token_stream import Reply
from proxy.judge import usage
from proxy.judge.guard import KILL_SWITCH, Guard
from proxy.ledger.record import Timing
from proxy.traffic.content_coding import CodingError, decode_body
from proxy.traffic.shadow_client import Client

T = TypeVar("T")

#: 501: what llama.cpp says of embeddings and reranking when it was not started for them. It is well, and answers chats.
_CANNOT = 501

#: Streamed pieces closer than this came in one read; they say nothing about the engine's pace.
_SAME_READ_US = 50
#: Seconds for a question about an engine itself, which generates nothing: one that hung while it was asked is soon asked again.
_LOOK = 10.0


class Answered(Struct, frozen=True):
    """The engine answered; whether usefully is in ``reply.error``."""

    reply: Reply
    timing: Timing


class Refused(Struct, frozen=True):
    """We did not ask, or got nothing to read. ``shed``: our own decision, not the engine's fault."""

    reason: str
    shed: bool


@dataclass(slots=True)
class Arm:
    """One engine.

    ``dialect`` is None until it has been probed; ``reply_bytes`` bounds a decoded reply, ``alternatives`` what may be asked for a position
    (None: as many as the dialect allows; 0: it gives text only). ``changed``: since when its footprint is another one than before (Unix seconds; 0: always the
    same); ``away``: since when it has not been there and not been looked at again, None while it is there.
    """

    name: str
    client: Client
    deadline: float
    slots: asyncio.Semaphore
    reply_bytes: int = 8 << 20
    alternatives: int | None = None
    guard: Guard = field(default_factory=Guard)
    dialect: Dialect | None = None
    defaults: Defaults = field(default_factory=Defaults)
    footprint: str = ""
    changed: float = 0.0
    away: float | None = None
    forced: bool = False
    logprob_mode: str = "unknown"
    dtype: str = ""
    context: int | None = None  # tokens of a prompt and its reply together
    #: Why the values of an arm are not compared for a while, and for how many comparisons more, by mode; see ``beforehand``.
    doubts: dict[Mode, tuple[str, int]] = field(default_factory=dict)
    errors: Counter[str] = field(default_factory=Counter)
    _counting: threading.Lock = field(default_factory=threading.Lock)
    tokens: Counter[str] = field(default_factory=Counter)  # by kind: prompt, completion, scored

    def begin(
        self, path: str, body: Json, request_id: str, expected: int, then: Callable[[Answer | Refused], None]
    ) -> int:
        """Send one request of a client's kind; ``then`` is told the whole answer as it came, at once if it is not to be asked.

        ``expected``: its tokens, held back from the day's budget meanwhile, and charged for when the answer does not say. Returns the bytes that are held
        to be sent.
        """
        if self.dialect is None:
            then(Refused("shadow_unready", shed=True))
            return 0
        if reason := self.guard.admit(time.monotonic(), expected):
            then(Refused(reason, shed=True))
            return 0

        def came(answer: Answer) -> None:
            self.guard.returned(expected)
            if self.guard.stopped:
                then(Refused(KILL_SWITCH, shed=True))
                return
            self._heard(answer)
            self._charge(answer, expected)
            then(answer)

        try:
            asked = self.client.ask(
                Call(path, body), came, headers=(("x-request-id", request_id),), deadline=self.deadline
            )
        except BaseException:
            self.guard.returned(expected)
            self.guard.released()
            raise
        return len(asked.body)

    async def ask(
        self, endpoint: Endpoint, path: str, body: Json, request_id: str, *, expected: int = 0
    ) -> Answered | Refused:
        """The same with the answer awaited and read."""
        if self.dialect is None:
            return Refused("shadow_unready", shed=True)
        answer = await self.admitted(lambda fetch: fetch(Call(path=path, body=body)), request_id, expected)
        if isinstance(answer, Refused):
            return answer
        if self.guard.stopped:
            return Refused(KILL_SWITCH, shed=True)
        self._charge(answer, expected)
        return self.read(endpoint, body, answer)

    def read(self, endpoint: Endpoint, body: Json, answer: Answer, known: Known | None = None) -> Answered | Refused:
        """Read an answer to ``body`` as token streams; one that says what a ``known`` one says is not read again."""
        dialect = self.dialect
        if dialect is None:
            return Refused("shadow_unready", shed=True)
        answer = plain(answer, self.reply_bytes)
        if answer.failure is not None and not answer.pieces:
            self._failed(answer.failure)
            return Refused("shadow_error", shed=False)
        reply = speaking.read(dialect, endpoint, body, answer, known)
        if reply.error is not None:
            self._failed(reply.error)
        return Answered(reply, timing_of(answer, stream=body.get("stream") is True))

    async def score(
        self,
        model: str | None,
        prompt: tuple[int, ...],
        ids: tuple[int, ...],
        top: int,
        request_id: str,
        sent: list[Call] | None = None,
    ) -> tuple[Scored, ...] | Refused:
        """Have the engine score ``ids`` after ``prompt`` (its own token ids). ``sent``: each call that is made for it is added to this."""
        if self.dialect is None:
            return Refused("shadow_unready", shed=True)
        score = self.dialect.score
        if score is None or not self.forced:
            return Refused("no_forced_scoring", shed=False)
        try:
            rows = await self.admitted(
                lambda fetch: score(_noting(fetch, sent), model, prompt, ids, self.most(top)), request_id, len(ids)
            )
        except DialectError as error:
            self._failed(error.reason)
            return Refused("shadow_error", shed=False)
        if not isinstance(rows, Refused):
            self.guard.spent(len(rows), time.monotonic())
            self.tokens.update(scored=len(rows))
        return rows

    async def admitted(self, work: Callable[[Fetch], Awaitable[T]], request_id: str, expected: int = 0) -> T | Refused:
        """Do something with the engine that may take ``expected`` tokens, if the guard lets us; whatever ``work`` raises goes through."""
        if reason := self.guard.admit(time.monotonic(), expected):
            return Refused(reason, shed=True)
        trial = self.guard.circuit_open
        try:
            async with self.slots:
                if not self.guard.stopped:
                    return await work(self._counted(request_id))
        except DialectError:
            if not self.guard.stopped:  # else it was us who broke it off
                raise
        finally:
            self.guard.returned(expected)
            if trial:  # it may have ended without a word about the engine's health: let the next one try
                self.guard.released()
        return Refused(KILL_SWITCH, shed=True)

    def _failed(self, kind: str) -> None:
        with self._counting:
            self.errors[kind] += 1

    def take_errors(self) -> Counter[str]:
        """Faults by kind since the call before; answers are read on more than one thread."""
        with self._counting:
            taken, self.errors = self.errors, Counter()
        return taken

    def most(self, wanted: int) -> int:
        """As many alternatives of those wanted as this engine gives; more would be refused by some."""
        if self.alternatives is not None and self.alternatives < wanted:
            wanted = self.alternatives
        bound = self.dialect.max_top_logprobs if self.dialect else None
        return wanted if bound is None or wanted < bound else bound

    def fetch(self, request_id: str, *, heard: bool = True) -> Fetch:
        """The function a dialect calls this engine with. ``heard``: what it answers says how it fares."""

        async def fetch(call: Call) -> Answer:
            return await self._send(call, request_id, heard=heard)

        return fetch

    def _counted(self, request_id: str) -> Fetch:
        """The same for admitted work: it was let through as one request, and each further one is charged for."""
        first = True

        async def fetch(call: Call) -> Answer:
            nonlocal first
            if not first:
                self.guard.charge(time.monotonic())
            first = False
            return await self._send(call, request_id)

        return fetch

    async def _send(self, call: Call, request_id: str, *, heard: bool = True) -> Answer:
        deadline = min(self.deadline, _LOOK) if call.method == "GET" else self.deadline
        answer = await self.client.send(call, headers=(("x-request-id", request_id),), deadline=deadline)
        if heard:
            self._heard(answer)
        return plain(answer, self.reply_bytes)

    def _heard(self, answer: Answer) -> None:
        """Tell the guard how the engine fares."""
        if answer.failure == "refused" and self.away is None:
            self.away = time.time()
        if answer.failure is not None or (answer.status >= 500 and answer.status != _CANNOT):
            self.guard.failed(time.monotonic())
        else:
            self.guard.succeeded()

    def _charge(self, answer: Answer, expected: int) -> None:
        """Count the tokens of an answer, whether or not anybody will read it."""
        if answer.failure is not None and not answer.pieces:
            return
        prompt, completion = usage.reported(answer.pieces)
        if completion is None and 200 <= answer.status <= 299:
            completion = max(expected, usage.completion(answer.pieces))
        if prompt:
            self.tokens["prompt"] += prompt
        if completion:
            self.tokens["completion"] += completion
            self.guard.spent(completion, time.monotonic())


def _noting(fetch: Fetch, sent: list[Call] | None) -> Fetch:
    if sent is None:
        return fetch

    async def noting(call: Call) -> Answer:
        sent.append(call)
        return await fetch(call)

    return noting


def plain(answer: Answer, cap: int) -> Answer:
    """The answer with its content coding undone; a body that cannot be decoded within ``cap`` bytes is a failure."""
    coding = next((value for name, value in answer.headers if name == "content-encoding"), "")
    if coding in {"", "identity"}:
        return answer
    last = answer.pieces[-1][0] if answer.pieces else 0
    try:
        body = decode_body(coding, answer.body, cap)
    except CodingError:
        return Answer(answer.status, answer.headers, (), "content_encoding")
    headers = tuple(pair for pair in answer.headers if pair[0] != "content-encoding")
    return Answer(answer.status, headers, ((last, body),), answer.failure)


def timing_of(answer: Answer, *, stream: bool) -> Timing:
    """First piece, end and gaps between pieces in seconds. Only a stream says when its first token came."""
    if not answer.pieces:
        return Timing()
    times = [at for at, _ in answer.pieces]
    gaps = tuple(
        (after - before) / 1e6 for before, after in itertools.pairwise(times) if after - before > _SAME_READ_US
    )
    return Timing(first_token=times[0] / 1e6 if stream else None, end=times[-1] / 1e6, gaps=gaps if stream else ())
