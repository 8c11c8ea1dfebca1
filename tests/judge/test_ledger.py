"""The judge's hold on the store: what is in its hands is neither lost nor settled."""

from __future__ import annotations

import asyncio
from pathlib import Path

from proxy.config import Config, Primary, Records, Shadow
from proxy.judge.desk import Done
from proxy.judge.ledger import Ledger
from proxy.ledger.judge_metrics import JudgeMetrics
from proxy.ledger.record import Settlement

DONE = Done((Settlement("t0", "a", "free", "incomparable", "endpoint"),))


def config(tmp_path: Path, *names: str) -> Config:
    shadows = tuple(Shadow(name, f"http://{name}", modes=("free",)) for name in names)
    return Config(
        primary=Primary(url="http://p"),
        shadows=shadows,
        state=str(tmp_path),
        records=Records(url=f"sqlite:///{tmp_path / 'r.db'}"),
    )


async def settle(ledger: Ledger) -> None:
    told = asyncio.Event()
    ledger.hand_in(DONE, "t0", told.set)
    async with asyncio.timeout(20):
        await told.wait()


def test_what_is_in_hand_is_reconciled_neither_as_lost_nor_twice(tmp_path: Path) -> None:
    async def main() -> None:
        settings = config(tmp_path, "a")
        ledger = Ledger(settings, JudgeMetrics(settings))
        await ledger.reconcile_all(tmp_path)
        writing = asyncio.ensure_future(ledger.run())
        for _ in range(5):
            ledger.took("t0")
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
            ledger.took("t0")
            await settle(ledger)
        ledger.configure(config(tmp_path, "a", "b"))
        await ledger.adopt()
        counts = {(key.shadow, key.reason): n for key, n in ledger.store.counts().items()}
        assert counts == {("a", "endpoint"): 3, ("b", "not_configured"): 3}
        await ledger.close()
        await writing

    asyncio.run(main())
