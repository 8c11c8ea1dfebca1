"""``fetch`` over aiohttp: for probing, for the command line, and for tests. The judge mirrors with a client of its own.

House rules. The only file here that opens a socket. Every fault is an ``Answer`` with a bounded ``failure``; no redirect is followed, no proxy of the
environment used, no cookie kept; a body has a bound.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import orjson

from engines.dialect import Answer, Call, Fetch

#: As the SSE reader's bound for one event; whole-vocabulary lists of a canary stay far below.
MAX_BODY = 64 << 20


@asynccontextmanager
async def connect(url: str, *, api_key: str | None = None, timeout: float = 60.0) -> AsyncIterator[Fetch]:  # noqa: ASYNC109 - a limit per request, kept by aiohttp
    """Open a session to the engine at ``url`` (its base, without ``/v1``); ``timeout`` is seconds per request."""
    base = url.rstrip("/")
    headers = {"user-agent": "parhelion", "accept": "application/json, text/event-stream"}
    if api_key:
        headers["authorization"] = f"Bearer {api_key}"
    limits = aiohttp.ClientTimeout(total=timeout, connect=min(timeout, 10.0))
    # A connection per request: llama.cpp closes a kept one after a stream without saying so, and a probe is in no hurry.
    connector = aiohttp.TCPConnector(force_close=True)
    async with aiohttp.ClientSession(
        connector=connector, timeout=limits, headers=headers, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False
    ) as session:

        async def fetch(call: Call) -> Answer:
            return await _fetch(session, base, call)

        yield fetch


async def _fetch(session: aiohttp.ClientSession, base: str, call: Call) -> Answer:
    body = None if call.body is None else orjson.dumps(call.body)
    headers = {"content-type": "application/json"} if body is not None else {}
    started = time.monotonic_ns()
    pieces: list[tuple[int, bytes]] = []
    status, size = 0, 0
    named: tuple[tuple[str, str], ...] = ()
    failure: str | None = None
    try:
        async with session.request(
            call.method, base + call.path, data=body, headers=headers, allow_redirects=False
        ) as got:
            status = got.status
            named = tuple((name.lower(), value) for name, value in got.headers.items())
            async for piece in got.content.iter_any():
                size += len(piece)
                if size > MAX_BODY:
                    failure = "too_large"
                    break
                pieces.append(((time.monotonic_ns() - started) // 1000, piece))
    except (aiohttp.ClientError, OSError, ValueError) as error:
        failure = _label(error)
    return Answer(status, named, tuple(pieces), failure)


def _label(error: Exception) -> str:
    """Name a fault without its text, which may hold the address with its user info."""
    match error:
        case aiohttp.ClientConnectorDNSError():
            return "dns"
        case aiohttp.ClientSSLError():
            return "tls"
        case aiohttp.InvalidURL() | aiohttp.NonHttpUrlClientError():
            return "bad_url"
        case TimeoutError():
            return "timeout"
        case aiohttp.ClientConnectorError():
            return "refused"
        case aiohttp.ClientPayloadError():
            return "cut"
        case aiohttp.ServerDisconnectedError() | ConnectionResetError():
            return "reset"
        case aiohttp.ClientResponseError():
            return "not_http"
        case ValueError():
            return "bad_url"
        case _:
            return "reset"
