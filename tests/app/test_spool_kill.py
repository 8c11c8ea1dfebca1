"""Work that was taken survives a SIGKILL of any process, is done once, and is left on disk by nobody."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import orjson

from proxy.demo.proxy_process import ProxyProcess
from tests.running import parhelion, post, toy, until
from tests.whole import CHAT, kill, law, settle, shadows

SHORT = CHAT | {"max_tokens": 3}


def ask(proxy: ProxyProcess, count: int) -> None:
    for _ in range(count):
        assert post(f"{proxy.clients}/v1/chat/completions", SHORT)[0] == 200


def spooled(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.endswith(".spool")]


def taken_up(proxy: ProxyProcess) -> int:
    return proxy.log.read_bytes().count(b'"event":"spool_taken_up","exchanges":20,')


def exchanges(proxy: ProxyProcess) -> list[tuple[str, str, str]]:
    """Exchange, shadow and mode of every record."""
    page = orjson.loads(proxy.get("/api/v1/records?limit=1000"))
    return [(one["exchange"], one["shadow"], one["mode"]) for one in page["records"]]


def test_a_judge_that_is_killed_over_and_over_loses_nothing_it_had_taken(tmp_path: Path) -> None:
    with toy() as primary, toy() as candidate, toy() as control:
        arms = shadows(candidate, control)
        with parhelion(tmp_path, primary, arms) as proxy:
            proxy.wait_known(["primary", "cand", "control"], 30)
            assert post(f"{candidate}/ill/hang", b"")[0] == 200
            ask(proxy, 20)
            until(lambda: proxy.metric("parhelion_spool_exchanges") == 20, what="all to be taken")
            assert spooled(tmp_path / "spool")
            for times in (1, 2):
                kill(proxy, "judge")
                until(lambda times=times: taken_up(proxy) == times, what="another judge to take them up")
            assert post(f"{candidate}/ill/well", b"")[0] == 200
            kill(proxy, "judge")
            settle(proxy, 20)
            law(proxy)
            assert proxy.metric("parhelion_shed_total", reason="lost_on_crash") == 0
            assert taken_up(proxy) == 3
            assert proxy.metric("parhelion_compared_total") == 80
            found = exchanges(proxy)
            assert len(found) == len(set(found))
            until(lambda: not spooled(tmp_path / "spool"), what="the spool to be empty")


def test_what_a_stop_leaves_is_done_by_the_next_start(tmp_path: Path) -> None:
    with toy() as primary, toy() as candidate, toy() as control:
        arms = shadows(candidate, control)
        with parhelion(tmp_path, primary, arms) as proxy:
            proxy.wait_known(["primary", "cand", "control"], 30)
            assert post(f"{candidate}/ill/hang", b"")[0] == 200
            ask(proxy, 7)
            until(lambda: proxy.metric("parhelion_spool_exchanges") == 7, what="all to be taken")
            assert proxy.stop() == 0
        assert spooled(tmp_path / "spool")
        assert post(f"{candidate}/ill/well", b"")[0] == 200
        with parhelion(tmp_path, primary, arms) as proxy:
            proxy.wait_known(["primary", "cand", "control"], 30)
            settle(proxy, 7)
            law(proxy)
            assert proxy.metric("parhelion_shed_total", reason="shutdown") == 0
            assert proxy.metric("parhelion_shed_total", reason="lost_on_crash") == 0


def test_everything_killed_at_once_is_taken_up_by_the_next_start(tmp_path: Path) -> None:
    with toy() as primary, toy() as candidate, toy() as control:
        arms = shadows(candidate, control)
        with parhelion(tmp_path, primary, arms) as proxy:
            proxy.wait_known(["primary", "cand", "control"], 30)
            ask(proxy, 5)
            settle(proxy, 5)
            before = exchanges(proxy)
            assert post(f"{candidate}/ill/hang", b"")[0] == 200
            ask(proxy, 6)
            until(lambda: proxy.metric("parhelion_spool_exchanges") == 6, what="all to be taken")
            assert proxy.metric("parhelion_in_flight", shadow="cand", mode="free") == 6
            os.killpg(proxy._process.pid, signal.SIGKILL)
            proxy._process.wait()
        time.sleep(0.2)
        assert post(f"{candidate}/ill/well", b"")[0] == 200
        with parhelion(tmp_path, primary, arms) as proxy:
            settle(proxy, 11)
            law(proxy)
            assert proxy.metric("parhelion_compared_total") == 44
            until(lambda: proxy.metric("parhelion_spool_replayed_total") == 6, what="it to be said")
            found = exchanges(proxy)
            assert set(before) <= set(found)
            assert len(found) == len(set(found))
            assert proxy.metric("parhelion_shed_total", reason="lost_on_crash") == 0


def test_without_a_spool_what_is_lost_is_counted(tmp_path: Path) -> None:
    with (
        toy() as primary,
        toy() as candidate,
        toy() as control,
        parhelion(tmp_path, primary, shadows(candidate, control), spool=None) as proxy,
    ):
        proxy.wait_known(["primary", "cand", "control"], 30)
        assert post(f"{candidate}/ill/hang", b"")[0] == 200
        ask(proxy, 6)
        until(lambda: proxy.metric("parhelion_judge_in_flight", shadow="cand", mode="free") == 6, what="the taking")
        assert post(f"{candidate}/ill/well", b"")[0] == 200
        kill(proxy, "judge")
        settle(proxy, 6)
        law(proxy)
        assert proxy.metric("parhelion_shed_total", reason="lost_on_crash") == 24
        assert not (tmp_path / "spool").exists()


def test_a_spool_that_cannot_be_had_is_said_and_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        toy() as primary,
        toy() as candidate,
        toy() as control,
        parhelion(tmp_path, primary, shadows(candidate, control), spool={"path": str(tmp_path / "file")}) as proxy,
    ):
        proxy.wait_known(["primary", "cand", "control"], 30)
        ask(proxy, 4)
        settle(proxy, 4)
        law(proxy)
        assert proxy.metric("parhelion_compared_total") == 16
        until(lambda: proxy.metric("parhelion_spool_skipped_total", reason="error") == 4, what="the count")
        assert b"spool_unusable" in proxy.log.read_bytes()
