"""The admin port's listener: aiohttp's server, but for what it says of a request that it cannot read, and how long it waits for one.

House rules. Its own answer to a malformed request quotes the offending line, which may be a key, and names its version. Here that answer
is constant, and the connection ends with it. It would wait an hour for a head that does not come; here a head, and a body behind it, have
one deadline together. Nothing of a request is ever logged.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

import orjson
from aiohttp import http_parser, web

from proxy.ledger.admin import HEADERS

logger = logging.getLogger("parhelion.admin")

#: An idle connection is closed after so many seconds; scrapers come back every 15 to 60.
_KEEP_ALIVE = 75.0
_LINGER = 2.0  # how long what an answered request still sends is read and thrown away, so that the answer is not lost to a reset
_SAID = {
    400: ("Bad Request", "this is not HTTP/1.1 that this port understands"),
    408: ("Request Timeout", "the request did not arrive in time"),
    500: ("Internal Server Error", "a fault of ours: the log says where"),
    504: ("Gateway Timeout", "the answer took too long"),
}


def _constant(status: int) -> bytes:
    reason, text = _SAID.get(status, _SAID[500])
    body = orjson.dumps({"error": text})
    fields = {**HEADERS, "Content-Type": "application/json", "Content-Length": str(len(body)), "Connection": "close"}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {status} {reason}\r\n{head}\r\n".encode() + body


def reads_in_c() -> bool:
    """Whether aiohttp's parser is llhttp. Half of the request smuggling advisories of aiohttp were of its other parser, in Python."""
    return http_parser.HttpRequestParser is not http_parser.HttpRequestParserPy


class _Protocol(web.RequestHandler):
    """One connection. ``head``: seconds for a request to arrive."""

    __slots__ = ("_answering", "_begun", "_deadline", "_seconds")

    def __init__(self, manager: web.Server, *, head: float, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(
            manager,
            loop=loop,
            access_log=None,  # type: ignore[arg-type]  # None turns the access log off
            keepalive_timeout=_KEEP_ALIVE,
            lingering_time=_LINGER,
        )
        self._seconds = head
        self._answering = False
        self._begun = False  # the next head has, in the same packet as the one before
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for a head."""
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Wait no more."""
        self._wait_no_more()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read; the first bytes of a head start its time."""
        super().data_received(data)
        self._begun = not data.endswith(b"\r\n\r\n")
        if self._deadline is None and not self._answering and self.transport is not None:
            self._wait()

    def head_came(self, *, whole: bool) -> None:
        """Note a whole head; with a body still to come the time runs on."""
        self._answering = True
        if whole:
            self._wait_no_more()
        else:
            self._begun = False  # what came behind the head is the body

    def answered(self) -> None:
        """Note that the answer is made; the next head has a time of its own."""
        self._answering = False
        self._wait_no_more()
        if self._begun:
            self._wait()

    def _wait(self) -> None:
        self._deadline = asyncio.get_running_loop().call_later(self._seconds, self._late)

    def _wait_no_more(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _late(self) -> None:
        self._deadline = None
        if self.transport is not None and not self._answering:
            self.transport.write(_constant(408))
        self.force_close()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Write the constant and end the connection: what is returned finds nothing left to be written to."""
        del message
        if status >= 500:
            logger.error("admin_error", exc_info=exc)
        if self.transport is not None:
            if request.writer.output_size == 0:  # else an answer has begun, and can only be cut
                self.transport.write(_constant(status))
            self.transport.close()
        response = web.Response(status=status)
        response.force_close()
        return response


@dataclass(frozen=True, slots=True)
class AdminServer:
    """A listening admin port."""

    runner: web.AppRunner
    server: asyncio.Server

    @property
    def address(self) -> str:
        """HOST:PORT as bound (the port may have been chosen by the system)."""
        host, port = self.server.sockets[0].getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    async def close(self) -> None:
        """Listen no more, finish what is being answered, end all connections."""
        self.server.close()
        await self.runner.cleanup()
        await self.server.wait_closed()


async def listen(application: web.Application, host: str, port: int, *, head: float = 10.0) -> AdminServer:
    """Serve ``application`` (of ``make_admin``); a request may take ``head`` seconds to arrive. Raises OSError when the address cannot be bound."""
    runner = web.AppRunner(application, access_log=None, handle_signals=False)
    await runner.setup()
    manager = runner.server
    assert manager is not None
    loop = asyncio.get_running_loop()
    try:
        server = await loop.create_server(
            lambda: _Protocol(manager, head=head, loop=loop),
            host,
            port,
            backlog=128,
        )
    except OSError:
        await runner.cleanup()
        raise
    return AdminServer(runner, server)
