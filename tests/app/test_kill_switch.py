"""The kill switch of a running proxy: at once, in every process, across restarts, and every exchange still counted."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import orjson

from proxy.demo.proxy_process import ProxyProcess
from tests.app.under_load import load
from tests.running import parhelion, post, toy, until
from tests.whole import CHAT, child, kill, law, settle, shadows

TOKEN = "a-token-of-this-test"
SHORT = CHAT | {"max_tokens": 3}
ALLOWED = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}


def turn(proxy: ProxyProcess, change: Any, **headers: str) -> tuple[int, dict[str, Any]]:
    """POST a change; status and JSON."""
    named = ALLOWED | {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(f"{proxy.admin}/api/v1/mirror", orjson.dumps(change), named, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            return reply.status, orjson.loads(reply.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, orjson.loads(error.read())


def ask(proxy: ProxyProcess, count: int) -> None:
    for _ in range(count):
        assert post(f"{proxy.clients}/v1/chat/completions", SHORT)[0] == 200


def test_all_mirroring_stops_at_once_and_stays_stopped_across_deaths_and_a_restart(tmp_path: Path) -> None:
    with toy() as primary, toy() as candidate, toy() as control:
        settings = {"admin_token": TOKEN, "processes": 2}
        with parhelion(tmp_path, primary, shadows(candidate, control), **settings) as proxy:
            proxy.wait_known(["primary", "cand", "control"], 30)
            ask(proxy, 4)
            settle(proxy, 4)
            status, said = turn(proxy, {"enabled": False})
            assert (status, said["enabled"], said["shadows"]) == (200, False, {"cand": False, "control": False})
            assert said["survives_restart"]
            ask(proxy, 8)
            assert proxy.metric("parhelion_sampled_total") == 4
            assert proxy.metric("parhelion_not_sampled_total") == 8
            assert proxy.metric("parhelion_mirror_enabled") == 0
            for role in ("judge", "traffic"):
                old = kill(proxy, role)
                until(lambda role=role, old=old: child(proxy, role, old) != 0, what=f"a new {role}")
            ask(proxy, 8)
            assert proxy.metric("parhelion_sampled_total") == 4
            assert proxy.stop() == 0
        with parhelion(tmp_path, primary, shadows(candidate, control), **settings) as proxy:
            assert orjson.loads(proxy.get("/api/v1/mirror"))["enabled"] is False
            ask(proxy, 2)
            assert turn(proxy, {"enabled": True})[1]["shadows"] == {"cand": True, "control": True}
            proxy.wait_known(["primary", "cand", "control"], 30)
            ask(proxy, 3)
            settle(proxy, 7)
            law(proxy)
            assert proxy.metric("parhelion_sampled_total") == 7
            assert proxy.metric("parhelion_mirror_enabled") == 2


def test_one_shadow_is_left_alone_and_the_others_are_compared_on(tmp_path: Path) -> None:
    with (
        toy() as primary,
        toy() as candidate,
        toy() as control,
        parhelion(tmp_path, primary, shadows(candidate, control), admin_token=TOKEN) as proxy,
    ):
        proxy.wait_known(["primary", "cand", "control"], 30)
        ask(proxy, 2)
        settle(proxy, 2)
        assert turn(proxy, {"enabled": False, "shadow": "cand"})[1]["shadows"] == {"cand": False, "control": True}
        ask(proxy, 5)
        settle(proxy, 7)
        assert proxy.metric("parhelion_shed_total", shadow="cand", reason="kill_switch") == 10
        assert proxy.metric("parhelion_compared_total", shadow="control") == 14
        assert proxy.metric("parhelion_mirror_enabled", shadow="cand") == 0
        turn(proxy, {"enabled": True, "shadow": "cand"})
        ask(proxy, 1)
        settle(proxy, 8)
        law(proxy)
        assert proxy.metric("parhelion_compared_total", shadow="cand") == 6


def test_what_is_under_way_is_broken_off_within_a_second(tmp_path: Path) -> None:
    with (
        toy() as primary,
        toy() as control,
        toy() as candidate,
        parhelion(tmp_path, primary, shadows(candidate, control), admin_token=TOKEN) as proxy,
    ):
        proxy.wait_known(["primary", "cand", "control"], 30)
        assert post(f"{candidate}/ill/hang", b"")[0] == 200
        ask(proxy, 6)
        until(lambda: proxy.metric("parhelion_judge_in_flight", shadow="cand") == 12, what="the shadow to be asked")
        began = time.monotonic()
        turn(proxy, {"enabled": False})
        settle(proxy, 6)
        took = time.monotonic() - began
        assert took < 10, took  # the shadow's own deadline is 120 s
        assert proxy.metric("parhelion_shed_total", reason="kill_switch") == 24
        law(proxy)


def test_turning_it_under_load_loses_nothing_and_touches_no_client(tmp_path: Path) -> None:
    with (
        toy() as primary,
        toy() as candidate,
        toy() as control,
        parhelion(tmp_path, primary, shadows(candidate, control), admin_token=TOKEN) as proxy,
    ):
        proxy.wait_known(["primary", "cand", "control"], 30)
        with load(f"{proxy.clients}/v1/chat/completions", SHORT) as clients:
            for number in range(12):
                name = [None, "cand", "control"][number % 3]
                for enabled in (False, True):
                    change = {"enabled": enabled} | ({"shadow": name} if name else {})
                    assert turn(proxy, change)[0] == 200
                    time.sleep(0.1)
        assert not clients.failures
        settle(proxy, 1)
        law(proxy)
        assert proxy.metric("parhelion_received_total") == clients.count


def test_who_may_turn_it(tmp_path: Path) -> None:
    with toy() as primary, parhelion(tmp_path, primary, shadows(primary, primary), admin_token=TOKEN) as proxy:
        off = {"enabled": False}
        port = proxy.admin.rpartition(":")[2]
        for status, headers in (
            (401, {"Authorization": ""}),
            (401, {"Authorization": "Bearer wrong"}),
            (403, {"Origin": "https://evil.example"}),
            (403, {"Origin": "null"}),
            (421, {"Host": f"evil.example:{port}"}),
        ):
            assert turn(proxy, off, **headers)[0] == status, headers
        assert turn(proxy, off, Origin=proxy.admin)[0] == 200
        for change in ({}, [], {"enabled": "no"}, {"enabled": False, "shadow": 1}, {"enabled": False, "all": True}):
            assert turn(proxy, change)[0] == 400, change
        status, said = turn(proxy, {"enabled": False, "shadow": "nobody"})
        assert (status, said["error"]) == (400, "no shadow has that name; configured are: cand, control")
        assert turn(proxy, {"enabled": False, "shadow": "x" * 5000})[0] == 413


def test_without_a_token_nothing_can_be_changed_and_it_says_how_to_have_one(tmp_path: Path) -> None:
    with toy() as primary, parhelion(tmp_path, primary, shadows(primary, primary)) as proxy:
        status, said = turn(proxy, {"enabled": False})
        assert status == 403
        assert "admin_token: ${PARHELION_ADMIN_TOKEN}" in said["error"]
        assert proxy.metric("parhelion_mirror_enabled") == 2


def test_another_roles_supervisor_turns_it_too(tmp_path: Path) -> None:
    """Traffic and judge in containers of their own share the state directory and nothing else."""
    with toy() as primary, parhelion(tmp_path, primary, shadows(primary, primary), admin_token=TOKEN) as proxy:
        (tmp_path / "state" / "mirror.json").write_text('{"enabled": false}')
        until(lambda: proxy.metric("parhelion_mirror_enabled") == 0, 5, "the file to be seen")
        ask(proxy, 2)
        assert proxy.metric("parhelion_sampled_total") == 0
        (tmp_path / "state" / "mirror.json").write_text("{")
        until(lambda: b"switch_unreadable" in proxy.log.read_bytes(), 5, "the damage to be seen")
        ask(proxy, 1)
        assert proxy.metric("parhelion_sampled_total") == 0
