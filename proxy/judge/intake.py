"""Where exchanges come in: the unix socket that traffic processes connect to, and the bounded queue behind it.

House rules. When the queue is full the sockets are not read, so that the traffic processes' own bounded queues fill and they shed; nothing is
dropped here. What an earlier connection handed over and nobody has is found by arithmetic, and never by guessing; so a traffic process is
heard on its newest connection alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import cast

from proxy import logs
from proxy.counters import Receipt
from proxy.exchange import Exchange
from proxy.traffic.wire import FrameReader, Hello, Payload, WireError

logger = logging.getLogger("parhelion")

Took = Callable[[Sequence[Exchange], Sequence[Payload]], Sequence[Exchange]]
Reconcile = Callable[[str, int], Awaitable[None]]
Bury = Callable[[str], Awaitable[None]]

_LUMP = 64 << 10  # what the judge holds is told when it has changed by so much
#: What a piece takes beside its bytes: the header of a bytes object, a tuple of two, an int and a place in a tuple (CPython 3.11).
_PIECE = 33 + 56 + 28 + 8


class Intake:
    """The queue.

    ``capacity`` in bytes of captured bodies, of what waits here and what is ``under_way`` together; ``counters`` is the directory of the traffic
    processes' counters, where what has been taken is acknowledged and what is held is told: it takes the room of what waits over there.
    Whoever takes exchanges keeps ``under_way`` (bytes of what is asked about or being compared) and ``answered`` (of what waits to be compared) up to date; ``took`` hears of all that comes, before anything is done with it and as it came (the payloads
    of its frames) and says what of it is new, ``reconcile`` accounts for what an incarnation handed over on earlier connections, ``bury`` for all that a dead one had left.
    """

    def __init__(self, capacity: int, counters: Path, took: Took, reconcile: Reconcile, bury: Bury) -> None:
        self.capacity = capacity
        self.counters = counters
        self.waiting_bytes = self.under_way = self.answered = 0
        self._told = 0
        self.arrived: Callable[[], None] = _nobody
        self._took, self._reconcile, self._bury = took, reconcile, bury
        self._farewells: dict[asyncio.Future[None], str] = {}
        self._queue: deque[tuple[int, Exchange]] = deque()  # with its weight
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
        exchange = None
        if self._queue:
            weight, exchange = self._queue.popleft()
            self.waiting_bytes -= weight
        if not self.crowded:
            for line in self._lines:
                line.resume()
        if abs(self.held - self._told) >= _LUMP:
            self._tell()
        return exchange

    @property
    def held(self) -> int:
        """Bytes that the judge holds."""
        return self.waiting_bytes + self.under_way + self.answered

    @property
    def crowded(self) -> bool:
        """Whether half of the room is taken that what is under way leaves here, or none is left."""
        return self.waiting_bytes * 2 >= self.capacity - self.under_way

    def _tell(self) -> None:
        """Tell the traffic processes what is held here, each its part."""
        self._told = self.held
        part = self._told // max(1, len(self._lines))
        for line in self._lines:
            line.tell(part)

    def close(self) -> None:
        """Read no more; what waits is still taken."""
        self._closing = True
        for farewell in self._farewells:
            farewell.cancel()
        for line in list(self._lines):
            line.hang_up()

    def put(
        self, exchanges: Sequence[Exchange], payloads: Sequence[Payload], acknowledge: Callable[[int], None]
    ) -> bool:
        """Queue what has come; False when its line should stop reading.

        It is acknowledged before anything is done with it: a judge that is killed over it has it on disk, and is not to be sent it again.
        """
        fresh = self._took(exchanges, payloads)
        acknowledge(len(exchanges))
        for exchange in fresh:
            self.put_back(exchange)
        self._tell()
        return self.waiting_bytes + self.under_way < self.capacity

    def put_back(self, exchange: Exchange) -> None:
        """Queue what had been taken before, in this life or an earlier one."""
        weight = size_of(exchange)
        self._queue.append((weight, exchange))
        self.waiting_bytes += weight
        self.arrived()

    async def greet(self, hello: Hello, line: _Line) -> None:
        """Account for what this incarnation handed over on earlier connections; what is still unread of those is lost with them."""
        for other in list(self._lines):
            if other is not line and other.incarnation == hello.incarnation:
                other.give_up()
        receipt = self.receipt(hello.incarnation)
        if receipt is None:
            line.give_up()
            return
        line.acknowledge_to(receipt, hello.handed_over_before)
        await self._reconcile(hello.incarnation, hello.handed_over_before)

    def receipt(self, incarnation: str) -> Receipt | None:
        """Where to acknowledge; None when its counters cannot be had: what came would come again with the next connection."""
        try:
            return Receipt(self.counters / f"{incarnation}.bin")
        except (OSError, ValueError):
            logs.say(logger, logging.ERROR, "handoff_not_acknowledged", incarnation=incarnation)
            return None

    def connected(self) -> set[str]:
        """Incarnations from which something may still come, or that are being accounted for."""
        return {line.incarnation for line in self._lines if line.incarnation is not None} | {*self._farewells.values()}

    def joined(self, line: _Line) -> None:
        """A traffic process connected."""
        self._lines.add(line)

    def left(self, line: _Line) -> None:
        """A traffic process hung up or died."""
        self._lines.discard(line)
        if line.incarnation is not None and not self._closing:
            farewell = asyncio.ensure_future(self._farewell(line, line.incarnation))
            self._farewells[farewell] = line.incarnation
            farewell.add_done_callback(self._farewells.pop)

    async def _farewell(self, line: _Line, incarnation: str) -> None:
        await line.greeted()
        await self._bury(incarnation)


def _nobody() -> None:
    """Be told of an arrival before anybody works."""


def size_of(exchange: Exchange) -> int:
    """Bytes of captured bodies and of the objects that hold them, which is what an exchange weighs: a stream is a thousand small pieces."""
    pieces = exchange.pieces
    return len(exchange.request_body) + sum([len(piece) for _, piece in pieces]) + len(pieces) * _PIECE + 1024


class _Line(asyncio.Protocol):
    """One traffic process's connection."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self.incarnation: str | None = None
        self._reader = FrameReader()
        self._transport: asyncio.Transport | None = None
        self._greeting: asyncio.Future[None] | None = None
        self._held: tuple[list[Exchange], list[Payload]] = [], []
        self._full = False
        self._given_up = False
        self._receipt: Receipt | None = None
        self._again = 0  # frames to come that an earlier connection had brought already

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one in all but ancestry
        self._intake.joined(self)

    def data_received(self, data: bytes) -> None:
        if self._transport is None or self._given_up:
            return
        try:
            frames = self._reader.feed(data)
        except WireError:
            logs.say(logger, logging.ERROR, "handoff_unreadable")
            self._transport.abort()
            return
        payloads, self._reader.payloads = self._reader.payloads, []  # they keep what was read
        if frames and isinstance(hello := frames[0], Hello):
            frames, payloads = frames[1:], payloads[1:]
            self.incarnation = hello.incarnation
            self._transport.pause_reading()
            self._greeting = asyncio.ensure_future(self._greet(hello))
        exchanges = cast("list[Exchange]", frames)
        if self._greeting is not None and not self._greeting.done():
            self._held[0].extend(exchanges)
            self._held[1].extend(payloads)
        elif exchanges:
            self._put(exchanges, payloads)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - why does not matter
        self._transport = None
        self._intake.left(self)
        if self._receipt is not None and self._greeting is not None and self._greeting.done():
            self._receipt.close()
            self._receipt = None

    async def greeted(self) -> None:
        """Wait until what it sent while it was being greeted is queued."""
        if self._greeting is not None:
            await asyncio.wait([self._greeting])

    def resume(self) -> None:
        """There is room again."""
        if self._full and self._transport is not None:
            self._full = False
            self._transport.resume_reading()

    def hang_up(self) -> None:
        """The judge is stopping.

        What came while its sender was being greeted is taken before: once we have hung up, the sender takes back and sheds what was not acknowledged,
        and what is kept as well would count twice.
        """
        held, self._held = self._held, ([], [])
        if held[0] and self._receipt is not None and not self._given_up:
            self._put(*held)
        if self._greeting is not None and not self._greeting.done():
            self._given_up = True
        if self._transport is not None:
            self._transport.close()

    def give_up(self) -> None:
        """Take nothing more from here: its traffic process has another connection."""
        self._given_up = True
        if self._transport is not None:
            self._transport.abort()

    def tell(self, held: int) -> None:
        """Say what of the judge's memory counts against that process's limit."""
        if self._receipt is not None:
            self._receipt.holding(held)

    def acknowledge_to(self, receipt: Receipt, before: int) -> None:
        """Acknowledge there from now on. What was acknowledged beyond ``before`` came when its sender had already taken it back, and comes again."""
        self._receipt = receipt
        self._again = max(0, receipt.count - before)

    async def _greet(self, hello: Hello) -> None:
        await self._intake.greet(hello, self)
        held, self._held = self._held, ([], [])
        if self._given_up:
            return
        if held[0]:
            self._put(*held)
        if self._transport is not None and not self._full:
            self._transport.resume_reading()

    def _put(self, exchanges: list[Exchange], payloads: list[Payload]) -> None:
        known = min(self._again, len(exchanges))
        self._again -= known
        room = self._intake.put(exchanges[known:], payloads[known:], self._acknowledge)
        if not room and not self._full and self._transport is not None:
            self._full = True
            self._transport.pause_reading()

    def _acknowledge(self, exchanges: int) -> None:
        if self._receipt is not None:
            self._receipt.count += exchanges
