"""Row 5: whatever befalls the judge, clients get what they get without one, and what was lost with it is counted."""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import uvloop

from proxy.demo.proxy_process import ProxyProcess
from tests.isolation import load
from tests.isolation.stage import MIB, Metrics, Processes, Sick, arms, resident, settled, sick
from tests.running import ROOT, parhelion, until

ROUNDS, BLOCK = 10, 200
#: Requests one after the other, to see how long the traffic process's loop keeps somebody waiting.
ALONE = 15
LIMITS = {"in_flight": 16, "capture_bytes": 256 << 10, "queue_bytes": 1 << 20}

Figure = Callable[[str, str], None]


class Stage:
    """A proxy whose judge can be sabotaged, and what is asked of it while it is."""

    def __init__(self, proxy: ProxyProcess, bare: ProxyProcess, order: Path, wanted: list[load.Said]) -> None:
        self.proxy, self._order, self._wanted = proxy, order, wanted
        self._sides = {"bare": bare.clients, "ill": proxy.clients}
        self.received = 0
        self.processes = Processes(proxy)
        self.tallies: dict[str, load.Tally] = {name: load.Tally() for name in self._sides}
        self.lag: dict[str, load.Tally] = {name: load.Tally() for name in self._sides}

    def order(self, what: str) -> None:
        self._order.write_text(what, encoding="ascii")

    def load(self, rounds: int = ROUNDS) -> None:
        """Blocks of requests through both proxies in turn, and some one after the other."""
        for _ in range(rounds):
            for at_once, count, into in ((8, BLOCK, self.tallies), (1, ALONE, self.lag)):
                found = uvloop.run(load.alternate(self._sides, 1, count, self._wanted, at_once=at_once))
                for name, tally in found.items():
                    _add(into[name], tally)
            self.received += BLOCK + ALONE

    def over(self, figure: Figure, name: str) -> dict[str, int]:
        """Nobody noticed; how everything ended."""
        seen = settled(self.proxy, self.received, 90)
        ended = seen.ended("cand")
        lag = 1e3 * (load.quantile(self.lag["ill"].first, 0.99) - load.quantile(self.lag["bare"].first, 0.99))
        words = "; ".join(f"{side} {one.failed} of {one.asked} failed, {one.in_words()}" for side, one in self.tallies.items())
        figure("row 5", f"{name}: {words}; one at a time p99 {lag:+.1f} ms of bare; {ended}")
        for tally in (*self.tallies.values(), *self.lag.values()):
            assert (tally.failed, tally.wrong) == (0, [])
        assert lag < 200.0, f"p99 of the primary's path rose by {lag:.0f} ms"  # 20 ms on a quiet machine
        assert sum(ended.values()) == self.received
        return ended


def _add(into: load.Tally, more: load.Tally) -> None:
    into.asked += more.asked
    into.failed += more.failed
    into.first += more.first
    into.total += more.total
    into.wrong += more.wrong


@contextmanager
def staged(primary: Sick, bare: ProxyProcess, directory: Path, patch: pytest.MonkeyPatch) -> Iterator[Stage]:
    order = directory / "order"
    order.write_text("", encoding="ascii")
    patch.setenv("PARHELION_SABOTAGE", str(order))
    patch.setenv("PYTHONPATH", str(ROOT / "tests" / "isolation" / "saboteur"))
    with (
        sick(noise=1.5) as shadow,
        parhelion(directory, primary.url, arms(shadow.url), limits=LIMITS) as proxy,
    ):
        proxy.wait_known(["primary", "cand"], 30)
        yield Stage(proxy, bare, order, uvloop.run(load.expect(primary.url)))


@pytest.fixture
def stage(
    primary: Sick, bare: ProxyProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Stage]:
    with staged(primary, bare, tmp_path, monkeypatch) as one:
        yield one


@pytest.mark.slow
def test_a_comparison_that_raises(stage: Stage, figure: Figure) -> None:
    stage.order("raise")
    stage.load()
    ended = stage.over(figure, "raises")
    assert ended["incomparable:judge_error"] > 0
    assert ended["compared"] == 0
    assert "ZeroDivisionError" in stage.proxy.log.read_text()


@pytest.mark.slow
def test_a_comparison_that_blocks_for_ten_seconds(stage: Stage, figure: Figure) -> None:
    stage.order("block 10")
    stage.load()
    stage.order("")
    ended = stage.over(figure, "blocks 10 s")
    assert ended["compared"] > 0
    assert ended["shed:queue"] > 0  # a queue of 1 MiB does not hold what came meanwhile


@pytest.mark.slow
def test_a_judge_that_is_stopped(stage: Stage, figure: Figure) -> None:
    judge = stage.processes.pid("judge")
    os.kill(judge, signal.SIGSTOP)
    stopped = time.monotonic()
    try:
        stage.load()
        time.sleep(max(0.0, 8.0 - (time.monotonic() - stopped)))
        held = Metrics(stage.proxy).sum("handoff_bytes")
    finally:
        os.kill(judge, signal.SIGCONT)
    ended = stage.over(figure, f"stopped for {time.monotonic() - stopped:.0f} s")
    assert ended["shed:queue"] > 0
    assert held <= 1 << 20
    assert stage.processes.pid("judge") == judge


@pytest.mark.slow
def test_a_judge_that_is_killed_again_and_again(stage: Stage, figure: Figure) -> None:
    for _ in range(3):
        stage.load(2)
        os.kill(stage.processes.pid("judge"), signal.SIGKILL)
        stage.load(2)
    ended = stage.over(figure, "killed three times")
    assert ended["compared"] > 0


@pytest.mark.slow
def test_a_judge_without_memory(stage: Stage, figure: Figure) -> None:
    judge = stage.processes.pid("judge")
    _, hard = resource.prlimit(judge, resource.RLIMIT_AS)
    size = int(Path(f"/proc/{judge}/statm").read_text().split()[0]) * resource.getpagesize()
    stage.order("hog")
    resource.prlimit(judge, resource.RLIMIT_AS, (size + 48 * MIB, hard))
    stage.load()
    assert resident(judge) < size + 48 * MIB
    stage.order("")
    ended = stage.over(figure, "out of memory")
    assert ended.get("incomparable:judge_error", 0) + ended.get("shed:lost_on_crash", 0) > 0
    until(lambda: stage.processes.pid("judge") > 0, 20, "a judge")
