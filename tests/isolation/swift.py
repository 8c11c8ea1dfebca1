"""A toy engine's replies at the speed of a look-up: each distinct request is answered once by ``tests.toy``, then from memory, byte for byte.

House rules. A reply is kept as the pieces in which the toy wrote it (head, then chunk by chunk), so that a stream stays a stream. Requests must have a
Content-Length or no body, as those of our own clients do.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, cast

from aiohttp import web

from tests.toy import Server, Toy

_NO_BODY = b"0"


class Memory:
    """Replies by request line and body; what is not known yet is asked of the toy behind it."""

    def __init__(self, toy: Toy) -> None:
        self._toy = toy
        self._known: dict[bytes, list[bytes]] = {}
        self._port = 0
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        self._runner = web.AppRunner(Server(self._toy).application(), access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self._port = self._runner.addresses[0][1]

    def known(self, line: bytes, body: bytes) -> list[bytes] | None:
        return self._known.get(line + b"\n" + body)

    async def learn(self, line: bytes, body: bytes) -> list[bytes]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 24)
        writer.write(b"%b\r\nHost: toy\r\nContent-Length: %d\r\n\r\n%b" % (line, len(body), body))
        head = await reader.readuntil(b"\r\n\r\n")
        pieces = [head]
        lowered = head.lower()
        if b"transfer-encoding: chunked" in lowered:
            while True:
                size = await reader.readuntil(b"\r\n")
                pieces.append(size + await reader.readexactly(int(size, 16) + 2))
                if int(size, 16) == 0:
                    break
        elif length := int(_field(lowered, b"content-length")):
            pieces[0] += await reader.readexactly(length)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        self._known[line + b"\n" + body] = pieces
        return pieces


class Swift(asyncio.Protocol):
    """One connection. ``pace``: seconds between the pieces of a stream."""

    def __init__(self, memory: Memory, open_: set[Any], pace: float) -> None:
        self._memory, self._open, self._pace = memory, open_, pace
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self._busy = False
        self._work: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._open.add(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._open.discard(self._transport)
        self._transport = None  # what is being learned is learned to its end: the next who asks will want it

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._busy:
            self._next()

    def _next(self) -> None:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self._buffer[:end]
        size = int(_field(head.lower(), b"content-length"))
        if len(self._buffer) < end + 4 + size:
            return
        body = self._buffer[end + 4 : end + 4 + size]
        self._buffer = self._buffer[end + 4 + size :]
        line = head.partition(b"\r\n")[0]
        self._busy = True
        if (known := self._memory.known(line, body)) is not None:
            self._play(known, 0)
        else:
            self._work = asyncio.ensure_future(self._learn(line, body))

    async def _learn(self, line: bytes, body: bytes) -> None:
        self._play(await self._memory.learn(line, body), 0)

    def _play(self, pieces: list[bytes], at: int) -> None:
        if self._transport is None:
            return
        if len(pieces) == 1 or not self._pace:
            self._transport.writelines(pieces)
        else:
            self._transport.write(pieces[at])
            if at + 1 < len(pieces):
                asyncio.get_running_loop().call_later(self._pace, self._play, pieces, at + 1)
                return
        self._busy = False
        if self._buffer:
            self._next()


def _field(lowered: bytes, name: bytes) -> bytes:
    """A field's value; 0 where it is missing."""
    _, found, rest = lowered.partition(b"\r\n" + name + b":")
    return rest.partition(b"\r\n")[0].strip() if found else _NO_BODY
