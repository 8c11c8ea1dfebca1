"""Mirroring goes on whatever comparing does, and each exchange is settled exactly once, however the judge ends."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Callable

import pytest

from proxy.exchange import Ended, Exchange
from proxy.judge.case import Mirrored
from proxy.judge.desk import Done
from proxy.judge.pipeline import Pipeline
from proxy.ledger.record import Settlement

WEIGHT = 1024  # of an exchange without bodies


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.judge.pipeline._GATHER", 0.0)


def exchange(number: int) -> Exchange:
    return Exchange(f"x{number}", "t0", 0.0, 0.5, "POST", "/v1/x", (), b"", 200, (), (), 0, 0, Ended.COMPLETE)


def burn(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


class Source:
    """Exchanges that are there."""

    def __init__(self, count: int = 0) -> None:
        self.arrived: Callable[[], None] = lambda: None
        self.waiting = [exchange(number) for number in range(count)]

    def next(self) -> Exchange | None:
        return self.waiting.pop(0) if self.waiting else None


class Desk:
    """Shadows that answer when told to, and a comparison that takes as long as told."""

    def __init__(self, *, at_once: bool = False) -> None:
        self.at_once = at_once
        self.asked: list[tuple[Exchange, Callable[[Mirrored | Done], None]]] = []
        self.go_on = asyncio.Event()
        self.judging = 0
        self.engines, self.takes = (
            True,
            0.0,
        )  # whether comparing asks engines, and seconds of processor time it takes otherwise

    def mirror(self, one: Exchange, then: Callable[[Mirrored | Done], None]) -> None:
        self.asked.append((one, then))
        if self.at_once:
            then(Mirrored(one))

    def judge_now(self, mirrored: Mirrored) -> Done | None:
        if self.engines:
            return None
        self.judging += 1
        burn(self.takes)
        return self.instead(mirrored.exchange, "compared", "")

    async def judge(self, mirrored: Mirrored) -> Done:
        self.judging += 1
        await self.go_on.wait()
        return self.instead(mirrored.exchange, "compared", "")

    def instead(self, one: Exchange, outcome: str, reason: str) -> Done:
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
        self, count: int, *, at_once: int = 4, room: int = 1 << 30, answers: bool = True, slow: bool = False
    ) -> None:
        self.source, self.desk, self.book = Source(count), Desk(at_once=answers), Book(slow=slow)
        self.pipeline = Pipeline(self.source, self.desk, self.book, at_once=at_once, room=room)
        self.comparing = asyncio.ensure_future(self.pipeline.compare())

    async def close(self) -> None:
        self.comparing.cancel()
        await asyncio.gather(self.comparing, return_exceptions=True)


async def turns(count: int = 50) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_all_is_mirrored_and_compared_and_settled_once() -> None:
    async def main() -> None:
        bench = Bench(100)
        bench.desk.go_on.set()
        bench.pipeline.pull()
        await bench.pipeline.finish(5.0)
        assert bench.book.reasons() == {"compared": 100}
        assert (bench.book.settled, bench.pipeline.held) == (100, 0)
        await bench.close()

    asyncio.run(main())


def test_no_more_are_asked_about_at_once_than_allowed() -> None:
    async def main() -> None:
        bench = Bench(10, answers=False)
        bench.pipeline.pull()
        assert len(bench.desk.asked) == 4
        one, then = bench.desk.asked[1]
        then(Mirrored(one))
        assert len(bench.desk.asked) == 5
        assert bench.pipeline.held == 5
        await bench.pipeline.finish(0.01)
        await bench.close()

    asyncio.run(main())


def test_what_arrives_later_is_taken_when_it_arrives() -> None:
    async def main() -> None:
        bench = Bench(0)
        bench.source.waiting.append(exchange(7))
        bench.source.arrived()
        assert [one.id for one, _ in bench.desk.asked] == ["x7"]
        await bench.pipeline.finish(0.01)
        await bench.close()

    asyncio.run(main())


def test_comparing_that_stands_still_stops_no_shadow_from_being_asked_and_is_counted() -> None:
    async def main() -> None:
        bench = Bench(500, at_once=2, room=10 * WEIGHT)
        bench.pipeline.pull()
        await turns()
        assert len(bench.desk.asked) == 500
        assert bench.desk.judging == 2
        busy = bench.book.reasons()["compare_busy"]
        assert busy == 500 - 10  # the first ten that came fill the queue; nothing ran while they came
        bench.desk.go_on.set()
        await bench.pipeline.finish(5.0)
        assert bench.book.reasons() == {"compare_busy": busy, "compared": 500 - busy}
        await bench.close()

    asyncio.run(main())


def test_one_that_is_larger_than_the_room_is_compared_when_nothing_else_waits() -> None:
    async def main() -> None:
        bench = Bench(1, room=WEIGHT // 2)
        bench.desk.go_on.set()
        bench.pipeline.pull()
        await bench.pipeline.finish(5.0)
        assert bench.book.reasons() == {"compared": 1}
        await bench.close()

    asyncio.run(main())


@pytest.mark.parametrize("engines", [False, True])
def test_the_loop_runs_between_two_comparisons_that_take_a_millisecond(engines: bool) -> None:
    async def main() -> None:
        bench = Bench(20, at_once=64)
        bench.desk.engines, bench.desk.takes = engines, 0.0015
        bench.desk.go_on.set()
        bench.pipeline.pull()
        seen = [0]
        async with asyncio.timeout(20):
            while seen[-1] < 20:
                await asyncio.sleep(0)
                seen.append(bench.desk.judging)
        steps = [after - before for before, after in itertools.pairwise(seen)]
        assert max(steps) == 1
        assert seen[-1] == 20
        await bench.close()

    asyncio.run(main())


def test_quick_comparisons_share_a_turn_of_the_loop() -> None:
    async def main() -> None:
        bench = Bench(100, at_once=64)
        bench.desk.engines = False
        bench.pipeline.pull()
        await turns(20)
        assert bench.book.reasons() == {"compared": 100}
        await bench.close()

    asyncio.run(main())


def test_a_store_that_is_slow_holds_comparing_back_before_it_holds_mirroring_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("proxy.judge.pipeline._RECORDS", 3)
    monkeypatch.setattr("proxy.judge.pipeline._COUNTS", 40)

    async def main() -> None:
        bench = Bench(500, at_once=2, room=10 * WEIGHT, slow=True)
        bench.desk.go_on.set()
        bench.pipeline.pull()
        await turns(200)
        assert bench.book.backlog >= 40
        assert len(bench.desk.asked) < 60  # what is handed over waits where it is bounded
        while bench.pipeline.held or bench.source.waiting:
            told, bench.book.waiting = bench.book.waiting, []
            for one in told:
                one()
            await turns(5)
        assert sum(bench.book.reasons().values()) == 500
        assert bench.book.settled == 500
        await bench.close()

    asyncio.run(main())


def test_what_is_left_at_the_end_is_shed_and_a_late_answer_changes_nothing() -> None:
    async def main() -> None:
        bench = Bench(50, at_once=3, answers=False)
        bench.pipeline.pull()
        one, then = bench.desk.asked[0]
        then(Mirrored(one))
        await turns()  # it is being compared; three more are asked about; the rest waits
        assert bench.desk.judging == 1
        await bench.pipeline.finish(0.02)
        assert bench.book.reasons() == {"shutdown": 50}
        for late, then in bench.desk.asked:
            then(Mirrored(late))
            then(bench.desk.instead(late, "incomparable", "judge_error"))
        await turns()
        assert bench.book.reasons() == {"shutdown": 50}
        assert bench.book.settled == 50
        await bench.close()

    asyncio.run(main())


def test_what_was_decided_without_asking_settles_at_once() -> None:
    async def main() -> None:
        bench = Bench(3000, answers=False)
        ends = bench.desk.instead

        def mirror(one: Exchange, then: Callable[[Mirrored | Done], None]) -> None:
            then(ends(one, "not_sampled", ""))

        bench.desk.mirror = mirror  # type: ignore[method-assign]
        bench.pipeline.pull()
        assert bench.book.reasons() == {"not_sampled": 3000}
        await bench.pipeline.finish(1.0)
        await bench.close()

    asyncio.run(main())


def test_what_is_kept_on_disk_is_left_to_the_next_life_and_not_shed() -> None:
    async def main() -> None:
        bench = Bench(20, at_once=3, answers=False)
        bench.book.on_disk = {f"x{number}" for number in range(0, 20, 2)}
        bench.pipeline.pull()
        for one, then in bench.desk.asked[:2]:
            then(Mirrored(one))
        await turns()
        await bench.pipeline.finish(0.02)
        assert bench.book.reasons() == {"shutdown": 10}
        assert not {f"x{number}" for number in range(0, 20, 2)} & {id_ for id_, _, _ in bench.book.ends}
        assert bench.pipeline.held == 0
        await bench.close()

    asyncio.run(main())


def test_what_is_switched_off_is_given_up_at_once_and_what_comes_is_not_asked_about() -> None:
    async def main() -> None:
        bench = Bench(10, answers=False)
        bench.pipeline.pull()
        assert len(bench.desk.asked) == 4
        for one, then in bench.desk.asked[:2]:
            then(Mirrored(one))
        await turns()
        assert (bench.desk.judging, len(bench.desk.asked)) == (2, 6)
        bench.pipeline.enable(False)
        await turns()
        assert bench.book.reasons() == {"kill_switch": 10}
        assert bench.pipeline.held == 0
        for one, then in bench.desk.asked:
            then(Mirrored(one))  # what comes late changes nothing
        bench.pipeline.enable(True)
        bench.source.waiting = [exchange(100)]
        bench.source.arrived()
        assert len(bench.desk.asked) == 7
        await bench.pipeline.finish(0.01)
        assert bench.book.reasons() == {"kill_switch": 10, "shutdown": 1}
        await bench.close()

    asyncio.run(main())


def test_an_exchange_ends_at_the_desk_where_it_began() -> None:
    async def main() -> None:
        bench = Bench(3, at_once=2, answers=False)
        bench.pipeline.pull()
        later = Desk()
        later.go_on.set()
        bench.pipeline.configure(later, at_once=8, room=1 << 30)
        assert (len(bench.desk.asked), len(later.asked)) == (2, 1)
        assert bench.pipeline.busy(bench.desk)
        bench.desk.go_on.set()
        for one, then in [*bench.desk.asked, *later.asked]:
            then(Mirrored(one))
        await bench.pipeline.finish(5.0)
        assert (bench.desk.judging, later.judging) == (2, 1)
        assert not bench.pipeline.busy(bench.desk)
        assert bench.book.reasons() == {"compared": 3}
        await bench.close()

    asyncio.run(main())


def test_a_comparison_that_is_given_up_before_it_began_is_settled_too() -> None:
    async def main() -> None:
        bench = Bench(1)
        bench.comparing.cancel()
        await turns()
        bench.pipeline.pull()
        comparing = asyncio.ensure_future(bench.pipeline.compare())
        asyncio.get_running_loop().call_soon(bench.pipeline.enable, False)
        await turns()
        assert bench.book.reasons() == {"kill_switch": 1}
        comparing.cancel()
        await bench.close()

    asyncio.run(main())
