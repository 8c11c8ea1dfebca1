"""A scripted engine on a raw socket: plays bytes as told and records every byte it is sent.

``async with Engine(behaviour) as engine`` serves on 127.0.0.1 with ``behaviour(connection)`` run once for each accepted connection; when it
returns, the connection is closed. ``engine.url`` is the base URL, ``engine.requests`` what was read with ``Connection.request``, ``engine.received`` every
byte that arrived, read as a request or not.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Self


@dataclass(frozen=True)
class Request:
    """One request as it came over the wire: raw head without its blank line, raw body, and the body after transfer decoding."""

    head: bytes
    raw_body: bytes
    body: bytes

    @property
    def line(self) -> bytes:
        return self.head.partition(b"\r\n")[0]

    @property
    def fields(self) -> list[tuple[bytes, bytes]]:
        """Name and value of each header line, in order, as sent."""
        pairs = (line.partition(b":") for line in self.head.split(b"\r\n")[1:])
        return [(name, value.strip()) for name, _, value in pairs]

    def value(self, name: bytes) -> bytes | None:
        for found, value in self.fields:
            if found.lower() == name.lower():
                return value
        return None


class Gone(Exception):
    """The peer closed before a whole request had come."""


class Connection:
    """One accepted connection."""

    def __init__(self, engine: Engine, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._engine = engine
        self._reader = reader
        self._writer = writer
        self._buffer = bytearray()

    async def _more(self) -> bytes:
        data = await self._reader.read(1 << 16)
        if not data:
            raise Gone
        self._engine.received += data
        return data

    async def _until(self, mark: bytes) -> bytes:
        while mark not in self._buffer:
            self._buffer += await self._more()
        end = self._buffer.index(mark)
        found = bytes(self._buffer[:end])
        del self._buffer[: end + len(mark)]
        return found

    async def _exactly(self, size: int) -> bytes:
        while len(self._buffer) < size:
            self._buffer += await self._more()
        found = bytes(self._buffer[:size])
        del self._buffer[:size]
        return found

    async def head(self) -> bytes:
        """Read one request head, without its blank line."""
        return await self._until(b"\r\n\r\n")

    async def request(self) -> Request:
        """Read one whole request and record it."""
        head = await self.head()
        request = await self.body(head)
        self._engine.requests.append(request)
        return request

    async def body(self, head: bytes) -> Request:
        """Read the body that a head announces."""
        lowered = head.lower()
        if b"\r\ntransfer-encoding: chunked" in lowered:
            raw, body = bytearray(), bytearray()
            while True:
                size = await self._until(b"\r\n")
                raw += size + b"\r\n"
                length = int(size.partition(b";")[0], 16)
                if not length:
                    while trailer := await self._until(b"\r\n"):
                        raw += trailer + b"\r\n"
                    return Request(head, bytes(raw + b"\r\n"), bytes(body))
                piece = await self._exactly(length + 2)
                raw += piece
                body += piece[:-2]
        stated = Request(head, b"", b"").value(b"content-length")
        data = await self._exactly(int(stated or 0))
        return Request(head, data, data)

    async def send(self, *pieces: bytes, pause: float = 0.0) -> None:
        """Write pieces, with a pause after each when asked for; waits for the peer to take them."""
        for piece in pieces:
            if self._writer.transport.is_closing():
                raise ConnectionResetError
            self._writer.write(piece)
            await self._writer.drain()
            if pause:
                await asyncio.sleep(pause)

    async def read_raw(self) -> bytes:
        """Read whatever comes next; empty at the end."""
        if self._buffer:
            return await self._exactly(len(self._buffer))
        try:
            return await self._more()
        except Gone:
            return b""

    def stop_reading(self) -> None:
        self._writer.transport.pause_reading()  # type: ignore[attr-defined]  # the transport reads as well

    def half_close(self) -> None:
        self._writer.write_eof()

    def close(self) -> None:
        self._writer.close()

    def reset(self) -> None:
        """Answer with a TCP reset."""
        sock = self._writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()


Behaviour = Callable[[Connection], Awaitable[None]]


@dataclass
class Engine:
    """See the module's docstring. ``tls`` serves https; ``port`` re-binds a known port."""

    behaviour: Behaviour
    tls: ssl.SSLContext | None = None
    port: int = 0
    requests: list[Request] = field(default_factory=list)
    received: bytearray = field(default_factory=bytearray)
    connections: int = 0
    open: int = 0
    errors: list[BaseException] = field(default_factory=list)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    @property
    def host(self) -> bytes:
        return f"127.0.0.1:{self.port}".encode()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", self.port, ssl=self.tls, limit=1 << 20, backlog=2048
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        self.open += 1
        try:
            await self.behaviour(Connection(self, reader, writer))
        except (Gone, ConnectionError, asyncio.CancelledError):
            pass
        except RuntimeError as error:  # what uvloop says of a use of a connection that the peer has ended
            if "the handler is closed" not in str(error):
                self.errors.append(error)
        except Exception as error:  # noqa: BLE001 - a behaviour's own bug must fail the test that looks at it
            self.errors.append(error)
        finally:
            self.open -= 1
            self._tasks.discard(task)
            writer.close()
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()


def always(*pieces: bytes, pause: float = 0.0) -> Behaviour:
    """Answer every request of a connection with the same pieces."""

    async def behave(connection: Connection) -> None:
        while True:
            await connection.request()
            await connection.send(*pieces, pause=pause)

    return behave


def once(*pieces: bytes, pause: float = 0.0) -> Behaviour:
    """Answer one request with the pieces, then close."""

    async def behave(connection: Connection) -> None:
        await connection.request()
        await connection.send(*pieces, pause=pause)

    return behave


def reply(body: bytes, *, status: str = "200 OK", fields: bytes = b"Content-Type: application/json\r\n") -> bytes:
    """A reply of known length."""
    return b"HTTP/1.1 %b\r\n%bContent-Length: %d\r\n\r\n%b" % (status.encode(), fields, len(body), body)


def chunk(data: bytes) -> bytes:
    """One chunk; the empty one ends a body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def stream(*pieces: bytes) -> list[bytes]:
    """A chunked event stream, head first, one chunk a piece."""
    return [STREAM, *(chunk(piece) for piece in pieces), chunk(b"")]
