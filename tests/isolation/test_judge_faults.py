"""Row 5: whatever befalls the judge, clients get what they get without one, and what was lost with it is counted."""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from proxy.demo.proxy_process import ProxyProcess
from tests.isolation.stage import MIB, Metrics, Sick, arms, resident, sick
from tests.isolation.trial import Figure, Trial
from tests.running import ROOT, parhelion, until

LIMITS = {"in_flight": 16, "capture_bytes": 256 << 10, "queue_bytes": 1 << 20}


@contextmanager
def staged(primary: Sick, bare: ProxyProcess, directory: Path, patch: pytest.MonkeyPatch) -> Iterator[Trial]:
    order = directory / "order"
    order.write_text("", encoding="ascii")
    patch.setenv("PARHELION_SABOTAGE", str(order))
    patch.setenv("PYTHONPATH", str(ROOT / "tests" / "isolation" / "saboteur"))
    with (
        sick(noise=1.5) as shadow,
        parhelion(directory, primary.url, arms(shadow.url), limits=LIMITS) as proxy,
    ):
        proxy.wait_known(["primary", "cand"], 30)
        yield Trial(proxy, bare, order, primary)


@pytest.fixture
def stage(primary: Sick, bare: ProxyProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Trial]:
    with staged(primary, bare, tmp_path, monkeypatch) as one:
        yield one


@pytest.mark.slow
def test_a_comparison_that_raises(stage: Trial, figure: Figure) -> None:
    stage.order("raise")
    stage.load()
    ended = stage.over(figure, "row 5", "raises")
    assert ended["incomparable:judge_error"] > 0
    assert ended["compared"] == 0
    assert "ZeroDivisionError" in stage.proxy.log.read_text()


@pytest.mark.slow
def test_a_comparison_that_blocks_for_ten_seconds(stage: Trial, figure: Figure) -> None:
    stage.order("block 10")
    stage.load()
    stage.order("")
    ended = stage.over(figure, "row 5", "blocks 10 s")
    assert ended["compared"] > 0
    assert ended["shed:queue"] > 0  # a queue of 1 MiB does not hold what came meanwhile


@pytest.mark.slow
def test_a_judge_that_is_stopped(stage: Trial, figure: Figure) -> None:
    judge = stage.processes.pid("judge")
    os.kill(judge, signal.SIGSTOP)
    stopped = time.monotonic()
    try:
        stage.load()
        time.sleep(max(0.0, 8.0 - (time.monotonic() - stopped)))
        held = Metrics(stage.proxy).sum("handoff_bytes")
    finally:
        os.kill(judge, signal.SIGCONT)
    ended = stage.over(figure, "row 5", f"stopped for {time.monotonic() - stopped:.0f} s")
    assert ended["shed:queue"] > 0
    assert held <= 1 << 20
    assert stage.processes.pid("judge") == judge


@pytest.mark.slow
def test_a_judge_that_is_killed_again_and_again(stage: Trial, figure: Figure) -> None:
    for _ in range(3):
        stage.load(2)
        os.kill(stage.processes.pid("judge"), signal.SIGKILL)
        stage.load(2)
    ended = stage.over(figure, "row 5", "killed three times")
    assert ended["compared"] > 0


@pytest.mark.slow
def test_a_judge_without_memory(stage: Trial, figure: Figure) -> None:
    judge = stage.processes.pid("judge")
    _, hard = resource.prlimit(judge, resource.RLIMIT_AS)
    size = int(Path(f"/proc/{judge}/statm").read_text().split()[0]) * resource.getpagesize()
    stage.order("hog")
    resource.prlimit(judge, resource.RLIMIT_AS, (size + 48 * MIB, hard))
    stage.load()
    assert resident(judge) < size + 48 * MIB
    stage.order("")
    ended = stage.over(figure, "row 5", "out of memory")
    assert ended.get("incomparable:judge_error", 0) + ended.get("shed:lost_on_crash", 0) > 0
    until(lambda: stage.processes.pid("judge") > 0, 20, "a judge")
