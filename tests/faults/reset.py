"""Accepts, reads a request, answers with a TCP reset."""

from __future__ import annotations

from tests.wire.engine import Connection


async def behave(connection: Connection) -> None:
    await connection.request()
    connection.reset()
