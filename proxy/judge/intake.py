"""Where exchanges come in: the unix socket that traffic processes connect to, and the bounded queue behind it.

House rules. When the queue is full the sockets are not read, so that the traffic processes' own bounded queues fill and they shed; nothing is
dropped here. What an earlier connection handed over and nobody settled is found by arithmetic, when nothing of that
incarnation is in flight, and never by guessing.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import cast

from proxy import logs
from proxy.exchange import Exchange
from proxy.traffic.wire import FrameReader, Hello, WireError

logger = logging.getLogger("parhelion")

Reconcile = Callable[[str, int], Awaitable[None]]
Bury = Callable[[str], Awaitable[None]]


class Intake:
    """The queue.

    ``capacity`` in bytes of captured bodies; ``reconcile`` accounts for what an incarnation handed over on earlier connections, ``bury`` for
    all that a dead one had left.
    """

    def __init__(self, capacity: int, reconcile: Reconcile, bury: Bury) -> None:
        self.capacity = capacity
        self.waiting_bytes = 0
        self.in_flight: Counter[str] = Counter()
        self._reconcile, self._bury = reconcile, bury
        self._farewells: set[asyncio.Future[None]] = set()
        self._queue: deque[Exchange] = deque()
        self.arrived: Callable[[], None] = _nobody
        self._settled = asyncio.Event()
        self._lines: set[_Line] = set()
        self._closing = False

    def __len__(self) -> int:
        return len(self._queue)

    async def listen(self, path: Path) -> asyncio.Server:
        """Open the socket for business; replaces one that a dead judge left behind."""
        path.unlink(missing_ok=True)  # noqa: ASYNC240 - before anybody is served
        server = await asyncio.get_running_loop().create_unix_server(lambda: _Line(self), str(path))
        path.chmod(0o600)  # noqa: ASYNC240 - as above, one call
        return server

    def next(self) -> Exchange | None:
        """The next exchange, None while there is none."""
        if not self._queue:
            return None
        exchange = self._queue.popleft()
        self.waiting_bytes -= size_of(exchange)
        if self.waiting_bytes <= self.capacity // 2:
            for line in self._lines:
                line.resume()
        return exchange

    def settled(self, incarnation: str) -> None:
        """One exchange of this incarnation is in the store."""
        self.in_flight[incarnation] -= 1
        if not self.in_flight[incarnation]:
            del self.in_flight[incarnation]
            self._settled.set()

    def close(self) -> None:
        """Read no more; what waits is still taken."""
        self._closing = True
        for farewell in self._farewells:
            farewell.cancel()
        for line in list(self._lines):
            line.hang_up()

    def put(self, exchange: Exchange) -> bool:
        """Queue one exchange; False when its line should stop reading."""
        self.in_flight[exchange.incarnation] += 1
        self._queue.append(exchange)
        self.waiting_bytes += size_of(exchange)
        self.arrived()
        return self.waiting_bytes < self.capacity

    async def greet(self, hello: Hello) -> None:
        """Account for what this incarnation handed over on earlier connections."""
        await self._until_settled(hello.incarnation)
        await self._reconcile(hello.incarnation, hello.handed_over_before)

    async def _until_settled(self, incarnation: str) -> None:
        while self.in_flight[incarnation]:
            self._settled.clear()
            await self._settled.wait()

    async def _farewell(self, incarnation: str) -> None:
        await self._until_settled(incarnation)
        await self._bury(incarnation)

    def joined(self, line: _Line) -> None:
        """A traffic process connected."""
        self._lines.add(line)

    def left(self, line: _Line) -> None:
        """A traffic process hung up or died."""
        self._lines.discard(line)
        if line.incarnation is not None and not self._closing:
            farewell = asyncio.ensure_future(self._farewell(line.incarnation))
            self._farewells.add(farewell)
            farewell.add_done_callback(self._farewells.discard)


def _nobody() -> None:
    """Be told of an arrival before anybody works."""


def size_of(exchange: Exchange) -> int:
    """Bytes of captured bodies, which is what an exchange weighs."""
    return len(exchange.request_body) + sum(len(piece) for _, piece in exchange.pieces) + 1024


class _Line(asyncio.Protocol):
    """One traffic process's connection."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self.incarnation: str | None = None
        self._reader = FrameReader()
        self._transport: asyncio.Transport | None = None
        self._greeting: asyncio.Future[None] | None = None
        self._held: list[Exchange] = []
        self._full = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one in all but ancestry
        self._intake.joined(self)

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        try:
            frames = self._reader.feed(data)
        except WireError:
            logs.say(logger, logging.ERROR, "handoff_unreadable")
            self._transport.abort()
            return
        for frame in frames:
            match frame:
                case Hello():
                    self.incarnation = frame.incarnation
                    self._transport.pause_reading()
                    self._greeting = asyncio.ensure_future(self._greet(frame))
                case Exchange() if self._greeting is not None and not self._greeting.done():
                    self._held.append(frame)
                case Exchange():
                    self._put(frame)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - why does not matter
        self._transport = None
        self._intake.left(self)

    def resume(self) -> None:
        """There is room again."""
        if self._full and self._transport is not None:
            self._full = False
            self._transport.resume_reading()

    def hang_up(self) -> None:
        """The judge is stopping."""
        if self._transport is not None:
            self._transport.close()

    async def _greet(self, hello: Hello) -> None:
        await self._intake.greet(hello)
        held, self._held = self._held, []
        for exchange in held:
            self._put(exchange)
        if self._transport is not None and not self._full:
            self._transport.resume_reading()

    def _put(self, exchange: Exchange) -> None:
        if not self._intake.put(exchange) and not self._full and self._transport is not None:
            self._full = True
            self._transport.pause_reading()
