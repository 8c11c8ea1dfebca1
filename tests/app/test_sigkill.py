"""SIGKILL at random moments, of each process and of all at once: what was committed stays, what was taken is done, once."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

from proxy.demo.proxy_process import ProxyProcess
from proxy.exchange import Ended, Exchange
from proxy.judge import segment
from tests.app.under_load import load
from tests.figures import Figure
from tests.running import parhelion, toy, until
from tests.whole import ARMS, CHAT, child, law, settle, shadows

SHORT = CHAT | {"max_tokens": 3}
Key = tuple[str, str, str]  # exchange, shadow, mode


@dataclass
class Toll:
    """What was on disk when something was killed. ``committed``: records; ``taken``: whole exchanges that were in the spool and not settled."""

    committed: set[Key] = field(default_factory=set)
    taken: set[str] = field(default_factory=set)
    kills: Counter[str] = field(default_factory=Counter)
    answers: int = 0
    cut: int = 0


def records(directory: Path) -> list[Key]:
    with sqlite3.connect(f"file:{directory / 'records.db'}?mode=ro", uri=True, timeout=30) as store:
        found = store.execute("SELECT exchange, shadow, mode FROM records").fetchall()
    store.close()
    return [tuple(one) for one in found]


def unsettled(directory: Path) -> set[str]:
    """Whole exchanges in the spool, but for those that the store has settled."""
    store = sqlite3.connect(f"file:{directory / 'records.db'}?mode=ro", uri=True, timeout=30)
    settled = {number for (number,) in store.execute("SELECT number FROM spooled")}
    store.close()
    found: set[str] = set()
    for path in segment.files(directory / "spool"):
        for frame in segment.scan(path):
            exchange = msgspec.msgpack.decode(frame.payload, type=Exchange)
            if frame.number not in settled and exchange.ended is Ended.COMPLETE:
                found.add(exchange.id)
    return found


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Hold a process still, so that nothing is started anew while we look."""
    os.kill(pid, signal.SIGSTOP)
    try:
        # A thread that waits for children goes on for a moment on a busy machine, and takes one that dies meanwhile.
        until(
            lambda: all(state(thread) in "tT" for thread in Path(f"/proc/{pid}/task").iterdir()), what="its standstill"
        )
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def state(task: Path) -> str:
    """The kernel's letter for what a process or a thread is doing."""
    return (task / "stat").read_text().rpartition(") ")[2][0]


def strike(proxy: ProxyProcess, what: str, directory: Path, toll: Toll) -> bool:
    """Kill, look at what is on disk; true while the replica lives on."""
    supervisor = proxy._process.pid
    toll.kills[what] += 1
    if what in {"judge", "traffic"}:
        until(lambda: child(proxy, what) > 1, what=f"a {what} process")
        with stopped(supervisor):
            pid = child(proxy, what)
            os.kill(pid, signal.SIGKILL)
            until(lambda: state(Path(f"/proc/{pid}")) == "Z", what="its death")
            look(directory, toll, gone=what == "judge")
        return True
    if what == "all":
        os.killpg(supervisor, signal.SIGKILL)
    else:
        os.kill(supervisor, signal.SIGKILL)
    proxy._process.wait()
    look(directory, toll, gone=what == "all")
    return False


def look(directory: Path, toll: Toll, *, gone: bool) -> None:
    toll.committed |= set(records(directory))
    if gone:  # else the judge goes on, and what it has may settle in any way
        toll.taken |= unsettled(directory)


def live(directory: Path, engines: tuple[str, str, str], chance: random.Random, toll: Toll, kills: int) -> int:
    """One life of a replica under load, until it is killed as a whole or has had its kills; returns those left."""
    primary, candidate, control = engines
    with parhelion(directory, primary, shadows(candidate, control), drain=2) as proxy:
        proxy.wait_known(["primary", "cand", "control"], 60)
        with load(f"{proxy.clients}/v1/chat/completions", SHORT, clients=2, pause=0.05) as clients:
            alive = True
            while kills and alive:
                until(lambda: child(proxy, "judge") > 1, what="a judge")
                time.sleep(chance.uniform(0.1, 2.0))
                what = chance.choices(["judge", "traffic", "supervisor", "all"], [5, 3, 1, 1])[0]
                alive = strike(proxy, what, directory, toll)
                kills -= 1
            if alive:
                time.sleep(0.5)
            clients.stop()
        toll.answers += clients.count
        toll.cut += len(clients.failures)
        if alive:
            settle(proxy, 1)
            law(proxy)
    return kills


@pytest.mark.parametrize(
    "kills",
    [
        pytest.param(10, marks=[pytest.mark.slow, pytest.mark.timeout(600)]),
        pytest.param(100, marks=[pytest.mark.soak, pytest.mark.timeout(3600)]),
    ],
)
def test_whatever_is_killed_whenever_nothing_that_was_taken_is_lost_or_done_twice(
    kills: int, tmp_path: Path, figure: Figure
) -> None:
    chance, toll = random.Random(17), Toll()
    with toy() as primary, toy() as candidate, toy() as control:
        engines = (primary, candidate, control)
        left = kills
        while left:
            left = live(tmp_path, engines, chance, toll, left)
        with parhelion(tmp_path, primary, shadows(candidate, control)) as proxy:
            proxy.wait_known(["primary", "cand", "control"], 60)
            settle(proxy, 1)
            law(proxy)
            sampled = proxy.metric("parhelion_sampled_total")
            lost = proxy.metric("parhelion_shed_total", shadow="cand", mode="free", reason="lost_on_crash")
            assert proxy.stop() == 0
    found = records(tmp_path)
    gone = toll.committed - set(found)
    undone = {(id_, *arm) for id_ in toll.taken for arm in ARMS} - set(found)
    line = (
        f"{kills} kills {dict(toll.kills)}: {len(toll.committed)} records committed before, {len(gone)} lost; {len(toll.taken)} exchanges"
        f" in the spool at a kill, {len(undone)} of their comparisons missing; {len(found) - len(set(found))} duplicates; {lost:.0f} of {sampled:.0f}"
        f" sampled lost_on_crash; clients: {toll.answers} answers, {toll.cut} cut"
    )
    figure("row 17", line)
    assert not gone, line
    assert not undone, line
    assert len(found) == len(set(found)), line
    assert toll.taken, line
