"""A closed loop of clients on raw sockets: every reply is held against the engine's own, byte for byte, and timed.

House rules. Replies are read here by hand and not by the product's parser. A client keeps its connection as long as the peer does, so that what
is timed is a request and not a handshake.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import cast
from urllib.parse import urlsplit

import orjson

_HOP_BY_HOP = {b"connection", b"keep-alive", b"transfer-encoding", b"date"}
#: No reply of a test takes longer; a client that waits on is a failure that says so.
PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class Said:
    """What a client got: status line and end-to-end fields in order, the body without its framing, and whether it was whole."""

    head: tuple[bytes, ...]
    body: bytes
    whole: bool


@dataclass(slots=True)
class Tally:
    """Seconds from sending to the first byte and to the end, and what went wrong (the first few, in words)."""

    asked: int = 0
    failed: int = 0
    first: list[float] = field(default_factory=list)
    total: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def fail(self, what: str) -> None:
        self.failed += 1
        if len(self.wrong) < 5:
            self.wrong.append(what[:300])

    def in_words(self) -> str:
        """Median and 99th percentile of the first byte, in milliseconds."""
        return f"p50 {1e3 * quantile(self.first, 0.5):.2f} ms, p99 {1e3 * quantile(self.first, 0.99):.2f} ms"


def quantile(values: Sequence[float], q: float) -> float:
    """The smallest value that at least ``q`` of all do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, int(q * len(ordered) + 0.999999) - 1))]


def chat(text: str, *, stream: bool, **changes: object) -> bytes:
    """One greedy chat request, whole."""
    body = {
        "model": "toy",
        "messages": [{"role": "user", "content": text}],
        "temperature": 0,
        "max_tokens": 8,
        "stream": stream,
    }
    return post(orjson.dumps(body | changes))


def post(body: bytes, path: str = "/v1/chat/completions") -> bytes:
    """One POST that keeps its connection."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


#: What is asked in turn: half of it streams.
CORPUS = tuple(chat(f"halo {number}", stream=number % 2 == 1) for number in range(16))


class Caller(asyncio.Protocol):
    """One client. ``ask`` connects where there is no connection."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._transport: asyncio.Transport | None = None
        self._data = bytearray()
        self._end: asyncio.Future[Said] | None = None
        self.first = 0.0

    async def ask(self, request: bytes) -> Said:
        """Send and read one reply to its end, or to that of the connection. Raises OSError and TimeoutError."""
        if self._transport is None or self._transport.is_closing():
            await asyncio.get_running_loop().create_connection(lambda: self, *self._address)
        assert self._transport is not None
        self._data.clear()
        self.first = 0.0
        self._end = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        async with asyncio.timeout(PATIENCE):
            return await self._end

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if not self.first:
            self.first = perf_counter()
        self._data += data
        if self._data.endswith(b"\r\n0\r\n\r\n") or b"\r\nTransfer-Encoding: chunked" not in self._data[:2000]:
            self._tell(said(bytes(self._data)), over=False)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._tell(said(bytes(self._data), ended=exc is None), over=True)

    def _tell(self, found: Said, *, over: bool) -> None:
        if self._end is not None and not self._end.done() and (over or found.whole):
            self._end.set_result(found)


def said(raw: bytes, *, ended: bool = False) -> Said:
    """Read what a connection gave as one reply; ``ended``: it was closed without a fault, which ends a reply that has no length."""
    head, blank, rest = raw.partition(b"\r\n\r\n")
    if head.startswith(b"HTTP/1.1 1"):
        return said(rest, ended=ended)
    lines = head.split(b"\r\n")
    fields = {name.lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines[1:])}
    kept = tuple(line for line in lines if line.partition(b":")[0].lower() not in _HOP_BY_HOP)
    if fields.get(b"transfer-encoding") == b"chunked":
        return Said(kept, *_dechunked(rest))
    if b"content-length" in fields:
        length = int(fields[b"content-length"])
        return Said(kept, rest[:length], len(rest) >= length)
    return Said(kept, rest, whole=ended) if blank else Said((), raw, whole=False)


def _dechunked(rest: bytes) -> tuple[bytes, bool]:
    out: list[bytes] = []
    at = 0
    while (end := rest.find(b"\r\n", at)) > 0:
        size = int(rest[at:end], 16)
        if not size:
            return b"".join(out), rest[end : end + 4] == b"\r\n\r\n"
        out.append(rest[end + 2 : end + 2 + size])
        at = end + 2 + size + 2
    return b"".join(out), False


async def expect(engine: str, corpus: Sequence[bytes] = CORPUS) -> list[Said]:
    """The engine's own replies, asked of it directly."""
    caller = Caller(address_of(engine))
    try:
        return [await caller.ask(request) for request in corpus]
    finally:
        caller.close()


def address_of(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    return parts.hostname, parts.port


async def drive(
    url: str,
    count: int,
    wanted: Sequence[Said],
    tally: Tally,
    *,
    corpus: Sequence[bytes] = CORPUS,
    at_once: int = 8,
) -> None:
    """Ask ``count`` requests, the corpus in turn, and hold each reply against ``wanted``."""
    numbers = iter(range(count))

    async def work() -> None:
        caller = Caller(address_of(url))
        try:
            for number in numbers:
                await one(caller, number % len(corpus), corpus, wanted, tally)
        finally:
            caller.close()

    async with asyncio.TaskGroup() as group:
        for _ in range(min(at_once, count)):
            group.create_task(work())


async def one(caller: Caller, which: int, corpus: Sequence[bytes], wanted: Sequence[Said], tally: Tally) -> None:
    tally.asked += 1
    began = perf_counter()
    try:
        got = await caller.ask(corpus[which])
    except (OSError, TimeoutError) as error:
        tally.fail(type(error).__name__)
        caller.close()
        return
    tally.first.append(caller.first - began)
    tally.total.append(perf_counter() - began)
    if got != wanted[which]:
        tally.fail(f"request {which}: {got} is not {wanted[which]}")
        caller.close()
        with contextlib.suppress(OSError):
            await asyncio.sleep(0)


async def alternate(
    sides: dict[str, str], rounds: int, block: int, wanted: Sequence[Said], *, at_once: int = 8
) -> dict[str, Tally]:
    """Give each side ``rounds`` blocks of requests in turn, so that whatever else the machine does falls on all of them."""
    tallies = {name: Tally() for name in sides}
    for _ in range(rounds):
        for name, url in sides.items():
            await drive(url, block, wanted, tallies[name], at_once=at_once)
    return tallies
