"""What happens when an engine is found to be another stack: said once, in force from one moment, carried over the judge's lives."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from engines.capabilities import Capabilities
from engines.dialect import Defaults
from engines.footprint import make
from engines.parity import Prompt
from engines.probe import Probe
from proxy.compare.comparison import Comparison, Mode
from proxy.config import Config, Primary, Records, Shadow
from proxy.judge.engines import Engines
from proxy.judge.ledger import Ledger
from proxy.judge.spec import PRIMARY
from proxy.ledger.judge_metrics import JudgeMetrics
from proxy.ledger.record import Settlement
from proxy.ledger.series import decode
from tests.judge.test_examine import CHAT
from tests.judge.test_examine import run as with_bench

SHADOWS = (Shadow("cand", "http://c:1"), Shadow("twin", "http://d:1", role="control"))


def found(**probed: Any) -> Probe:
    footprint = make({"engine": "vllm", "version": "1", "dtype": "bf16", **probed}, {}, {})
    seen = Capabilities(token_ids=True, forced=True, top_logprobs=20)
    return Probe("vllm", "m", Defaults(), footprint, seen, (), Prompt((1, 2), 2), footprint)


@asynccontextmanager
async def life(directory: Path) -> AsyncIterator[Engines]:
    records = Records(url=f"sqlite:///{directory / 'r.db'}")
    config = Config(primary=Primary(url="http://p:1"), shadows=SHADOWS, records=records, state=str(directory))
    metrics = JudgeMetrics(config)
    ledger = Ledger(config, metrics)
    engines = Engines(config, ledger, metrics)
    try:
        yield engines
    finally:
        ledger.store.settle([Settlement("i", "cand", "free", "shed", "queue")], state=ledger._learned())
        await ledger.close()
        await engines.close()


def tell(engines: Engines, name: str, probe: Probe) -> None:
    spec, arm = engines.made[name]
    engines.stacks.found(arm, spec.who, probe)


def metric(engines: Engines, name: str, *labels: str) -> float | None:
    point = decode(engines.metrics.snapshot()).points.get(f"parhelion_{name}", {}).get(labels)
    return None if point is None else point.value


def test_a_change_is_said_once_and_holds_from_one_moment(tmp_path: Path) -> None:
    async def main() -> None:
        async with life(tmp_path) as engines:
            arm, began = engines.made["cand"][1], time.time()
            tell(engines, "cand", found())
            assert (arm.changed, engines.ledger.store.events()) == (0.0, [])
            tell(engines, "cand", found())
            assert arm.changed == 0.0
            first = arm.footprint
            tell(engines, "cand", found(dtype="fp16", kv_cache_dtype="fp8"))
            tell(engines, "cand", found(dtype="fp16", kv_cache_dtype="fp8"))
            assert began <= arm.changed <= time.time()
            (event,) = engines.ledger.store.events()
            assert event.time == arm.changed
            assert event.detail["fields"] == {"dtype": ["bf16", "fp16"], "kv_cache_dtype": [None, "fp8"]}
            assert (event.detail["arm"], event.detail["was"], event.detail["now"]) == ("cand", first, arm.footprint)
            assert began <= event.detail["confirmed"] <= event.time
            assert metric(engines, "footprint_changes_total", "cand") == 1
            assert metric(engines, "findings_total", "cand", "footprint_changed") == 1
            assert metric(engines, "findings_total", "twin", "footprint_changed") is None
            assert metric(engines, "engine_level", "cand", "full") == 1

    asyncio.run(main())


def test_a_fact_that_is_no_longer_told_is_no_change(tmp_path: Path) -> None:
    async def main() -> None:
        async with life(tmp_path) as engines:
            tell(engines, "cand", found(kv_cache_dtype="fp8"))
            known = engines.made["cand"][1].footprint
            tell(engines, "cand", found())
            assert engines.made["cand"][1].footprint == known
            assert engines.ledger.store.events() == []

    asyncio.run(main())


@pytest.mark.parametrize(("name", "forgets"), [(PRIMARY, True), ("twin", True), ("cand", False)])
def test_a_change_of_the_primary_or_its_control_begins_the_noise_anew(tmp_path: Path, name: str, forgets: bool) -> None:
    async def main() -> None:
        async with life(tmp_path) as engines:
            engines.ledger.noise.learn("m", Comparison(mode=Mode.FREE), control=True)
            tell(engines, name, found())
            assert engines.ledger.noise._pages
            tell(engines, name, found(version="2"))
            assert bool(engines.ledger.noise._pages) is not forgets
            for shadow in ("cand", "twin"):
                concerned = name in (PRIMARY, shadow)
                assert metric(engines, "findings_total", shadow, "footprint_changed") == (1 if concerned else None)

    asyncio.run(main())


def test_an_engine_that_was_replaced_while_there_was_no_judge(tmp_path: Path) -> None:
    async def main() -> None:
        async with life(tmp_path) as engines:
            tell(engines, "cand", found())
            tell(engines, "twin", found())
        async with life(tmp_path) as engines:
            tell(engines, "cand", found(version="2"))
            tell(engines, "twin", found())
            (event,) = engines.ledger.store.events()
            assert (event.detail["arm"], event.detail["fields"]) == ("cand", {"version": ["1", "2"]})

    asyncio.run(main())


def test_what_is_away_is_not_compared_until_it_has_been_looked_at() -> None:
    async def test(bench: Any) -> None:
        candidate = bench.examiner.shadows[0].arm

        async def outcome(**changes: Any) -> tuple[str | None, str | None, bool]:
            examined = await bench.ask(CHAT, injected=True, **changes)
            (one,) = [one for one in examined.outcomes if (one.shadow, one.mode) == ("candidate", Mode.FREE)]
            return one.incomparable, one.shed, one.comparison is not None

        assert await outcome() == (None, None, True)
        candidate.away = 999.0
        assert await outcome() == (None, "shadow_unready", False)
        candidate.away, candidate.changed = None, 1000.5
        assert await outcome() == ("footprint_changed", None, False)
        assert await outcome(started=1000.5) == (None, None, True)
        bench.examiner.primary.changed = 2000.0
        assert await outcome(started=1000.5) == ("footprint_changed", None, False)
        bench.examiner.primary.changed, bench.examiner.primary.away = 0.0, 1.0
        assert await outcome(started=1000.5) == (None, None, True)  # one reply that did not come stops nothing

    with_bench(test)
