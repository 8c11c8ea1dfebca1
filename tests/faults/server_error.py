"""Answers every request with 500 and an error object."""

from __future__ import annotations

from tests.wire.engine import Connection, reply


async def behave(connection: Connection) -> None:
    while True:
        await connection.request()
        await connection.send(
            reply(b'{"error":{"message":"boom","type":"internal","code":500}}', status="500 Internal Server Error")
        )
