"""Mirroring goes on whatever comparing does, and each exchange is settled exactly once, however the judge ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from proxy.exchange import Exchange
from proxy.judge.case import Mirrored
from proxy.judge.desk import Done
from tests.judge.bench import Bench, Desk, exchange, turns

WEIGHT = 1024  # of an exchange without bodies


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.judge.pipeline._GATHER", 0.0)


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


def test_what_is_asked_about_is_bounded_by_the_bytes_that_it_takes() -> None:
    async def main() -> None:
        bench = Bench(10, under_way=10_000, answers=False)
        bench.desk.sends = 4000 - WEIGHT
        bench.pipeline.pull()
        assert len(bench.desk.asked) == 3  # the third begins below the bound, and is the last
        assert bench.source.under_way == 12_000
        one, then = bench.desk.asked[0]
        then(bench.desk.instead(one, "incomparable", "shadow_error"))
        assert (len(bench.desk.asked), bench.source.under_way) == (4, 12_000)
        await bench.pipeline.finish(0.01)
        assert bench.pipeline.held == 0
        await bench.close()

    asyncio.run(main())


def test_one_that_takes_more_than_all_may_is_asked_about_alone() -> None:
    async def main() -> None:
        bench = Bench(3, under_way=WEIGHT // 2, answers=False)
        bench.pipeline.pull()
        for asked in range(1, 4):
            assert len(bench.desk.asked) == asked
            one, then = bench.desk.asked[-1]
            then(bench.desk.instead(one, "incomparable", "shadow_error"))
        assert bench.book.reasons() == {"shadow_error": 3}
        await bench.close()

    asyncio.run(main())


def test_what_is_being_compared_weighs_until_it_is_over() -> None:
    async def main() -> None:
        bench = Bench(4, at_once=2, under_way=3 * WEIGHT)
        bench.pipeline.pull()
        assert (bench.source.under_way, bench.source.answered) == (0, 4 * WEIGHT)
        await turns()
        assert (bench.desk.judging, bench.source.under_way, bench.source.answered) == (2, 2 * WEIGHT, 2 * WEIGHT)
        bench.desk.go_on.set()
        await bench.pipeline.finish(5.0)
        assert bench.book.reasons() == {"compared": 4}
        await bench.close()

    asyncio.run(main())


def test_a_single_place_is_kept_until_all_is_settled() -> None:
    async def main() -> None:
        bench = Bench(3, at_once=1)
        bench.pipeline.pull()
        await turns()
        assert (len(bench.desk.asked), bench.desk.judging) == (1, 1)  # answered, and being scored step by step
        bench.desk.go_on.set()
        await bench.pipeline.finish(5.0)
        assert bench.book.reasons() == {"compared": 3}
        await bench.close()

    asyncio.run(main())


def test_a_single_place_is_free_again_once_shadows_have_answered_where_no_engine_is_asked_later() -> None:
    async def main() -> None:
        bench = Bench(3, at_once=1)
        bench.desk.engines = False
        bench.pipeline.pull()
        assert (len(bench.desk.asked), bench.desk.judging) == (3, 0)
        await bench.pipeline.finish(5.0)
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

        def mirror(one: Exchange, then: Callable[[Mirrored | Done], None]) -> int:
            then(ends(one, "not_sampled", ""))
            return 0

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
        bench.pipeline.configure(later, at_once=8, under_way=1 << 30, room=1 << 30)
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
