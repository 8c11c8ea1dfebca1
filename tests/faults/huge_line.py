"""Streams one event whose line never ends."""

from __future__ import annotations

from tests.wire.engine import STREAM, Connection, chunk


async def behave(connection: Connection) -> None:
    await connection.request()
    await connection.send(STREAM, chunk(b"data: "))
    piece = chunk(b"x" * 65536)
    while True:
        await connection.send(piece)
