"""Probes on a schedule: learned, looked at, a change said once, limits kept; against scripted engines on loopback."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engines.http_fetch import connect
from engines.registry import dialect
from proxy.config import Config, Primary, Probes, Records
from proxy.judge import probing
from proxy.judge.arm import Arm
from proxy.judge.ledger import Ledger
from proxy.judge.probing import Probing
from proxy.ledger.judge_metrics import JudgeMetrics
from proxy.ledger.series import decode
from proxy.probes.ask import Subject, named, row
from proxy.probes.probe import Probe, ProbeSet, save
from proxy.traffic.shadow_client import Client
from tests.judged import arm as known_arm
from tests.planted import serving

MODEL = "toy"


async def questions(url: str, count: int = 6) -> ProbeSet:
    """Probes of a scripted engine, whatever their gaps."""
    found = []
    async with connect(url) as fetch:
        subject = Subject(fetch, dialect("vllm"))
        for number in range(count):
            ids = (1, 300 + number, 310 + 2 * number)
            top = (await row(subject, ids, None, f"s{number}")).top
            found.append(Probe(f"p{number}", ids, named(top[0]), named(top[1]), top[0].logprob - top[1].logprob))
    return ProbeSet(MODEL, tuple(found), 1e-4, 0.0, "vllm")


class Bench:
    """One arm, its judge's ledger, and its probing; ``look`` looks once."""

    def __init__(self, folder: Path, arm: Arm, probes: ProbeSet, ledger: Ledger, settings: Probes) -> None:
        self.folder, self.arm, self.probes, self.ledger = folder, arm, probes, ledger
        self.probing = Probing(settings, folder, {arm.name: (arm, {})}, ledger, ledger.metrics)
        (folder / "probes").mkdir(exist_ok=True)

    async def look(self) -> None:
        assert self.arm.dialect is not None
        subject = Subject(probing._limited(self.arm), self.arm.dialect, None)
        await self.probing._look_safely(self.arm, subject, self.probes)

    def gauge(self, name: str) -> float | None:
        points = decode(self.ledger.metrics.snapshot()).points.get(f"parhelion_{name}", {})
        return next((point.value for labels, point in points.items() if labels == (self.arm.name,)), None)

    def changes(self) -> list[dict[str, Any]]:
        return [one.detail for one in self.ledger.store.events() if one.kind == "probe_changed"]

    async def becomes(self, url: str) -> None:
        """Another engine answers from now on, of which no route tells."""
        await self.arm.client.aclose()
        self.arm.client = Client(url, api_key=None, connections=4, connect_timeout=5.0, max_bytes=1 << 22)


def on_the_bench(folder: Path, work: Callable[[Bench], Awaitable[None]], **settings: Any) -> None:
    async def main() -> None:
        async with serving("{}") as url:
            probes = await questions(url)
            save(folder / "p.json", probes)
            config = Config(
                primary=Primary(url=url), records=Records(url=f"sqlite:///{folder}/s.db"), state=str(folder)
            )
            arm = await known_arm("primary", url, "vllm", probed=False)
            ledger = Ledger(config, JudgeMetrics(config))
            try:
                given = Probes(file=str(folder / "p.json"), **settings)
                await work(Bench(folder, arm, probes, ledger, given))
            finally:
                await arm.client.aclose()
                await ledger.close()

    asyncio.run(main())


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "_BETWEEN", 0.0)


def test_an_engine_is_learned_then_looked_at_and_nothing_is_said_of_the_same(tmp_path: Path) -> None:
    async def work(bench: Bench) -> None:
        await bench.look()
        assert (tmp_path / "probes" / "primary.json").stat().st_mode & 0o777 == 0o600
        assert bench.gauge("probe_shift_nats") is None  # learned, not looked at yet
        for _ in range(3):
            await bench.look()
        assert bench.changes() == []
        assert (bench.gauge("probe_shift_nats"), bench.gauge("probe_flips")) == (0.0, 0.0)
        assert (bench.gauge("probe_last_run_timestamp_seconds") or 0.0) > 1e9

    on_the_bench(tmp_path, work)


