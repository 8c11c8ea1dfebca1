"""A scripted engine without a socket: a ``fetch`` over its pure routes, and what its toy says of itself."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import orjson

from engines.dialect import Answer, Call, Endpoint, Fetch
from engines.scripted.engine import Engine, Stream, Writer
from engines.scripted.model import Toy
from engines.scripted.routes import served
from engines.scripted.script import Script
from engines.scripted.wire import ending, framed, kind_of, written
from engines.scripted.writers.registry import writer

STARTED = 1_796_000_000
PATHS = {Endpoint.CHAT: "/v1/chat/completions", Endpoint.COMPLETIONS: "/v1/completions"}
QUESTION = "How will the people come to know of this?"


def script(**given: Any) -> Script:
    """A script of these fields."""
    return msgspec.convert(given, Script)


def engine(played: Script | None = None) -> Engine:
    played = played or Script()
    return Engine(played, Toy(played), STARTED)


def answer(played: Engine, by: Writer, call: Call) -> Answer:
    """Carry out one call."""
    path, _, query = call.path.partition("?")
    body = b"" if call.body is None else orjson.dumps(call.body)
    parameters = dict(part.split("=", 1) for part in query.split("&") if "=" in part)
    got = served(played, by, call.method, path, parameters, body)
    headers = tuple(by.headers.items())
    if isinstance(got, Stream):
        pieces = [framed(by, got, event) for event in got.events] + [ending(by, got)]
        kind = kind_of(got)
        return Answer(200, (("content-type", kind), *headers), tuple((0, piece) for piece in pieces if piece))
    data, kind = written(got)
    return Answer(got.status, (("content-type", kind), *headers), ((0, data),))


def fetching(name: str, played: Engine | None = None) -> Fetch:
    """A ``fetch`` to an engine that speaks ``name``."""
    played, by = played or engine(), writer(name)

    async def fetch(call: Call) -> Answer:
        return answer(played, by, call)

    return fetch


def request(endpoint: Endpoint, **more: Any) -> dict[str, Any]:
    asked = {"messages": [{"role": "user", "content": QUESTION}]} if endpoint is Endpoint.CHAT else {"prompt": QUESTION}
    return {"model": "toy", **asked, "max_tokens": 12, "temperature": 0, **more}


def greedy(toy: Toy, prompt: tuple[int, ...], length: int) -> list[int]:
    """What the toy says by itself: the first maximum until its end token."""
    said: list[int] = []
    while len(said) < length:
        values = toy.logits((*prompt, *said))
        said.append(max(range(len(values)), key=lambda one: (values[one], -one)))
        if said[-1] == 0:
            break
    return said


def best(toy: Toy, context: tuple[int, ...], count: int) -> list[tuple[int, float]]:
    """The toy's own best tokens with their logprobs, from its logits alone."""
    values = toy.logits(context)
    total = math.log(sum(math.exp(value) for value in values))
    order = sorted(range(len(values)), key=lambda one: (-values[one], one))[:count]
    return [(one, values[one] - total) for one in order]
