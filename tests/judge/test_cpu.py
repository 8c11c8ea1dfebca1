"""Processor time goes to the stage that spent it, and nothing of the process's goes missing."""

from __future__ import annotations

import threading
from pathlib import Path
from time import process_time_ns, thread_time_ns

from proxy.config import Config, Primary
from proxy.judge.cpu import COMPARE, STORE, Meter
from proxy.ledger.judge_metrics import JudgeMetrics
from proxy.ledger.series import decode

_A_WHILE = 30_000_000  # ns of processor time


def burn() -> None:
    until = thread_time_ns() + _A_WHILE
    while thread_time_ns() < until:
        pass


def stored() -> None:
    with STORE:
        burn()


def test_each_stage_has_what_it_spent_and_the_rest_is_the_mirror() -> None:
    meter = Meter()
    begun = process_time_ns()
    burn()
    with COMPARE:
        burn()
        burn()
    thread = threading.Thread(target=stored)
    thread.start()
    thread.join()
    spent = meter.since_last()
    assert spent["compare"] >= 2 * _A_WHILE / 1e9
    assert spent["mirror"] >= _A_WHILE / 1e9
    assert spent["store"] >= _A_WHILE / 1e9
    assert spent["compare"] < spent["mirror"] + spent["store"] + _A_WHILE / 1e9
    assert sum(spent.values()) * 1e9 <= process_time_ns() - begun + _A_WHILE
    assert meter.since_last()["compare"] == 0.0


def test_a_stage_that_fails_is_counted_and_lets_the_error_go_on() -> None:
    before = COMPARE.spent
    try:
        with COMPARE:
            burn()
            raise KeyError
    except KeyError:
        assert COMPARE.spent - before >= _A_WHILE
    else:
        raise AssertionError("the error was swallowed")


def test_the_metric_is_a_counter_by_stage(tmp_path: Path) -> None:
    metrics = JudgeMetrics(Config(primary=Primary(url="http://p"), state=str(tmp_path)))
    metrics.cpu("mirror", 0.25)
    metrics.cpu("mirror", 0.5)
    metrics.cpu("store", -1.0)  # a clock that went back adds nothing
    points = decode(metrics.snapshot()).points["parhelion_judge_cpu_seconds_total"]
    assert {labels: point.value for labels, point in points.items()} == {
        ("mirror",): 0.75,
        ("compare",): 0.0,
        ("store",): 0.0,
    }
