"""Sends header lines for ever."""

from __future__ import annotations

from tests.wire.engine import Connection


async def behave(connection: Connection) -> None:
    await connection.request()
    await connection.send(b"HTTP/1.1 200 OK\r\n")
    while True:
        await connection.send(b"X-Line: " + b"x" * 8000 + b"\r\n")
