"""Reads a request and closes without a word."""

from __future__ import annotations

from tests.wire.engine import Connection


async def behave(connection: Connection) -> None:
    await connection.request()
