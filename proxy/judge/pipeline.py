"""The way of an exchange through the judge: mirrored as it comes, compared when there is time, settled once.

House rules. Asking the shadows never waits for comparing: what has been answered waits in a queue of bounded bytes, and what does not fit is dropped
and counted (``shed{compare_busy}``). The event loop looks at its sockets after each millisecond of comparing, or one comparison if that takes longer. Whatever has been taken from the intake is
settled exactly once, by whoever takes it out of the table it is in.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

from proxy.exchange import Exchange
from proxy.judge.case import Mirrored
from proxy.judge.cpu import COMPARE
from proxy.judge.desk import Done
from proxy.judge.stepped import stepped

#: Settlements that may wait for the store: records are large, and the counts of what was dropped are small but may be many.
_RECORDS, _COUNTS = 256, 16384
_HOLD = 1_000_000  # ns of comparing after which the event loop has its turn


class Source(Protocol):
    """Where exchanges come from; ``arrived`` is called when there is one."""

    arrived: Callable[[], None]

    def next(self) -> Exchange | None:
        """The next one, None while there is none."""

    def settled(self, incarnation: str) -> None:
        """One is in the store."""


class Worker(Protocol):
    """What is done with an exchange; see ``Desk``."""

    def mirror(self, exchange: Exchange, then: Callable[[Mirrored | Done], None]) -> None:
        """Ask the shadows."""

    def judge_now(self, mirrored: Mirrored) -> Done | None:
        """Compare, None where an engine has to be asked for it."""

    async def judge(self, mirrored: Mirrored) -> Done:
        """Compare, asking engines."""

    def instead(self, exchange: Exchange, outcome: str, reason: str) -> Done:
        """Give up."""


class Book(Protocol):
    """Where settlements go; see ``Ledger``."""

    @property
    def backlog(self) -> int:
        """How many wait to be written."""

    def hand_in(self, done: Done, told: Callable[[], None]) -> None:
        """Settle; ``told`` when it is in the store."""


class Pipeline:
    """``at_once``: exchanges asked about at once, and as many compared that wait for an engine; ``room``: bytes that may wait to be compared."""

    def __init__(self, source: Source, desk: Worker, ledger: Book, *, at_once: int, room: int) -> None:
        self._source, self._desk, self._ledger = source, desk, ledger
        self._at_once, self._room = at_once, room
        self._asking: dict[int, Exchange] = {}
        self._queue: deque[tuple[int, Mirrored]] = deque()  # with its weight
        self._queued = 0  # bytes
        self._judging: set[asyncio.Task[None]] = set()
        self._unsettled = 0
        self._taken = 0
        self._pulling = self._stopping = False
        self._wake, self._empty = asyncio.Event(), asyncio.Event()
        source.arrived = self.pull

    @property
    def held(self) -> int:
        """Exchanges taken and not yet settled."""
        return self._unsettled

    def pull(self) -> None:
        """Take and mirror what has come, as far as there is room."""
        if self._pulling:
            return  # asked again by something that ended at once: the loop below goes on
        self._pulling = True
        while len(self._asking) < self._at_once and self._ledger.backlog < _COUNTS and not self._stopping:
            exchange = self._source.next()
            if exchange is None:
                break
            self._taken += 1
            self._unsettled += 1
            self._asking[self._taken] = exchange
            self._desk.mirror(exchange, partial(self._mirrored, self._taken))
        self._pulling = False

    def _mirrored(self, number: int, came: Mirrored | Done) -> None:
        exchange = self._asking.pop(number, None)
        if exchange is None:
            return  # settled without it
        if isinstance(came, Done):
            self._settle(exchange, came)
        else:
            weight = came.weight()
            if self._queue and self._queued + weight > self._room:
                self._settle(exchange, self._desk.instead(exchange, "shed", "compare_busy"))
            else:
                self._queue.append((weight, came))
                self._queued += weight
                self._wake.set()
        self.pull()

    async def compare(self) -> None:
        """Have one exchange after another compared, for ever; the loop runs after each millisecond of it."""
        since = COMPARE.spent
        while True:
            while not self._queue or len(self._judging) >= self._at_once or self._ledger.backlog >= _RECORDS:
                self._wake.clear()
                await self._wake.wait()
            weight, mirrored = self._queue.popleft()
            self._queued -= weight
            with COMPARE:
                done = self._desk.judge_now(mirrored)
            if done is not None:
                self._settle(mirrored.exchange, done)
            else:
                task = asyncio.ensure_future(self._judged(mirrored))
                self._judging.add(task)
                task.add_done_callback(self._over)
            if done is None or COMPARE.spent - since > _HOLD:
                await asyncio.sleep(0)
                since = COMPARE.spent

    async def _judged(self, mirrored: Mirrored) -> None:
        exchange = mirrored.exchange
        try:
            done = await stepped(self._desk.judge(mirrored), COMPARE)
        except asyncio.CancelledError:
            done = self._desk.instead(exchange, "shed", "shutdown")
        self._settle(exchange, done)

    def _over(self, task: asyncio.Task[None]) -> None:
        self._judging.discard(task)
        self._wake.set()

    def _settle(self, exchange: Exchange, done: Done) -> None:
        self._ledger.hand_in(done, partial(self._settled, exchange.incarnation))

    def _settled(self, incarnation: str) -> None:
        self._unsettled -= 1
        self._source.settled(incarnation)
        self._wake.set()
        self.pull()
        if not self._unsettled:
            self._empty.set()

    async def finish(self, seconds: float) -> None:
        """Work on for so long at most; what is left then is shed."""
        try:
            async with asyncio.timeout(seconds):
                self.pull()
                while self._unsettled:
                    self._empty.clear()
                    await self._empty.wait()
        except TimeoutError:
            pass
        self._stopping = True
        for task in self._judging:
            task.cancel()
        await asyncio.gather(*self._judging, return_exceptions=True)
        left = [*self._asking.values(), *(mirrored.exchange for _, mirrored in self._queue)]
        self._asking.clear()
        self._queue.clear()
        while (exchange := self._source.next()) is not None:
            self._unsettled += 1
            left.append(exchange)
        for exchange in left:
            self._settle(exchange, self._desk.instead(exchange, "shed", "shutdown"))
