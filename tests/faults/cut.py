"""Closes in the middle of a stream."""

from __future__ import annotations

from tests.wire.engine import STREAM, Connection, chunk


async def behave(connection: Connection) -> None:
    await connection.request()
    await connection.send(
        STREAM, chunk(b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'), b"ff\r\ndata: "
    )
