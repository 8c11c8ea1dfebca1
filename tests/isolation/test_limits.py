"""Every limit bounds what it says, each loss is counted under its own reason, and what must outlive a judge does."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import uvloop

from proxy.demo.proxy_process import ProxyProcess
from tests.isolation import load, watch
from tests.isolation.stage import MIB, Metrics, Processes, Sick, arms, settled, sick
from tests.isolation.threaded import threaded
from tests.running import parhelion, post, until
from tests.wire.engine import Connection, reply

Figure = Callable[[str, str], None]

TOKENS = 8  # of each reply of the toy
ALLOWANCE = 64 * MIB  # beside what a limit bounds


@contextmanager
def limited(
    primary: Sick, shadow: str, directory: Path, deadline: float = 10.0, **limits: Any
) -> Iterator[ProxyProcess]:
    shadows = arms(shadow, engine="openai", deadline=deadline)
    with parhelion(directory, primary.url, shadows, limits=limits) as proxy:
        proxy.wait_known(["primary", "cand"], 30)
        yield proxy


def ask(proxy: ProxyProcess, primary: Sick, count: int, at_once: int = 8) -> None:
    wanted, tally = uvloop.run(load.expect(primary.url)), load.Tally()
    uvloop.run(load.drive(proxy.clients, count, wanted, tally, at_once=at_once))
    assert (tally.failed, tally.wrong) == (0, [])


def test_in_flight(primary: Sick, tmp_path: Path, figure: Figure) -> None:
    """A shadow that takes its time never has more than so many connections."""
    with sick(pace=0.01) as shadow, limited(primary, shadow.url, tmp_path, in_flight=3) as proxy:
        with watch.growth(proxy, shadow.port) as grown:
            ask(proxy, primary, 60, at_once=32)
            seen = settled(proxy, 60)
        figure("limits", f"in_flight 3: {grown.connections} connections at most; {seen.ended('cand')}")
        assert seen.ended("cand") == {"compared": 60}
        assert grown.connections == 3


def test_requests_per_second(primary: Sick, tmp_path: Path, figure: Figure) -> None:
    with sick() as shadow, limited(primary, shadow.url, tmp_path, requests_per_second=20.0) as proxy:
        began, received = time.monotonic(), 0
        while time.monotonic() - began < 3.0:
            ask(proxy, primary, 50)
            received += 50
        ended = settled(proxy, received).ended("cand")
        took = time.monotonic() - began
        figure("limits", f"requests_per_second 20: {ended['compared']} requests in {took:.1f} s; {ended}")
        assert 20 <= ended["compared"] <= 20 * (took + 1.0)
        assert ended.keys() == {"compared", "shed:rate_limit"}


def test_tokens_per_day_outlive_the_judge(primary: Sick, tmp_path: Path, figure: Figure) -> None:
    with sick() as shadow, limited(primary, shadow.url, tmp_path, tokens_per_day=100) as proxy:
        ask(proxy, primary, 100, at_once=16)
        first = settled(proxy, 100).ended("cand")
        assert first.keys() == {"compared", "shed:token_budget"}
        assert 80 < first["compared"] * TOKENS <= 100
        processes = Processes(proxy)
        judge = processes.pid("judge")
        os.kill(judge, signal.SIGKILL)
        until(lambda: processes.pid("judge") != judge, what="another judge")
        proxy.wait_known(["primary", "cand"], 30)
        until(lambda: Metrics(proxy).sum("judge_snapshot_age_seconds") < 2, what="its first word")
        ask(proxy, primary, 50)
        ended = settled(proxy, 150).ended("cand")
        figure(
            "limits", f"tokens_per_day 100 (replies of {TOKENS}), the judge killed after 100 of 150 requests: {ended}"
        )
        assert first["compared"] <= ended["compared"] <= 100 // TOKENS
        assert ended.keys() <= {"compared", "shed:token_budget", "shed:shadow_unready", "shed:lost_on_crash"}


def test_capture_bytes(primary: Sick, tmp_path: Path, figure: Figure) -> None:
    """What is longer than a capture may be is passed on whole and not captured: a request, a reply; a shadow's reply is broken off."""
    short, long = b'{"model":"m","messages":[]}', orjson.dumps({"model": "m", "messages": [], "padding": "x" * 90_000})
    answers = {"small": b'{"choices":[]}', "large": orjson.dumps({"choices": [], "padding": "y" * 90_000})}
    size = "small"

    async def behave(connection: Connection) -> None:
        while True:
            await connection.request()
            await connection.send(reply(answers[size]))

    with (
        threaded(behave) as engine,
        parhelion(tmp_path, engine.url, [], limits={"capture_bytes": 65_536}) as alone,
    ):
        assert post(f"{alone.clients}/v1/chat/completions", long)[2] == answers["small"]
    with threaded(behave) as engine, sick() as shadow:
        (tmp_path / "b").mkdir()
        with parhelion(tmp_path / "b", engine.url, arms(shadow.url), limits={"capture_bytes": 65_536}) as proxy:
            url = f"{proxy.clients}/v1/chat/completions"
            for _ in range(5):
                assert post(url, long)[2] == answers["small"]
            size = "large"
            for _ in range(5):
                assert post(url, short)[2] == answers["large"]
            ended = settled(proxy, 10).ended("cand")
            figure("limits", f"capture_bytes 64 KiB, 5 longer requests and 5 longer replies: {ended}")
            assert ended["shed:capture"] == 10


