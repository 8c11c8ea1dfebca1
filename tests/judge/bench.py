"""A pipeline between fakes: exchanges that are there, shadows that answer when told to, comparing that takes as long as told, a store that may be slow."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable

from proxy.exchange import Ended, Exchange
from proxy.judge.case import Mirrored
from proxy.judge.desk import Done
from proxy.judge.pipeline import Pipeline
from proxy.judge.request import Asked
from proxy.ledger.record import Settlement


def exchange(number: int, size: int = 0) -> Exchange:
    pieces = ((1, bytes(size)),) if size else ()
    return Exchange(f"x{number}", "t0", 0.0, 0.5, "POST", "/v1/x", (), b"", 200, (), pieces, 0, 0, Ended.COMPLETE)


def burn(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


class Source:
    """Exchanges that are there."""

    def __init__(self, count: int = 0) -> None:
        self.arrived: Callable[[], None] = lambda: None
        self.waiting = [exchange(number) for number in range(count)]
        self.under_way = self.answered = 0

    def __len__(self) -> int:
        return len(self.waiting)

    def next(self) -> Exchange | None:
        return self.waiting.pop(0) if self.waiting else None


class Desk:
    """Shadows that answer when told to, and a comparison that takes as long as told."""

    def __init__(self, *, at_once: bool = False) -> None:
        self.at_once = at_once
        self.asked: list[tuple[Exchange, Callable[[Mirrored | Done], None]]] = []
        self.sends = 0  # bytes for each that is asked about
        self.go_on = asyncio.Event()
        self.judging = 0
        self.threads: set[str] = set()
        self.engines, self.takes = (
            True,
            0.0,
        )  # whether comparing asks engines, and seconds of processor time it takes otherwise

    def mirror(self, one: Exchange, then: Callable[[Mirrored | Done], None]) -> int:
        self.asked.append((one, then))
        if self.at_once:
            then(Mirrored(one))
        return self.sends

    @property
    def asks_no_more(self) -> bool:
        return not self.engines

    def judge_now(self, mirrored: Mirrored) -> Done:
        self.judging += 1
        burn(self.takes)
        self.threads.add(threading.current_thread().name)
        return self.instead(mirrored.exchange, "compared", "")

    async def judge(self, mirrored: Mirrored) -> Done:
        self.judging += 1
        await self.go_on.wait()
        return self.instead(mirrored.exchange, "compared", "")

    def instead(self, one: Exchange, outcome: str, reason: str, asked: Asked | None = None) -> Done:
        return Done((Settlement(one.id, "a", "free", outcome, reason),))


class Book:
    """A store that takes what it gets, or keeps it waiting."""

    def __init__(self, *, slow: bool = False) -> None:
        self.ends: Counter[tuple[str, str, str]] = Counter()
        self.settled = 0
        self.on_disk: set[str] = set()
        self.slow, self.waiting = slow, list[Callable[[], None]]()

    @property
    def backlog(self) -> int:
        return len(self.waiting)

    def hand_in(self, done: Done, exchange: Exchange, told: Callable[[], None]) -> None:
        assert exchange.incarnation == "t0"
        self.settled += 1
        self.ends.update((one.incarnation, one.outcome, one.reason) for one in done.settlements)
        if self.slow:
            self.waiting.append(told)
        else:
            told()

    def outlives_us(self, exchange: Exchange) -> bool:
        return exchange.id in self.on_disk

    def reasons(self) -> Counter[str]:
        assert set(self.ends.values()) <= {1}  # each exchange once
        return Counter(reason or outcome for _, outcome, reason in self.ends.elements())


class Bench:
    def __init__(
        self,
        count: int,
        *,
        at_once: int = 4,
        room: int = 1 << 30,
        under_way: int = 1 << 30,
        answers: bool = True,
        slow: bool = False,
    ) -> None:
        self.source, self.desk, self.book = Source(count), Desk(at_once=answers), Book(slow=slow)
        self.pipeline = Pipeline(self.source, self.desk, self.book, at_once=at_once, under_way=under_way, room=room)
        self.comparing = asyncio.ensure_future(self.pipeline.compare())

    async def close(self) -> None:
        self.comparing.cancel()
        await asyncio.gather(self.comparing, return_exceptions=True)
        await turns(3)
        if not self.pipeline.held:  # what has ended weighs nothing
            assert (self.source.under_way, self.source.answered) == (0, 0)


async def turns(count: int = 50) -> None:
    for _ in range(count):
        await asyncio.sleep(0)
