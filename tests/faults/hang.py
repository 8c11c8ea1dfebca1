"""Accepts, reads a request, never answers."""

from __future__ import annotations

from tests.wire.engine import Connection


async def behave(connection: Connection) -> None:
    while await connection.read_raw():
        pass