def test_a_shadows_reply_longer_than_a_capture_is_broken_off(primary: Sick, tmp_path: Path) -> None:
    with sick() as shadow, limited(primary, shadow.url, tmp_path, capture_bytes=65_536) as proxy:
        shadow.become("endless_stream")
        ask(proxy, primary, 3, at_once=1)
        assert settled(proxy, 3).ended("cand") == {"compared": 0, "incomparable:shadow_error": 3}
        until(lambda: Metrics(proxy).sum("shadow_errors_total", kind="too_large") == 3, 5, "their reason")


def test_queue_bytes(primary: Sick, tmp_path: Path, figure: Figure) -> None:
    """With the judge stopped, what waits is bounded and the newest is shed."""
    with sick() as shadow, limited(primary, shadow.url, tmp_path, queue_bytes=200_000) as proxy:
        judge = Processes(proxy).pid("judge")
        os.kill(judge, signal.SIGSTOP)
        try:
            ask(proxy, primary, 2000)
            waiting = Metrics(proxy).sum("handoff_bytes")
        finally:
            os.kill(judge, signal.SIGCONT)
        ended = settled(proxy, 2000).ended("cand")
        figure("limits", f"queue_bytes 200,000, judge stopped: {waiting} bytes waiting; {ended}")
        assert 150_000 < waiting <= 200_000
        assert ended["shed:queue"] > 0


def test_long_bodies_for_a_shadow_that_never_reads(primary: Sick, tmp_path: Path, figure: Figure) -> None:
    """``queue_bytes`` bounds what all processes hold together: what is being sent, what waits behind it, and what waits for the judge."""
    queue = 64 * MIB
    corpus = [load.chat("long " * 200_000, stream=False)]
    wanted, tally = uvloop.run(load.expect(primary.url, corpus)), load.Tally()
    with (
        sick() as shadow,
        limited(primary, shadow.url, tmp_path, deadline=60.0, in_flight=64, queue_bytes=queue) as proxy,
    ):
        shadow.become("deaf")
        with watch.growth(proxy, shadow.port) as grown:
            uvloop.run(load.drive(proxy.clients, 200, wanted, tally, corpus=corpus, at_once=4))
            time.sleep(0.5)
        seen = Metrics(proxy)
        shadow.become("refuse")  # what it never read is cut, so that all is settled without waiting for a deadline
        ended = settled(proxy, 200).ended("cand")
        figure(
            "limits",
            f"queue_bytes 64 MiB, 200 requests of 1 MB to a shadow that never reads: {grown.together / MIB:.0f} MiB more in all, {grown}; {ended}",
        )
        assert (tally.failed, tally.wrong) == (0, [])
        assert grown.together <= queue + ALLOWANCE
        assert grown.connections > 8  # and it is made use of
        assert seen.sum("handoff_bytes") < queue // 2
        assert ended["shed:queue"] > 0
