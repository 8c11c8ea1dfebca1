"""What tests of a whole ``parhelion serve`` over toy engines share: a request, shadows, the law, and its processes."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from proxy.demo.proxy_process import ProxyProcess
from tests.running import until

CHAT = {
    "model": "toy",
    "messages": [{"role": "user", "content": "Tell me about halos, the sun's."}],
    "temperature": 0,
    "max_tokens": 12,
}
ARMS = [("cand", "free"), ("cand", "forced"), ("control", "free"), ("control", "forced")]


def shadows(candidate: str, control: str) -> list[dict[str, Any]]:
    return [{"name": "cand", "url": candidate}, {"name": "control", "role": "control", "url": control}]


def law(proxy: ProxyProcess, arms: Iterable[tuple[str, str]] = ARMS) -> None:
    """Received = not_sampled + sampled; and for each shadow and mode, sampled = compared + incomparable + shed."""
    sampled = proxy.metric("parhelion_sampled_total")
    assert proxy.metric("parhelion_received_total") == proxy.metric("parhelion_not_sampled_total") + sampled
    for shadow, mode in arms:
        ended = sum(
            proxy.metric(f"parhelion_{name}_total", shadow=shadow, mode=mode)
            for name in ("compared", "incomparable", "shed")
        )
        assert ended == sampled, (shadow, mode)


def settle(proxy: ProxyProcess, sampled: int) -> None:
    """Wait until nothing is under way any more, for as long as it becomes less: a machine may be slow, but work that stands still is stuck."""
    until(lambda: proxy.metric("parhelion_sampled_total") >= sampled, what="the sampling")
    left, since = proxy.open_work(), time.monotonic()
    while left:
        assert time.monotonic() - since < 60, f"nothing has settled for a minute: {standing(proxy)}"
        time.sleep(0.05)
        now = proxy.open_work()
        left, since = (now, time.monotonic()) if now < left else (left, since)


def standing(proxy: ProxyProcess) -> str:
    """Where the work stands, for whoever must find out why it does not end."""
    totals = ("received", "not_sampled", "sampled", "compared", "incomparable", "shed", "spool_replayed")
    gauges = ("in_flight", "handoff_bytes", "spool_bytes", "spool_exchanges", "shadow_circuit_open", "store_up")
    shown = {name: proxy.metric(f"parhelion_{name}_total") for name in totals}
    return str(shown | {name: proxy.metric(f"parhelion_{name}") for name in gauges})


def kill(proxy: ProxyProcess, role: str) -> int:
    """SIGKILL the child with this role, once there is one."""
    until(lambda: child(proxy, role) > 1, what=f"a {role} process")
    pid = child(proxy, role)
    assert pid > 1  # 0 would be our own process group
    os.kill(pid, signal.SIGKILL)
    return pid


def child(proxy: ProxyProcess, role: str, but: int = 0) -> int:
    """The process id of the child with this role: told by the files it holds open; 0 when there is none."""
    parent = proxy._process.pid
    state = Path(proxy.config.read_text().split("state: ")[1].split("\n")[0])
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == but:
            continue
        try:
            if f"PPid:\t{parent}\n" not in (entry / "status").read_text():
                continue
            files = [str(one.readlink()) for one in (entry / "fd").iterdir()]
        except OSError:
            continue
        judges = str(state / "judge" / "lock") in files
        counts = any(name.startswith(str(state / "counters")) for name in files)
        if judges if role == "judge" else counts and not judges:
            return int(entry.name)
    return 0
