"""The admin port's listener: aiohttp's server, but for what it says of a request that it cannot read.

House rules. Its own answer to a malformed request quotes the offending line, which may be a key, and names its version. Here that answer
is constant, and the connection ends with it. Nothing of a request is ever logged.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

import orjson
from aiohttp import web

from proxy.ledger.admin import HEADERS

logger = logging.getLogger("parhelion.admin")

#: An idle connection is closed after so many seconds; scrapers come back every 15 to 60.
_KEEP_ALIVE = 75.0
_SAID = {
    400: ("Bad Request", "this is not HTTP/1.1 that this port understands"),
    500: ("Internal Server Error", "a fault of ours: the log says where"),
    504: ("Gateway Timeout", "the answer took too long"),
}


def _constant(status: int) -> bytes:
    reason, text = _SAID.get(status, _SAID[500])
    body = orjson.dumps({"error": text})
    fields = {**HEADERS, "Content-Type": "application/json", "Content-Length": str(len(body)), "Connection": "close"}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {status} {reason}\r\n{head}\r\n".encode() + body


class _Protocol(web.RequestHandler):
    """One connection."""

    __slots__ = ()

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


async def listen(application: web.Application, host: str, port: int) -> AdminServer:
    """Serve ``application`` (of ``make_admin``). Raises OSError when the address cannot be bound."""
    runner = web.AppRunner(application, access_log=None, handle_signals=False)
    await runner.setup()
    manager = runner.server
    assert manager is not None
    loop = asyncio.get_running_loop()
    try:
        server = await loop.create_server(
            lambda: _Protocol(manager, loop=loop, access_log=None, keepalive_timeout=_KEEP_ALIVE),  # type: ignore[arg-type]  # None turns the access log off
            host,
            port,
            backlog=128,
        )
    except OSError:
        await runner.cleanup()
        raise
    return AdminServer(runner, server)
