"""Streams well-formed events for ever, as fast as they are taken."""

from __future__ import annotations

from tests.wire.engine import STREAM, Connection, chunk


async def behave(connection: Connection) -> None:
    await connection.request()
    await connection.send(STREAM)
    event = chunk(b'data: {"choices":[{"index":0,"delta":{"content":"again"}}]}\n\n' * 64)
    while True:
        await connection.send(event)
