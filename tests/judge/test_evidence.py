"""The judge's evidence over its lives: a restart goes on exactly, an alarm is said once, order is that of the commits."""

from __future__ import annotations

import asyncio
import math
import random
from math import log
from pathlib import Path

import msgspec
import pytest

from proxy.compare.e_detector import Detector
from proxy.compare.trial import Result
from proxy.config import Config, Drift, Primary, Records, Shadow, Verdict
from proxy.judge.desk import Done
from proxy.judge.evidence import DRIFT, KEY, Evidence
from proxy.judge.ledger import Ledger
from proxy.ledger.events import Event
from proxy.ledger.judge_metrics import JudgeMetrics
from proxy.ledger.reconcile import SETTLED
from proxy.ledger.record import Settlement
from proxy.ledger.series import decode
from proxy.ledger.store import Store
from proxy.ledger.store_error import StoreError
from proxy.ledger.tallies import Counted, Scope
from tests.judge.test_ledger import exchange

SCOPE = Scope("candidate", "p1", "s1", "control", "c1")
SHADOWS = (Shadow("candidate", "http://c"), Shadow("control", "http://d", role="control"))


def config(tmp_path: Path, **more) -> Config:
    return Config(
        primary=Primary(url="http://p"),
        shadows=SHADOWS,
        state=str(tmp_path),
        records=Records(url=f"sqlite:///{tmp_path / 'r.db'}"),
        **more,
    )


def trial(number: int, result: Result, scope: Scope = SCOPE) -> Counted:
    return Counted(scope, f"u{number}", f"q{number}", 1e9 + number, result, "genuine_flip")


def settlement(one: Counted) -> Settlement:
    return Settlement("t0", "", "", SETTLED, trials=(one,))


def gauges(metrics: JudgeMetrics, name: str) -> dict[tuple[str, ...], float]:
    points = decode(metrics.snapshot()).points.get(f"parhelion_{name}", {})
    return {labels: point.value for labels, point in points.items()}


def results(seed: int, count: int) -> list[Result]:
    draw = random.Random(seed)
    return draw.choices(list(Result), (3, 2, 1, 20, 1), k=count)


@pytest.mark.parametrize("kept_until", [0, 17, 40, 60])
def test_a_restart_goes_on_exactly_wherever_the_state_was_kept(tmp_path: Path, kept_until: int) -> None:
    came = [trial(number, result) for number, result in enumerate(results(5, 60))]
    expected = Detector()
    for one in came:
        if one.result in (Result.WORSE, Result.BETTER):
            expected = expected.after(worse=one.result is Result.WORSE)
    settings = config(tmp_path)
    with Store.open(settings.records.url) as store:
        first = Evidence(settings, store, JudgeMetrics(settings))
        for number, one in enumerate(came):
            if number == kept_until:
                store.settle([], state={KEY: first.encode()})
            first.take(store.settle([settlement(one)]))
    metrics = JudgeMetrics(settings)
    with Store.open(settings.records.url) as store:
        Evidence(settings, store, metrics).report()  # nothing came since: from the store alone
        again = Evidence(settings, store, JudgeMetrics(settings))
        assert again.encode() == first.encode()
    assert gauges(metrics, "drift_log_e")["candidate",] == pytest.approx(expected.log_e)
    assert gauges(metrics, "verdict") == {("candidate",): 0}
    assert sum(gauges(metrics, "trials_total").values()) == 60
    assert gauges(metrics, "log_e_value")["candidate", "fail"] < log(100)


def test_another_stack_begins_another_detector_and_another_verdict(tmp_path: Path) -> None:
    settings, metrics = config(tmp_path), None
    metrics = JudgeMetrics(settings)
    with Store.open(settings.records.url) as store:
        evidence = Evidence(settings, store, metrics)
        for number in range(40):
            evidence.take(store.settle([settlement(trial(number, Result.WORSE))]))
        evidence.report()
        assert gauges(metrics, "verdict") == {("candidate",): -1}
        evidence.take(store.settle([settlement(trial(50, Result.NEITHER, SCOPE._replace(shadow="s2")))]))
        evidence.report()
    assert gauges(metrics, "verdict") == {("candidate",): 0}
    assert gauges(metrics, "drift_log_e") == {}
    assert gauges(metrics, "trials_total")["candidate", "worse"] == 40  # of all its stacks: a counter never falls


def test_terms_take_effect_at_once_and_begin_no_tally(tmp_path: Path) -> None:
    settings = config(tmp_path)
    metrics = JudgeMetrics(settings)
    with Store.open(settings.records.url) as store:
        evidence = Evidence(settings, store, metrics)
        evidence.take(store.settle([settlement(trial(number, Result.NEITHER)) for number in range(300)]))
        evidence.report()
        assert gauges(metrics, "verdict") == {("candidate",): 0}
        assert gauges(metrics, "conversations_needed")["candidate",] > 300
        evidence.configure(config(tmp_path, verdict=Verdict(margin=0.1)))
        evidence.report()
        assert gauges(metrics, "verdict") == {("candidate",): 1}
        assert gauges(metrics, "trials_total")["candidate", "neither"] == 300


