"""Stops sending in the middle of a reply but keeps the connection."""

from __future__ import annotations

from tests.wire.engine import Connection


async def behave(connection: Connection) -> None:
    await connection.request()
    await connection.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{")
    connection.half_close()
    while await connection.read_raw():
        pass
