"""Answers with bytes that are no HTTP at all."""

from __future__ import annotations

from tests.wire.engine import Connection


async def behave(connection: Connection) -> None:
    await connection.request()
    await connection.send(b"\x00\xff\x16\x03garbage, not a status line\r\n\r\n" * 50)
