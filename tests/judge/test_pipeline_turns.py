"""Comparing leaves the event loop its turns: between two comparisons, and beside a large one."""

from __future__ import annotations

import asyncio
import itertools
import threading

import pytest

from tests.judge.bench import Bench, exchange, turns


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.judge.pipeline._GATHER", 0.0)


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


def test_a_large_exchange_is_compared_beside_the_loop_which_goes_on() -> None:
    async def main() -> None:
        bench = Bench(0, at_once=64)
        bench.desk.engines, bench.desk.takes = False, 0.2
        bench.source.waiting.append(exchange(1, size=1 << 17))
        bench.source.arrived()
        turned = 0
        async with asyncio.timeout(20):
            while bench.pipeline.held:
                await asyncio.sleep(0)
                turned += bench.desk.judging
        assert turned > 20  # while it was being compared; on the loop it would be none
        assert threading.current_thread().name not in bench.desk.threads
        assert bench.book.reasons() == {"compared": 1}
        await bench.close()

    asyncio.run(main())


def test_a_large_exchange_that_is_still_being_compared_at_the_end_is_shed_once() -> None:
    async def main() -> None:
        bench = Bench(0, at_once=64)
        bench.desk.engines, bench.desk.takes = False, 0.3
        bench.source.waiting += [exchange(number, size=1 << 17) for number in range(3)]
        bench.source.arrived()
        async with asyncio.timeout(20):
            while not bench.desk.judging:  # noqa: ASYNC110 - the thread has no event for it
                await asyncio.sleep(0.001)
        await bench.pipeline.finish(0.01)
        assert bench.book.reasons() == {"shutdown": 3}
        await asyncio.sleep(0.5)
        assert bench.book.reasons() == {"shutdown": 3}
        assert bench.desk.judging == 1  # those that had not begun never do
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
