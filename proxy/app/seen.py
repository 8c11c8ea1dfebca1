"""Engines as the commands ask them: each probed once, or the reason why it could not be used.

House rules. Asks and returns values; prints nothing. No key or reply of an engine gets into a problem's text.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Mapping
from typing import Any

from msgspec import Struct

from engines.capabilities import remedy
from engines.dialect import DialectError
from engines.http_fetch import connect
from engines.probe import Probe, probe
from engines.registry import detect, dialect
from proxy.config import Config

_SECONDS = 60.0
_NO_TLS = {"timeout", "connect_timeout", "tls", "reset"}


class Seen(Struct, frozen=True):
    """One engine as asked: ``probe`` None when it could not be used, ``problem`` then says why."""

    key: str
    name: str
    url: str
    role: str
    probe: Probe | None = None
    problem: str | None = None


async def ask_all(config: Config) -> list[Seen]:
    """Probe the primary and every shadow of a configuration at once, but one address once at a time: an engine that is probed twice is not alone."""
    one = config.primary
    turns: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
    todo = [
        _in_turn(
            turns[one.url], ask("primary", "primary", one.url, "primary", one.engine, one.api_key, None, one.declare)
        )
    ]
    for number, shadow in enumerate(config.shadows):
        model = next(iter(shadow.models.values()), None)
        name, url, key = shadow.name, shadow.url, f"shadows[{number}]"
        todo.append(
            _in_turn(turns[url], ask(key, name, url, shadow.role, shadow.engine, shadow.api_key, model, shadow.declare))
        )
    return list(await asyncio.gather(*todo))


async def _in_turn(turn: asyncio.Lock, work: Awaitable[Seen]) -> Seen:
    async with turn:
        return await work


async def ask(
    key: str,
    name: str,
    url: str,
    role: str,
    engine: str,
    api_key: str | None,
    model: str | None,
    declared: Mapping[str, Any],
) -> Seen:
    """Probe one engine; ``key`` is where the configuration names it, ``model`` None takes its first."""
    try:
        async with connect(url, api_key=api_key, timeout=_SECONDS) as fetch:
            found = dialect(engine if engine != "auto" else await detect(fetch))
            return Seen(key, name, url, role, await probe(fetch, found, model, declared))
    except DialectError as error:
        hint = "; or there is no TLS there: use http://" if url.startswith("https") and error.reason in _NO_TLS else ""
        return Seen(key, name, url, role, problem=f"{error.reason}: {remedy(error.reason)}{hint}")
