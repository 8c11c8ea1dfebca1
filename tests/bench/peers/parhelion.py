"""Parhelion from this checkout, started as users start it: ``parhelion serve`` with a configuration file.

Reading tokens, comparing and storing are counted apart when the judge tells them; all that moves a mirrored byte is not.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from proxy.demo.proxy_process import ProxyProcess
from tests.bench import cores, processes
from tests.bench.peers.peer import Peer, Setting

_APART = ("compare", "store")


@contextlib.contextmanager
def start(
    setting: Setting,
    rate: float,
    name: str,
    *,
    on: set[int] = cores.PEER,
    shadows: int = 1,
    **settings: Any,
) -> Iterator[Peer]:
    """One replica with one traffic process unless told otherwise. ``settings`` go over the configuration's top level."""
    shadow = {"name": "shadow", "url": f"http://127.0.0.1:{setting.shadow}", "engine": "openai", "modes": ["free"]}
    whole = {
        "listen": "127.0.0.1:0",
        "admin": "127.0.0.1:0",
        "state": str(setting.folder / "state"),
        "drain": 1,
        "primary": {"url": f"http://127.0.0.1:{setting.primary}", "engine": "openai"},
        "shadows": [shadow] * shadows,
        "sampling": {"rate": rate},
        # A closed loop asks for more than a comparison can follow: what waits must fit, so that all of it is measured.
        "limits": {"in_flight": 256, "queue_bytes": "4GiB", "capture_bytes": "8MiB"},
        "records": {"url": f"sqlite:///{setting.folder / 'records.db'}"},
    }
    with cores.pinned(on):
        proxy = ProxyProcess(whole | settings, setting.folder)
    with proxy:
        proxy.wait_known(["primary", *(["shadow"] if shadows else [])], 30)
        yield Peer(
            name,
            int(proxy.clients.rpartition(":")[2]),
            proxy._process.pid,
            mirrors=rate > 0,
            apart=lambda: _apart(proxy),
            live=tuple(pid for pid in processes.tree(proxy._process.pid) if _answers_clients(pid)),
        )


def _apart(proxy: ProxyProcess) -> float:
    return sum(proxy.metric("parhelion_judge_cpu_seconds_total", stage=stage) for stage in _APART)


def _answers_clients(pid: int) -> bool:
    """A traffic process maps the file of its counters."""
    return "/counters/traffic" in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8")


def all_mirrored(setting: Setting) -> contextlib.AbstractContextManager[Peer]:
    """Every request mirrored."""
    return start(setting, 1.0, "parhelion")


def none_mirrored(setting: Setting) -> contextlib.AbstractContextManager[Peer]:
    """A shadow is configured, and a sample of 0 %."""
    return start(setting, 0.0, "parhelion-0%")


def one_on_two_cores(setting: Setting) -> contextlib.AbstractContextManager[Peer]:
    """One traffic process that may use either core."""
    return start(setting, 1.0, "parhelion-1", on=cores.BOTH)


def two_on_two_cores(setting: Setting) -> contextlib.AbstractContextManager[Peer]:
    """Two traffic processes."""
    return start(setting, 1.0, "parhelion-2", on=cores.BOTH, processes=2)


def many_streams(setting: Setting) -> contextlib.AbstractContextManager[Peer]:
    """Every request mirrored, more than a thousand at once."""
    limits = {"in_flight": 1200, "queue_bytes": "4GiB", "capture_bytes": "8MiB"}
    return start(setting, 1.0, "parhelion", limits=limits)
