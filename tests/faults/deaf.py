"""Accepts and never reads: the peer's writes fill the kernel's buffers and stop."""

from __future__ import annotations

import asyncio

from tests.wire.engine import Connection


async def behave(connection: Connection) -> None:
    connection.stop_reading()
    await asyncio.Event().wait()
