"""The way of an exchange through the judge: mirrored as it comes, compared when there is time, settled once.

House rules. Asking the shadows never waits for comparing: what has been answered waits in a queue of bounded bytes, and what does not fit is dropped
and counted (``shed{compare_busy}``). The event loop looks at its sockets after each millisecond of comparing, or one comparison if that takes longer. Whatever has been taken from the intake is
settled exactly once, by whoever takes it out of the table it is in, and weighs in the sums of bytes as long as it is there. An exchange is worked on at one desk from its beginning to its end, whatever is
configured meanwhile.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Protocol

from proxy.exchange import Exchange
from proxy.judge.case import Mirrored
from proxy.judge.cpu import COMPARE, COMPARE_ASIDE
from proxy.judge.desk import Done
from proxy.judge.guard import KILL_SWITCH
from proxy.judge.intake import size_of
from proxy.judge.request import Asked
from proxy.judge.stepped import stepped

#: Settlements that may wait for the store: records are large, and the counts of what was dropped are small but may be many.
_RECORDS, _COUNTS = 256, 16384
_HOLD = 0.001  # seconds of comparing after which the event loop has its turn
_LARGE = 1 << 16  # bytes; what weighs more may take many milliseconds, and is compared on a thread of its own
_GATHER = 0.01  # seconds in which exchanges gather to be compared in one go: nobody waits for it, and each turn costs
_SHUTDOWN = "shutdown"


class Source(Protocol):
    """Where exchanges come from; ``arrived`` is called when there is one. We tell it what bytes of its exchanges we hold, see ``Intake``."""

    arrived: Callable[[], None]
    under_way: int
    answered: int

    def __len__(self) -> int:
        """How many there are."""

    def next(self) -> Exchange | None:
        """The next one, None while there is none."""


class Worker(Protocol):
    """What is done with an exchange; see ``Desk``."""

    def mirror(self, exchange: Exchange, then: Callable[[Mirrored | Done], None]) -> int:
        """Ask the shadows; returns the bytes held to be sent."""

    @property
    def asks_no_more(self) -> bool:
        """Whether comparing asks no engine."""

    def judge_now(self, mirrored: Mirrored) -> Done:
        """Compare where it asks no engine; from any thread."""

    async def judge(self, mirrored: Mirrored) -> Done:
        """Compare, asking engines."""

    def instead(self, exchange: Exchange, outcome: str, reason: str, asked: Asked | None = None) -> Done:
        """Give up. ``asked``: its request, where it was read already."""


class Book(Protocol):
    """Where settlements go; see ``Ledger``."""

    @property
    def backlog(self) -> int:
        """How many wait to be written."""

    def hand_in(self, done: Done, exchange: Exchange, told: Callable[[], None]) -> None:
        """Settle; ``told`` when it is in the store."""

    def outlives_us(self, exchange: Exchange) -> bool:
        """Whether a later life will take an exchange up that we leave unsettled."""


@dataclass(slots=True)
class _Work:
    """An exchange, the desk at which it is worked on, and the bytes held for it."""

    exchange: Exchange
    desk: Worker
    weight: int = 0


class Pipeline:
    """The table of what is under way, and the queue of what waits to be compared.

    ``at_once``: exchanges asked about at once, and as many compared that wait for an engine; ``under_way``: bytes that all those may take (but one alone may
    take more); ``room``: bytes that may wait to be compared.
    """

    def __init__(self, source: Source, desk: Worker, ledger: Book, *, at_once: int, under_way: int, room: int) -> None:
        self._source, self._desk, self._ledger = source, desk, ledger
        self._at_once, self._under_way, self._room = at_once, under_way, room
        self._asking: dict[int, _Work] = {}
        self._queue: deque[tuple[_Work, Mirrored]] = deque()
        self._aside = ThreadPoolExecutor(1, "compare")
        self._judging: dict[asyncio.Task[None], _Work] = {}
        self._open: Counter[int] = Counter()  # exchanges not yet settled, by desk
        self._taken = 0
        self._enabled, self._why = True, _SHUTDOWN
        self.holding = False  # nothing is taken; set it and call ``pull`` when it is cleared
        self._pulling = self._stopping = False
        self._wake, self._empty = asyncio.Event(), asyncio.Event()
        source.arrived = self.pull

    def configure(self, desk: Worker, *, at_once: int, under_way: int, room: int) -> None:
        """Work on what is taken from now on at another desk, within other bounds."""
        self._desk, self._at_once, self._under_way, self._room = desk, at_once, under_way, room
        self._wake.set()
        self.pull()

    def enable(self, enabled: bool) -> None:
        """Ask shadows or not. Not: what is under way is given up, and so is what comes, each counted."""
        self._enabled = enabled
        if not enabled:
            self._give_up(KILL_SWITCH)
            self.pull()

    def busy(self, desk: Worker) -> bool:
        """Whether something is still worked on at a desk."""
        return self._open[id(desk)] > 0

    @property
    def held(self) -> int:
        """Exchanges taken and not yet settled."""
        return self._open.total()

    def pull(self) -> None:
        """Take and mirror what has come, as far as there is room."""
        if self._pulling or self.holding:
            return  # held, or asked again by something that ended at once: the loop below goes on
        self._pulling = True
        while self._may_ask() and self._ledger.backlog < _COUNTS and not self._stopping:
            exchange = self._source.next()  # it looks for room even if it has none
            if exchange is None:
                break
            work = self._take(exchange)
            if self._enabled:
                self._ask(work, self._taken)
            else:
                self._drop(work, KILL_SWITCH)
        self._pulling = False

    def _ask(self, work: _Work, number: int) -> None:
        self._asking[number] = work
        work.weight = size_of(work.exchange)
        self._source.under_way += work.weight
        sent = work.desk.mirror(work.exchange, partial(self._mirrored, number))
        if number in self._asking:
            work.weight += sent
            self._source.under_way += sent

    def _may_ask(self) -> bool:
        """Whether there is a place for one more exchange.

        Where there is a single place, an exchange keeps it until it is settled: stepwise scoring reads an engine's cache as its own answer
        has left it, and another's answer in between would have every step evaluate the prompt anew, in other arithmetic.
        """
        if self._at_once == 1 and not self._desk.asks_no_more:
            return not self._open
        return len(self._asking) < self._at_once and (self._source.under_way < self._under_way or not self._asking)

    def _take(self, exchange: Exchange) -> _Work:
        self._taken += 1
        self._open[id(self._desk)] += 1
        return _Work(exchange, self._desk)

    def _mirrored(self, number: int, came: Mirrored | Done) -> None:
        work = self._asking.pop(number, None)
        if work is None:
            return  # settled without it
        self._source.under_way -= work.weight
        if isinstance(came, Done):
            self._settle(work, came)
        else:
            work.weight = came.weight()
            if self._queue and self._source.answered + work.weight > self._room:
                self._settle(work, work.desk.instead(work.exchange, "shed", "compare_busy", came.asked))
            else:
                self._queue.append((work, came))
                self._source.answered += work.weight
                self._wake.set()
        self.pull()

    async def compare(self) -> None:
        """Have what waits compared, for ever; the loop runs after each millisecond of it."""
        while True:
            while not self._may_compare():
                self._wake.clear()
                await self._wake.wait()
            await asyncio.sleep(_GATHER)
            while self._may_compare():
                self._compare_some()
                await asyncio.sleep(0)

    def _may_compare(self) -> bool:
        return bool(self._queue) and len(self._judging) < self._at_once and self._ledger.backlog < _RECORDS

    def _compare_some(self) -> None:
        """Compare for a millisecond, or one exchange if that takes longer."""
        until = monotonic() + _HOLD
        with COMPARE:
            while self._may_compare():
                work, mirrored = self._queue.popleft()
                self._source.answered -= work.weight
                if work.weight > _LARGE or not work.desk.asks_no_more:
                    task = asyncio.ensure_future(self._judged(work, mirrored))
                    self._judging[task] = work
                    self._source.under_way += work.weight
                    task.add_done_callback(self._over)
                    return
                self._settle(work, work.desk.judge_now(mirrored))
                if monotonic() > until:
                    return

    async def _judged(self, work: _Work, mirrored: Mirrored) -> None:
        try:
            if work.desk.asks_no_more:
                loop = asyncio.get_running_loop()
                done = await loop.run_in_executor(self._aside, _judged_aside, work.desk, mirrored)
            else:
                done = await stepped(work.desk.judge(mirrored), COMPARE)
        except asyncio.CancelledError:
            self._drop(work, self._why)
        else:
            self._settle(work, done)

    def _over(self, task: asyncio.Task[None]) -> None:
        work = self._judging.pop(task)
        self._source.under_way -= work.weight
        if task.cancelled():  # before it began, so that it could not see to it itself
            self._drop(work, self._why)
        self._wake.set()

    def _settle(self, work: _Work, done: Done) -> None:
        self._ledger.hand_in(done, work.exchange, partial(self._settled, id(work.desk)))

    def _drop(self, work: _Work, why: str) -> None:
        """Shed it, unless we stop and it is kept for the next life."""
        if why == _SHUTDOWN and self._ledger.outlives_us(work.exchange):
            self._settled(id(work.desk))
        else:
            self._settle(work, work.desk.instead(work.exchange, "shed", why))

    def _settled(self, desk: int) -> None:
        self._open[desk] -= 1
        if not self._open[desk]:
            del self._open[desk]
        if self._queue:
            self._wake.set()
        self.pull()
        if not self._open:
            self._empty.set()

    def _give_up(self, why: str) -> None:
        """Settle what is asked about and what waits; what is being compared settles itself as soon as it runs."""
        self._why = why
        for task in self._judging:
            task.cancel()
        left = [*self._asking.values(), *(work for work, _ in self._queue)]
        self._source.under_way -= sum(work.weight for work in self._asking.values())
        self._source.answered = 0
        self._asking.clear()
        self._queue.clear()
        for work in left:
            self._drop(work, why)

    async def finish(self, seconds: float) -> None:
        """Work on for so long at most; what is left then is shed, or left to a later life."""
        try:
            async with asyncio.timeout(seconds):
                self.pull()
                while self._open:
                    self._empty.clear()
                    await self._empty.wait()
        except TimeoutError:
            pass
        self._stopping = True
        self._give_up(_SHUTDOWN)
        self._aside.shutdown(wait=False, cancel_futures=True)
        await asyncio.gather(*self._judging, return_exceptions=True)
        while (exchange := self._source.next()) is not None:
            self._drop(self._take(exchange), _SHUTDOWN)


def _judged_aside(desk: Worker, mirrored: Mirrored) -> Done:
    with COMPARE_ASIDE:
        return desk.judge_now(mirrored)
