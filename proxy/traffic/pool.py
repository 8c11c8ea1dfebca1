"""Connections to the primary: idle ones kept for the next request, newest first, and new ones when there is none.

House rules. A connection carries one exchange at a time. An idle connection is let go before engines' servers close theirs: with no
``Keep-Alive: timeout`` from the peer after 4 s, since uvicorn (vLLM, SGLang) and cpp-httplib (llama.cpp) close after 5 s; reusing one in
the moment of its closing would cost a client an error, for a POST is never sent twice.

llama.cpp closes every connection behind a chunked reply, at once and against its own ``Keep-Alive: timeout=5``. So a connection rests for
``_REST`` after such a reply until a few of its like have outlived theirs: meanwhile others, or new ones, carry the requests.
"""

from __future__ import annotations

import asyncio
import ssl
from time import monotonic
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
_REST = 0.25  # seconds; llama.cpp's close comes within one millisecond
_PROVEN = 3  # connections that outlived their rest: the peer keeps what it says it keeps


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
        self._outlived = 0  # connections in a row that outlived their rest

    def serve(self, relay: Relay) -> None:
        """Attach a connection to the relay: an idle one now, or a new one soon."""
        idle, now = self._idle, monotonic()
        for place in range(len(idle) - 1, -1, -1):
            connection = idle[place]
            if now < connection.rests_until and self._outlived < _PROVEN:
                continue
            del idle[place]
            if connection.usable(now):
                if 0.0 < connection.rests_until <= now:
                    self._outlived += 1
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

    def give_back(self, connection: PrimarySide, patience: float | None, clock: float, *, chunked: bool) -> None:
        """Keep a connection whose exchange was over at ``clock``, with a ``chunked`` reply or another.

        ``patience`` is the peer's own Keep-Alive timeout in seconds, None when not stated.
        """
        span = _IDLE if patience is None else min(patience - _MARGIN, _LONGEST_IDLE)
        if self._retired or span <= 0:
            connection.close()
            return
        connection.deadline = clock + span
        connection.idle_from = clock
        connection.rests_until = clock + _REST if chunked else 0.0
        self._idle.append(connection)

    def opened(self, connection: PrimarySide) -> None:
        """Note a new connection."""
        self._all.add(connection)

    def lost(self, connection: PrimarySide) -> None:
        """Note that a connection is closed."""
        if monotonic() < connection.rests_until:
            self._outlived = 0
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