def test_a_change_is_said_once_and_what_it_is_now_is_learned(tmp_path: Path) -> None:
    async def work(bench: Bench) -> None:
        await bench.look()
        async with serving("differences: {noise: 0.05}") as other:
            await bench.becomes(other)
            await bench.look()
            (change,) = bench.changes()
            assert change["arm"] == "primary"
            assert change["p"] == pytest.approx(1 / 230_230)
            assert change["alpha"] == pytest.approx(0.01 * 300 / 86400)
            assert 0.001 < change["shift_nats"] <= change["largest_nats"] < 0.5
            assert len(change["moved"]) == 5
            assert bench.gauge("probe_changes_total") == 1
            await bench.look()  # learned anew
            await bench.look()
            assert len(bench.changes()) == 1

    on_the_bench(tmp_path, work)


def test_a_stack_that_says_itself_that_it_is_another_is_learned_anew(tmp_path: Path) -> None:
    async def work(bench: Bench) -> None:
        await bench.look()
        bench.arm.footprint = "another"
        async with serving("differences: {noise: 0.05}") as other:
            await bench.becomes(other)
            await bench.look()
            await bench.look()
        assert bench.changes() == []
        assert bench.gauge("probe_shift_nats") == 0.0

    on_the_bench(tmp_path, work)


def test_a_baseline_outlives_the_judge(tmp_path: Path) -> None:
    async def work(bench: Bench) -> None:
        await bench.look()
        again = Bench(tmp_path, bench.arm, bench.probes, bench.ledger, bench.probing.settings)
        async with serving("differences: {noise: 0.05}") as other:
            await bench.becomes(other)
            await again.look()
        assert len(bench.changes()) == 1

    on_the_bench(tmp_path, work)


def test_an_arm_that_is_switched_off_or_away_is_left_alone(tmp_path: Path) -> None:
    async def work(bench: Bench) -> None:
        bench.arm.guard.stopped = True
        await bench.look()
        assert not (tmp_path / "probes" / "primary.json").exists()
        bench.arm.guard.stopped = False
        await bench.becomes("http://127.0.0.1:9")
        await bench.look()
        assert not (tmp_path / "probes" / "primary.json").exists()

    on_the_bench(tmp_path, work)


def test_the_days_budget_pays_for_it(tmp_path: Path) -> None:
    async def work(bench: Bench) -> None:
        bench.arm.guard.tokens_per_day = 130
        await bench.look()  # 20 runs of 6
        await bench.look()
        await bench.look()
        assert bench.arm.guard.day(0.0)[1] == 130

    on_the_bench(tmp_path, work)


def test_a_file_that_cannot_be_used_is_said_once_and_taken_up_when_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(probing.logs, "say", lambda *given, **_: said.append(given[2]))

    async def work(bench: Bench) -> None:
        mined = tmp_path / "later.json"
        bench.probing.settings = msgspec.structs.replace(bench.probing.settings, file=str(mined), every=0.01)
        running = asyncio.ensure_future(bench.probing.run())
        try:
            await asyncio.sleep(1.5)  # looks are a second apart at least
            assert said == ["probes_unusable"]
            save(mined, bench.probes)
            async with asyncio.timeout(20):
                while not (tmp_path / "probes" / "primary.json").exists():  # noqa: ASYNC110 - a file has no event
                    await asyncio.sleep(0.05)
        finally:
            running.cancel()

    on_the_bench(tmp_path, work)


@pytest.mark.parametrize("kept", [b"no baseline", b"{}", None])
def test_a_baseline_that_cannot_be_used_is_learned_anew(tmp_path: Path, kept: bytes | None) -> None:
    async def work(bench: Bench) -> None:
        await bench.look()
        file = tmp_path / "probes" / "primary.json"
        whole = file.read_bytes()
        if kept is None:  # whole, but of fewer probes than its id says
            known = json.loads(whole)
            known["runs"] = [{"gaps": one["gaps"][1:], "flipped": one["flipped"][1:]} for one in known["runs"]]
            file.write_text(json.dumps(known))
        else:
            file.write_bytes(kept)
        bench.probing._known.clear()
        await bench.look()
        assert json.loads(file.read_bytes())["runs"] == json.loads(whole)["runs"]
        await bench.look()
        assert bench.gauge("probe_shift_nats") == 0.0

    on_the_bench(tmp_path, work)
