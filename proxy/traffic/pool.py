"""Connections to the primary: idle ones kept for the next request, newest first, and new ones when there is none.

House rules. A connection carries one exchange at a time. An idle connection is let go before engines' servers close theirs: with no
``Keep-Alive: timeout`` from the peer after 4 s, since uvicorn (vLLM, SGLang) and cpp-httplib (llama.cpp) close after 5 s; reusing one in
the moment of its closing would cost a client an error.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING

from proxy.traffic.connecting import connected
from proxy.traffic.deadlines import Deadlines
from proxy.traffic.origin import Origin
from proxy.traffic.primary_side import PrimarySide

if TYPE_CHECKING:
    from proxy.traffic.relay import Relay

_IDLE = 4.0
_LONGEST_IDLE = 60.0
_MARGIN = 1.0


class Pool:
    """All connections to one origin."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        deadlines: Deadlines,
        origin: Origin,
        tls: ssl.SSLContext | None,
        connect_timeout: float,
    ) -> None:
        self.loop = loop
        self.deadlines = deadlines
        self._origin = origin
        self._tls = tls
        self._connect_timeout = connect_timeout
        self._idle: list[PrimarySide] = []
        self._all: set[PrimarySide] = set()
        self._connecting: dict[Relay, asyncio.Task[None]] = {}
        self._retired = False

    def serve(self, relay: Relay) -> None:
        """Attach a connection to the relay: an idle one now, or a new one soon."""
        while self._idle:
            connection = self._idle.pop()
            if connection.usable(self.deadlines.now):
                connection.serve(relay)
                return
            connection.close()
        self.serve_anew(relay)

    def serve_anew(self, relay: Relay) -> None:
        """Attach a new connection, whatever is idle."""
        self._connecting[relay] = self.loop.create_task(self._connect(relay))

    def cancel(self, relay: Relay) -> None:
        """Stop connecting for a relay that wants no connection any more."""
        task = self._connecting.pop(relay, None)
        if task is not None:
            task.cancel()

    def give_back(self, connection: PrimarySide, patience: float | None) -> None:
        """Keep a connection whose exchange is over; ``patience`` is the peer's own Keep-Alive timeout in seconds, None when not stated."""
        span = _IDLE if patience is None else min(patience - _MARGIN, _LONGEST_IDLE)
        if self._retired or span <= 0:
            connection.close()
            return
        connection.deadline = self.deadlines.now + span
        self._idle.append(connection)

    def opened(self, connection: PrimarySide) -> None:
        """Note a new connection."""
        self._all.add(connection)

    def lost(self, connection: PrimarySide) -> None:
        """Note that a connection is closed."""
        self._all.discard(connection)
        self.forget(connection)

    def forget(self, connection: PrimarySide) -> None:
        """Note that an idle connection is not to be used."""
        if connection in self._idle:
            self._idle.remove(connection)

    @property
    def in_use(self) -> bool:
        """Tell whether there is a connection, or one on its way."""
        return bool(self._all or self._connecting)

    def retire(self) -> None:
        """Keep nothing any more; open exchanges go on."""
        self._retired = True
        for connection in self._idle[:]:
            connection.close()
        self._idle.clear()

    async def close(self) -> None:
        """Abort everything and wait until it is gone."""
        self.retire()
        tasks = list(self._connecting.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for connection in list(self._all):
            connection.abort()
        await asyncio.gather(*(connection.closed.wait() for connection in list(self._all)))

    async def _connect(self, relay: Relay) -> None:
        connection = PrimarySide(self)
        try:
            async with asyncio.timeout(self._connect_timeout):
                await connected(connection, self.loop.create_connection(
                    lambda: connection, self._origin.address, self._origin.port,
                    ssl=self._tls, server_hostname=self._origin.address if self._tls else None,
                ))  # fmt: skip
        except (OSError, TimeoutError, UnicodeError):
            if self._connecting.pop(relay, None) is not None:
                relay.unreachable()
            return
        if self._connecting.pop(relay, None) is None:
            connection.close()
        else:
            connection.serve(relay)
