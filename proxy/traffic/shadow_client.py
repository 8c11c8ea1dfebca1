"""A raw HTTP/1.1 client for the judge: sends mirrored calls, reads the answers to their end with arrival times.

House rules. A shadow may refuse, hang, trickle, cut, flood or talk nonsense: ``send`` then returns an ``Answer`` that says so in ``failure``, in bounded
time and memory, and never raises for it. The destination and the credential come from the configuration alone; no redirect is followed, no
cookie kept, no environment read. Content codings are left as they are (``content_coding`` undoes them).
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from time import monotonic
from typing import cast

import orjson

from engines.dialect import Answer, Call
from proxy.traffic.connecting import connected
from proxy.traffic.origin import read_origin, tls_context
from proxy.traffic.reply_reader import ReplyReader

_IDLE = 4.0  # see pool.py: engines close idle connections after 5 s
_MARGIN = 1.0
_PIECE = 96  # what a piece costs beside its bytes


class Client:
    """One engine at ``base_url``. At most ``connections`` calls are open at once, more wait within their own deadline.

    ``connect_timeout`` in seconds; ``max_bytes`` bounds a reply's body (with 96 bytes of bookkeeping for each piece). Raises ValueError
    for a URL that cannot be used.
    """

    def __init__(
        self, base_url: str, *, api_key: str | None, connections: int, connect_timeout: float, max_bytes: int
    ) -> None:
        self._origin = read_origin(base_url)
        self._tls = tls_context(self._origin)
        self._api_key = api_key
        self._connect_timeout = connect_timeout
        self._max_bytes = max_bytes
        self._slots = asyncio.Semaphore(connections)
        self._idle: list[_Line] = []
        self._lines: set[_Line] = set()

    async def send(
        self, call: Call, *, headers: tuple[tuple[str, str], ...] = (), deadline: float, raw_body: bytes | None = None
    ) -> Answer:
        """Make one call; ``deadline`` in seconds covers all of it. ``raw_body`` is sent in place of the call's JSON body.

        ``Answer.failure`` is None, or refused, dns, tls, connect_timeout, reset (no reply head came), cut, timeout, too_large or protocol; what
        came before a failure is in the answer.
        """
        body = raw_body if raw_body is not None else (b"" if call.body is None else orjson.dumps(call.body))
        request = self._request(call, headers, body)
        answering = _Answering(call.method.encode(), self._max_bytes)
        try:
            async with asyncio.timeout(deadline), self._slots:
                await self._exchange(request, answering)
        except TimeoutError:
            answering.fail("timeout")
        return answering.answer()

    async def aclose(self) -> None:
        """Break every connection off and wait until it is gone."""
        for line in list(self._lines):
            line.abort()
        await asyncio.gather(*(line.closed.wait() for line in list(self._lines)))

    def _request(self, call: Call, headers: tuple[tuple[str, str], ...], body: bytes) -> bytes:
        names = {name.lower() for name, _ in headers}
        lines = [
            f"{call.method} {self._origin.prefix.decode()}{call.path} HTTP/1.1",
            f"Host: {self._origin.host.decode()}",
        ]
        if self._api_key is not None:
            lines.append(f"Authorization: Bearer {self._api_key}")
        lines += [f"{name}: {value}" for name, value in headers]
        if body or call.method in ("POST", "PUT", "PATCH"):
            if "content-type" not in names:
                lines.append("Content-Type: application/json")
            lines.append(f"Content-Length: {len(body)}")
        head = "\r\n".join(lines)
        if head.count("\n") != len(lines) - 1 or head.count("\r") != len(lines) - 1 or "\0" in head:
            raise ValueError("a header, path or key of a mirrored call holds a line break")
        return head.encode("latin-1") + b"\r\n\r\n" + body

    async def _exchange(self, request: bytes, answering: _Answering) -> None:
        line = self._pooled()
        if line is not None:
            await line.ask(request, answering)
            if not answering.stale:
                return
            answering.restart()  # the peer closed it while it was idle: nothing was read, ask once more
        line = await self._connect(answering)
        if line is not None:
            await line.ask(request, answering)

    def _pooled(self) -> _Line | None:
        while self._idle:
            line = self._idle.pop()
            if line.usable():
                return line
            line.abort()
        return None

    async def _connect(self, answering: _Answering) -> _Line | None:
        loop, line = asyncio.get_running_loop(), _Line(self)
        try:
            async with asyncio.timeout(self._connect_timeout):
                await connected(line, loop.create_connection(
                    lambda: line, self._origin.address, self._origin.port,
                    ssl=self._tls, server_hostname=self._origin.address if self._tls else None,
                ))  # fmt: skip
        except TimeoutError:
            answering.fail("connect_timeout")
        except (socket.gaierror, UnicodeError):
            answering.fail("dns")
        except ssl.SSLError:
            answering.fail("tls")
        except OSError:
            # A TLS peer that hangs up in the handshake is a TLS failure too, but a refusal cannot be told from it here.
            answering.fail("refused")
        else:
            return line
        return None

    # -- told by the lines

    def opened(self, line: _Line) -> None:
        """Note a connection."""
        self._lines.add(line)

    def lost(self, line: _Line) -> None:
        """Forget a connection."""
        self._lines.discard(line)
        if line in self._idle:
            self._idle.remove(line)

    def give_back(self, line: _Line) -> None:
        """Keep a connection for the next call."""
        self._idle.append(line)


class _Answering:
    """The answer as far as it has come."""

    def __init__(self, method: bytes, max_bytes: int) -> None:
        self.method = method
        self.stale = False
        self._room = max_bytes
        self._status = 0
        self._headers: tuple[tuple[str, str], ...] = ()
        self._pieces: list[tuple[int, bytes]] = []
        self._failure: str | None = None

    def restart(self) -> None:
        self.stale = False
        self._failure = None

    def fail(self, reason: str) -> None:
        self._failure = self._failure or reason

    def take(self, reader: ReplyReader, micros: int) -> bool:
        """Take what the reader found; false when it is more than wanted."""
        head = reader.head
        if head is not None and not self._status:
            self._status = head.status
            self._headers = tuple(
                (lower.decode(), value.strip(b" \t").decode("latin-1")) for lower, _, value in head.fields
            )
        for piece in reader.pieces:
            self._room -= len(piece) + _PIECE
            if self._room < 0:
                self.fail("too_large")
                return False
            self._pieces.append((micros, piece))
        return True

    def answer(self) -> Answer:
        return Answer(self._status, self._headers, tuple(self._pieces), self._failure)


class _Line(asyncio.Protocol):
    """One connection, one call at a time."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._transport: asyncio.Transport | None = None
        self._reader = ReplyReader()
        self._answering: _Answering | None = None
        self._over: asyncio.Future[None] | None = None
        self._sent = 0.0
        self._reused = False
        self._usable_until = 0.0
        self.closed = asyncio.Event()

    def usable(self) -> bool:
        return self._transport is not None and not self._transport.is_closing() and monotonic() < self._usable_until

    async def ask(self, request: bytes, answering: _Answering) -> None:
        """Send the request and wait for the end of its answer; broken off when cancelled."""
        transport = self._transport
        if transport is None or transport.is_closing():
            answering.fail("reset")
            answering.stale = self._reused
            return
        self._reader.begin(answering.method)
        self._answering = answering
        self._over = asyncio.get_running_loop().create_future()
        self._sent = monotonic()
        transport.write(request)
        try:
            await self._over
        finally:
            if self._answering is answering:  # cancelled; else the line may already be at the next call's work
                self._answering = None
                self.abort()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._client.opened(self)

    def data_received(self, data: bytes) -> None:
        answering, reader = self._answering, self._reader
        if answering is None:
            self.abort()
            return
        reader.feed(data)
        if not answering.take(reader, int((monotonic() - self._sent) * 1e6)):
            self._finish(keep=False)
        elif reader.faulty:
            answering.fail("protocol")
            self._finish(keep=False)
        elif reader.complete:
            self._finish(keep=reader.keep and not reader.extra)

    def eof_received(self) -> bool:
        self._ended(clean=True)
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._client.lost(self)
        self.closed.set()
        self._ended(clean=exc is None)

    def _ended(self, *, clean: bool) -> None:
        answering = self._answering
        if answering is None:
            return
        if not (clean and self._reader.ends_with_connection):
            answering.stale = self._reused and self._reader.silent
            answering.fail("reset" if self._reader.head is None else "cut")
        self._finish(keep=False)

    def _finish(self, *, keep: bool) -> None:
        self._answering = None
        transport, over = self._transport, self._over
        if over is not None and not over.done():
            over.set_result(None)
        if transport is None or transport.is_closing():
            return
        head = self._reader.head
        patience = _IDLE if head is None or head.patience is None else head.patience - _MARGIN
        if keep and patience > 0 and not transport.get_write_buffer_size():
            self._reused = True
            self._usable_until = monotonic() + patience
            self._client.give_back(self)
        else:
            transport.abort()
