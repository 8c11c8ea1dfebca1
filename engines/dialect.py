"""What a dialect is: how one engine is asked, and how its answers are read.

A dialect is a frozen value of plain functions, made from the OpenAI baseline with ``dataclasses.replace`` where an engine
differs. House rules: a dialect does no I/O of its own. Where it needs an answer from the engine (rendering a prompt,
scoring tokens) it is handed ``fetch`` and calls that; the same dialect therefore serves the judge (raw client), the probes (aiohttp) and the
tests (recorded replies). It raises ``DialectError`` and nothing else, with a short machine-readable ``reason``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from msgspec import Struct

from proxy.compare.token_stream import Reply, Token

Json = dict[str, Any]


class Endpoint(StrEnum):
    """The inference routes whose replies are compared, and ``OTHER`` for all the rest."""

    CHAT = "chat_completions"
    COMPLETIONS = "completions"
    RESPONSES = "responses"
    MESSAGES = "messages"
    EMBEDDINGS = "embeddings"
    RERANK = "rerank"
    SCORE = "score"
    OTHER = "other"

    @property
    def by_token(self) -> bool:
        """Whether logprobs can be asked for there, so that replies are compared token by token and forced scoring means something."""
        return self in {Endpoint.CHAT, Endpoint.COMPLETIONS}

    @property
    def generates(self) -> bool:
        """Whether a reply is text that a model wrote, drawn at some temperature."""
        return self.by_token or self in {Endpoint.RESPONSES, Endpoint.MESSAGES}


class Call(Struct, frozen=True):
    """One HTTP request to make to an engine: path below the engine's base URL, JSON body or none."""

    path: str
    body: Json | None = None
    method: str = "POST"


class Answer(Struct, frozen=True):
    """What came back to a call.

    Status, lower-cased header names, body pieces after transfer decoding with their arrival (microseconds since
    the call was sent), and how it ended (None: complete; else a short reason: refused, reset, cut, timeout, too_large, ...).
    """

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    pieces: tuple[tuple[int, bytes], ...] = ()
    failure: str | None = None

    @property
    def body(self) -> bytes:
        """The whole body."""
        return b"".join([piece for _, piece in self.pieces])


Fetch = Callable[[Call], Awaitable[Answer]]


class DialectError(Exception):
    """An engine cannot do what was asked, or its answer cannot be read; ``reason`` is a bounded label."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason


class Scored(Struct, frozen=True):
    """One forced position: index into the scored ids, and the engine's view of the token there."""

    index: int
    token: Token


@dataclass(frozen=True, slots=True)
class Defaults:
    """Values an engine uses when the request omits them; None where neither its routes nor its documents say.

    ``enable_thinking`` is the template argument of that name, where it is declared. ``max_tokens_chat`` and ``max_tokens_completions`` are numbers only: an engine that goes on to the end of its context has None there.
    """

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    max_tokens_completions: int | None = None
    max_tokens_chat: int | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    enable_thinking: bool | None = None


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one engine speaks, as differences from the OpenAI baseline."""

    name: str
    #: Most alternatives a request may ask for (None: no limit known).
    max_top_logprobs: int | None
    #: At or below this temperature the engine is greedy.
    greedy_at: float
    defaults: Defaults
    #: logprob mode as documented: "raw", "processed", or "unknown"
    logprob_mode: str
    #: ask(endpoint, body, top) -> body: the body that makes this engine, as a shadow, answer with logprobs, ids and ``top`` alternatives.
    #: What the client asked for itself is kept or widened. May turn a stream off where only a whole reply tells every id. Never
    #: mutates its argument.
    ask: Callable[[Endpoint, Json, int], Json]
    #: read(endpoint, request_body, answer) -> Reply. Total: an unusable answer is a Reply with ``error`` set.
    read: Callable[[Endpoint, Json, Answer], Reply]
    #: strip(endpoint, client_body, reply_or_event) -> reply_or_event: undoes ``inject`` on one parsed JSON object of the reply so that the client sees what it
    #: would have seen without it. May mutate and return its argument; None drops the event.
    strip: Callable[[Endpoint, Json, Json], Json | None]
    #: inject(endpoint, body, top) -> body: ``ask`` for the live path. Adds only what ``strip`` can take away again and never changes
    #: whether the reply is a stream. None: this engine has nothing to inject.
    inject: Callable[[Endpoint, Json, int], Json] | None = None
    #: Prompt token ids the engine makes of this request, one tuple per prompt; None when the engine cannot say.
    prompt_ids: Callable[[Fetch, Endpoint, Json], Awaitable[tuple[tuple[int, ...], ...]]] | None = None
    #: Token ids of visible text, no special tokens added; and back.
    tokenize: Callable[[Fetch, str, str | None], Awaitable[tuple[int, ...]]] | None = None
    detokenize: Callable[[Fetch, tuple[int, ...], str | None], Awaitable[str]] | None = None
    #: score(fetch, model, prompt_ids, ids, top) -> rows, ascending index, possibly a sample of the positions.
    score: (
        Callable[[Fetch, str | None, tuple[int, ...], tuple[int, ...], int], Awaitable[tuple[Scored, ...]]] | None
    ) = None
    #: Extra body fields that keep a re-ask of the primary from sharing its prefix cache.
    cache_salt: Callable[[Json, str], Json] | None = None
    #: Request fields that this engine overlooks or takes for something else when they say anything (see ``neutral``): it then answers another request.
    misread: frozenset[str] = frozenset()
    #: What no capability field says, for `check` and README.
    notes: tuple[str, ...] = field(default=())
