"""One scripted engine and what its routes are handed and hand back.

House rules. Frozen values. A route is a pure function of the engine and a query; it gives a whole reply or an iterator of events, and says how many tokens each
took, so that the edge can keep time. ``Refused`` is the only exception it raises.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from engines.scripted.asked import Asked, Habits
from engines.scripted.generate import Said, Step, steps
from engines.scripted.model import Toy
from engines.scripted.plant import planted
from engines.scripted.refused import Refused
from engines.scripted.script import Script

Json = dict[str, Any]

_DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}


@dataclass(frozen=True, slots=True)
class Engine:
    """What every route needs. ``started`` is in seconds since 1970."""

    script: Script
    toy: Toy
    started: int

    @property
    def dtype(self) -> str:
        """The number format it tells, where it tells one: that of its logits."""
        return _DTYPES[self.script.differences.precision]

    def said(self, asked: Asked, prompt: tuple[int, ...], choice: int, *, stream: bool = False) -> Iterator[Step]:
        """Say one choice, rows as this engine reports them."""
        return planted(steps(self.toy, asked, prompt, choice), self.script.differences, stream=stream)

    def whole(self, asked: Asked) -> list[Said]:
        """Say all choices of all prompts."""
        return [
            Said(prompt, tuple(self.said(asked, prompt, place))) for prompt in asked.prompts for place in range(asked.n)
        ]

    def digest(self, *parts: Any) -> str:
        """Return 32 hex digits that are the same for the same parts and script."""
        written = orjson.dumps([self.script.toy.seed, *parts], option=orjson.OPT_SORT_KEYS, default=repr)
        return hashlib.blake2b(written, digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class Query:
    """One request: JSON body (empty without one) and query parameters."""

    body: Json
    parameters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Whole:
    """A reply at once: JSON, or a text as it is. ``tokens`` is what was generated for it."""

    value: Any
    tokens: int = 0
    status: int = 200


@dataclass(frozen=True, slots=True)
class Event:
    """One JSON event of a stream and how many tokens came with it."""

    value: Json
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Stream:
    """A reply in events: server-sent, with their ``type`` as a name (``named``), or one JSON a line as Ollama's own routes have it (``lines``)."""

    events: Iterator[Event]
    named: bool = False
    lines: bool = False


Route = Callable[[Engine, Query], Whole | Stream]


@dataclass(frozen=True, slots=True)
class Writer:
    """How one dialect writes: its routes by ``METHOD /path``, its errors and its framing."""

    name: str
    habits: Habits
    routes: Mapping[str, Route]
    refuse: Callable[[Refused], Json]
    headers: Mapping[str, str] = field(default_factory=dict)
    #: Ends a stream with ``data: [DONE]``.
    done: bool = True
    #: Stands between an event's JSON and the line's end (TensorRT-LLM has a blank there).
    trailing: bytes = b""
