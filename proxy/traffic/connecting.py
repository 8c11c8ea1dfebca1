"""Waiting for a connection that may be given up at any moment, so that its protocol always hears of its end.

uvloop closes the socket of a ``create_connection`` that is cancelled; when the protocol had been told ``connection_made`` in that same turn of the
loop, it is never told ``connection_lost`` (seen with uvloop 0.22; asyncio's own loop tells it). Whoever then waits for the end waits for ever. House
rules. Used for every connection that this package makes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

P = TypeVar("P", bound=asyncio.BaseProtocol)


async def connected(protocol: P, connecting: Awaitable[object]) -> P:
    """Wait for ``connecting``, which makes the connection of ``protocol``; when that is cancelled, the protocol hears that it is lost.

    It may hear so twice, or without ever having been told of a connection. Raises what ``connecting`` raises.
    """
    try:
        await connecting
    except asyncio.CancelledError:
        protocol.connection_lost(None)
        raise
    return protocol
