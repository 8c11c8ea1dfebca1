"""The judge's hold on the store: what is in its hands is neither lost nor settled."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

from proxy.config import Config, Primary, Records, Shadow, Spool
from proxy.counters import Counters, Slot
from proxy.exchange import Ended, Exchange
from proxy.judge.desk import Done
from proxy.judge.ledger import Ledger
from proxy.judge.spool import Spool as Disk
from proxy.ledger.judge_metrics import JudgeMetrics
from proxy.ledger.record import Settlement
from proxy.ledger.store_error import StoreError
from proxy.traffic.wire import encode_frame

DONE = Done((Settlement("t0", "a", "free", "incomparable", "endpoint"),))


def exchange(number: int) -> Exchange:
    return Exchange(
        f"x{number}", "t0", 0.0, 0.5, "POST", "/v1/x", (), b"?" * 100, 200, (), (), 0, 0, Ended.COMPLETE
    )  # fmt: skip


def config(tmp_path: Path, *names: str) -> Config:
    shadows = tuple(Shadow(name, f"http://{name}", modes=("free",)) for name in names)
    return Config(
        primary=Primary(url="http://p"),
        shadows=shadows,
        state=str(tmp_path),
        records=Records(url=f"sqlite:///{tmp_path / 'r.db'}"),
    )


async def settle(ledger: Ledger, one: Exchange | None = None) -> None:
    told = asyncio.Event()
    ledger.hand_in(DONE, one or exchange(0), told.set)
    async with asyncio.timeout(20):
        await told.wait()


def test_what_is_in_hand_is_reconciled_neither_as_lost_nor_twice(tmp_path: Path) -> None:
    async def main() -> None:
        settings = config(tmp_path, "a")
        ledger = Ledger(settings, JudgeMetrics(settings))
        await ledger.reconcile_all(tmp_path)
        writing = asyncio.ensure_future(ledger.run())
        for _ in range(5):
            ledger.took([exchange(0)], [b""])
        await settle(ledger)
        await settle(ledger)
        assert ledger.in_flight == {"t0": 3}
        await ledger.reconcile("t0", 9)  # 5 were taken: 4 were lost on the way
        counts = {key.reason: n for key, n in ledger.store.counts().items()}
        assert counts == {"endpoint": 2, "lost_on_crash": 4}
        await asyncio.gather(*(settle(ledger) for _ in range(3)), ledger.reconcile("t0", 9))
        counts = {key.reason: n for key, n in ledger.store.counts().items()}
        assert counts == {"endpoint": 5, "lost_on_crash": 4}
        assert not ledger.in_flight
        await ledger.close()
        await writing

    asyncio.run(main())


def test_a_shadow_that_comes_under_way_is_accounted_for(tmp_path: Path) -> None:
    async def main() -> None:
        settings = config(tmp_path, "a")
        ledger = Ledger(settings, JudgeMetrics(settings))
        await ledger.reconcile_all(tmp_path)
        writing = asyncio.ensure_future(ledger.run())
        for _ in range(3):
            ledger.took([exchange(0)], [b""])
            await settle(ledger)
        ledger.configure(config(tmp_path, "a", "b"))
        await ledger.adopt()
        counts = {(key.shadow, key.reason): n for key, n in ledger.store.counts().items()}
        assert counts == {("a", "endpoint"): 3, ("b", "not_configured"): 3}
        await ledger.close()
        await writing

    asyncio.run(main())


def payload(one: Exchange) -> bytes:
    return encode_frame(one)[4:]


def test_what_a_life_leaves_is_taken_up_once_whenever_it_was_killed(tmp_path: Path) -> None:
    """Killed between the store's commit and the spool's deletion: the store says what is settled."""

    async def main() -> None:
        settings = config(tmp_path, "a")
        folder = Spool(str(tmp_path / "spool"))
        first = Ledger(settings, JudgeMetrics(settings), Disk(folder))
        assert first.take_up() == []
        await first.reconcile_all(tmp_path)
        writing = asyncio.ensure_future(first.run())
        came = [exchange(number) for number in range(10)]
        first.took(came, [payload(one) for one in came])
        first.spool.settled = lambda _: None  # type: ignore[method-assign]  # the kill comes before it
        for one in came[:4]:
            await settle(first, one)
        assert first.store.spooled()
        writing.cancel()
        first.store.close()
        first.spool._release_lock()

        second = Ledger(settings, JudgeMetrics(settings), Disk(folder))
        kept = second.take_up()
        assert [one.id for one in kept] == [f"x{number}" for number in range(4, 10)]
        assert second.in_flight == {"t0": 6}
        await second.reconcile("t0", 12)  # two of the twelve handed over never came
        writing = asyncio.ensure_future(second.run())
        for one in kept:
            found = second.spool.read(one)
            assert found == came[int(one.id[1:])]
            await settle(second, found)
        await second.tidy()
        assert {key.reason: n for key, n in second.store.counts().items()} == {"endpoint": 10, "lost_on_crash": 2}
        assert second.store.spooled() == set()
        assert [path.name for path in (tmp_path / "spool").iterdir()] == ["lock"]
        await second.close()
        second.spool.close()
        await writing

    asyncio.run(main())


def test_what_the_store_cannot_take_stays_on_disk_until_it_can(tmp_path: Path) -> None:
    async def main() -> None:
        settings = config(tmp_path, "a")
        ledger = Ledger(settings, JudgeMetrics(settings), Disk(Spool(str(tmp_path / "spool"))))
        ledger.take_up()
        await ledger.reconcile_all(tmp_path)
        real = ledger.store.settle

        def away(*_: object, **__: object) -> None:
            raise StoreError("locked", tmp_path)

        ledger.store.settle = away  # type: ignore[method-assign]
        writing = asyncio.ensure_future(ledger.run())
        one = exchange(1)
        ledger.took([one], [payload(one)])
        await settle(ledger, one)
        assert ledger.spool.waiting() == 1
        ledger.store.settle = real  # type: ignore[method-assign]
        async with asyncio.timeout(10):
            while ledger.spool.waiting():  # noqa: ASYNC110 - the writer tries again by itself
                await asyncio.sleep(0.05)
        assert sum(ledger.store.counts().values()) == 1
        await ledger.close()
        ledger.spool.close()
        await writing

    asyncio.run(main())


def test_a_traffic_process_that_dies_while_there_is_no_judge_is_accounted_for(tmp_path: Path) -> None:
    async def main() -> None:
        settings = config(tmp_path, "a")
        ledger = Ledger(settings, JudgeMetrics(settings))
        await ledger.reconcile_all(tmp_path)
        names = ("living", "dead", "connected")
        traffic = {name: Counters.create(tmp_path / f"{name}.bin") for name in names}
        for counters in traffic.values():
            counters.add(Slot.RECEIVED, 3)
            counters.add(Slot.SAMPLED, 3)
        traffic["dead"].close()
        traffic["connected"].close()
        for _ in range(2):
            await ledger.bury_strays(tmp_path, {"connected"})
            assert {tuple(key)[3]: n for key, n in ledger.store.counts().items()} == {"lost_on_crash": 3}
        await ledger.bury_strays(tmp_path, set())
        assert {tuple(key)[3]: n for key, n in ledger.store.counts().items()} == {"lost_on_crash": 6}
        traffic["living"].close()
        await ledger.close()

    asyncio.run(main())


def test_whatever_waits_for_the_store_waits_on_one_thread(tmp_path: Path) -> None:
    async def main() -> None:
        settings = config(tmp_path, "a")
        ledger = Ledger(settings, JudgeMetrics(settings))
        before = set(threading.enumerate())
        with ledger.store._lock:
            waiting = [
                asyncio.ensure_future(one)
                for one in (ledger.look({}, {}), ledger.too_large(), ledger.purge(), ledger.adopt())
            ]
            await asyncio.sleep(0.1)
            assert not any(one.done() for one in waiting)
            assert len(set(threading.enumerate()) - before) == 1
        await asyncio.wait_for(asyncio.gather(*waiting), 20)
        await ledger.close()

    asyncio.run(main())
