"""Answers one byte at a time, slower than anyone will wait."""

from __future__ import annotations

from tests.wire.engine import STREAM, Connection


async def behave(connection: Connection) -> None:
    await connection.request()
    await connection.send(STREAM)
    while True:
        await connection.send(b"1\r\nx\r\n", pause=0.2)