def test_an_alarm_is_said_once_over_deaths_and_a_store_that_is_away(tmp_path: Path) -> None:
    settings = config(tmp_path, drift=Drift(mean_conversations_between_false_alarms=1000))

    async def main() -> None:
        ledger = Ledger(settings, JudgeMetrics(settings))
        writing = asyncio.ensure_future(ledger.run())
        real = ledger.store.add_event
        refused = 0

        def away(event: Event, state: dict[str, bytes] | None = None) -> None:
            nonlocal refused
            refused += 1
            if refused < 3:
                raise StoreError("locked", tmp_path)
            real(event, state)

        ledger.store.add_event = away  # type: ignore[method-assign]
        for number in range(20):
            told = asyncio.Event()
            ledger.took([exchange(number)], [b""])
            ledger.hand_in(Done((), trials=(trial(number, Result.WORSE),)), exchange(number), told.set)
            async with asyncio.timeout(20):
                await told.wait()
        alarms = [one for one in ledger.store.events() if one.kind == DRIFT]
        assert refused >= 3
        assert len(alarms) == 1
        assert alarms[0].detail["shadow"] == "candidate"
        assert alarms[0].detail["log_e"] >= log(1000)
        assert gauges(ledger.metrics, "drift_alarms_total") == {("candidate",): 1}
        writing.cancel()  # and killed: what is kept of it is as old as the last batch
        ledger.store.close()
        second = Ledger(settings, JudgeMetrics(settings))
        await second.close()
        with Store.open(settings.records.url) as store:
            assert [one.detail for one in store.events() if one.kind == DRIFT] == [one.detail for one in alarms]

    asyncio.run(main())


def test_what_never_reached_a_desk_is_missing_once_over_restarts_and_a_store_that_is_away(tmp_path: Path) -> None:
    settings = config(tmp_path)
    scopes = {"candidate": SCOPE}
    died = Settlement("t0", "candidate", "free", "shed", "lost_on_crash")

    def missing(store: Store) -> dict[str, int]:
        found = store.tallies().get(SCOPE)
        return {} if found is None else {cell.by: one.n for cell, one in found.cells.items()}

    async def main() -> None:
        ledger = Ledger(settings, JudgeMetrics(settings))
        ledger.store.settle([died, died])
        await ledger.look({"queue": 7, "capture": 0}, scopes)  # before this candidate
        assert await ledger._write([])
        assert missing(ledger.store) == {}
        ledger.store.settle([died] * 3)
        await ledger.look({"queue": 10, "capture": 1}, scopes)
        real = ledger.store.settle

        def away(*_: object, **__: object) -> None:
            raise StoreError("locked", tmp_path)

        ledger.store.settle = away  # type: ignore[method-assign]
        assert not await ledger._write([])
        ledger.store.settle = real  # type: ignore[method-assign]
        ledger._retry_at = 0.0
        assert await ledger._write([])
        assert missing(ledger.store) == {"queue": 3, "capture": 1, "lost_on_crash": 3}
        await ledger.look({"queue": 10, "capture": 1}, scopes)
        await ledger.close()
        second = Ledger(settings, JudgeMetrics(settings))
        await second.look({"queue": 12, "capture": 1}, scopes)
        assert await second._write([])
        assert missing(second.store) == {"queue": 5, "capture": 1, "lost_on_crash": 3}
        await second.close()

    asyncio.run(main())


def test_counters_that_began_anew_hide_nothing_of_what_they_count(tmp_path: Path) -> None:
    """The store may lie where it outlives the state folder, as a container's volume does."""
    settings = config(tmp_path)
    scopes = {"candidate": SCOPE}

    def missing(evidence: Evidence) -> int:
        return sum(one.n for one in evidence.losses(1e9))

    with Store.open(settings.records.url) as store:
        evidence = Evidence(settings, store, JudgeMetrics(settings))
        evidence.look({"queue": 5}, {}, scopes)
        evidence.look({"queue": 10_000}, {}, scopes)
        assert missing(evidence) == 9_995
        store.settle([], state={KEY: evidence.encode()})
        again = Evidence(settings, store, JudgeMetrics(settings))
        again.look({"queue": 2}, {}, scopes)
        assert missing(again) == 2
        again.look({"queue": 30}, {}, scopes)
        assert missing(again) == 28
        again.look({"queue": 30}, {}, scopes)
        assert missing(again) == 0


@pytest.mark.parametrize("logs", [(0.1, 0.2), (), (math.nan,) * 9, (math.inf,) * 9])
def test_a_detector_that_cannot_go_on_begins_anew(tmp_path: Path, logs: tuple[float, ...]) -> None:
    settings = config(tmp_path)
    with Store.open(settings.records.url) as store:
        kept = msgspec.msgpack.decode(Evidence(settings, store, JudgeMetrics(settings)).encode())
        kept["detectors"] = {"candidate": (SCOPE.key, {"logs": logs, "seen": 3})}
        store.settle([], state={KEY: msgspec.msgpack.encode(kept)})
        metrics = JudgeMetrics(settings)
        evidence = Evidence(settings, store, metrics)
        evidence.take(store.settle([settlement(trial(1, Result.WORSE))]))
        evidence.report()
        assert gauges(metrics, "drift_log_e") == {("candidate",): pytest.approx(Detector().after(worse=True).log_e)}
