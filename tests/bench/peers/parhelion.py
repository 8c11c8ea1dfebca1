"""Parhelion from this checkout, started as users start it: ``parhelion serve`` with a configuration file.

Reading tokens, comparing and storing are counted apart when the judge tells them; all that moves a mirrored byte is not.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest import mock

from proxy.config import Limits
from proxy.demo.proxy_process import ProxyProcess
from proxy.ledger.judge_metrics import SNAPSHOT
from tests.bench import cores, processes
from tests.bench.peers.peer import Peer, Setting

#: Mirrored calls at once, by default.
IN_FLIGHT = Limits().in_flight
#: A closed loop asks for more than a comparison can follow: what waits must fit, so that all of it is measured.
_ROOM = {"in_flight": 256, "queue_bytes": "4GiB", "capture_bytes": "8MiB"}


@contextlib.contextmanager
def start(
    setting: Setting,
    rate: float,
    name: str,
    *,
    on: set[int] = cores.PEER,
    awaited: bool = True,
    scheme: str = "http",
    logprobs: str = "client",
    limits: dict[str, Any] | None = None,
    processes_: int = 1,
) -> Iterator[Peer]:
    """One replica. ``awaited``: its mirrored requests are waited for; ``limits`` None have room for a closed loop, ``{}`` are the default."""
    primary, shadow = (f"{scheme}://127.0.0.1:{port}" for port in (setting.primary, setting.shadow))
    # As of engines of which it is known, by the probe or by declaration: else values are not compared, and the judge does another work.
    declare = {"logprob_mode": "raw"}
    whole = {
        "listen": "127.0.0.1:0",
        "admin": "127.0.0.1:0",
        "processes": processes_,
        "state": str(setting.folder / "state"),
        "spool": {"path": str(setting.folder / "spool")},
        "drain": 1,
        "primary": {"url": primary, "engine": "openai", "logprobs": logprobs, "declare": declare},
        "shadows": [{"name": "shadow", "url": shadow, "engine": "openai", "modes": ["free"], "declare": declare}],
        "sampling": {"rate": rate},
        "limits": _ROOM if limits is None else limits,
        "records": {"url": f"sqlite:///{setting.folder / 'records.db'}"},
    }
    with cores.pinned(on):
        proxy = ProxyProcess(whole, setting.folder)
    with proxy:
        proxy.wait_known(["primary", "shadow"], 30)
        pid = proxy._process.pid
        yield Peer(
            name,
            int(proxy.clients.rpartition(":")[2]),
            pid,
            mirrors=rate > 0 and awaited,
            metric=proxy.metric,
            told=lambda: _told(setting.folder / "state" / SNAPSHOT),
            live=tuple(child for child in processes.tree(pid) if _answers_clients(child)),
        )


def _told(snapshot: Path) -> None:
    """Wait for the judge's next snapshot, which it writes once a second."""
    since, limit = time.time_ns(), time.monotonic() + 3
    while time.monotonic() < limit and snapshot.stat().st_mtime_ns < since:
        time.sleep(0.05)


def _answers_clients(pid: int) -> bool:
    """A traffic process maps the file of its counters; so does the judge, to acknowledge, and that one holds a lock too."""
    judges = any(str(one.readlink()).endswith("/judge/lock") for one in Path(f"/proc/{pid}/fd").iterdir())
    return not judges and "/counters/traffic" in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8")


def all_mirrored(setting: Setting) -> AbstractContextManager[Peer]:
    """Every request mirrored."""
    return start(setting, 1.0, "parhelion")


def none_mirrored(setting: Setting) -> AbstractContextManager[Peer]:
    """A shadow is configured, and a sample of 0 %."""
    return start(setting, 0.0, "parhelion-0%")


def one_on_two_cores(setting: Setting) -> AbstractContextManager[Peer]:
    """One traffic process that may use either core."""
    return start(setting, 1.0, "parhelion-1", on=cores.BOTH)


def two_on_two_cores(setting: Setting) -> AbstractContextManager[Peer]:
    """Two traffic processes."""
    return start(setting, 1.0, "parhelion-2", on=cores.BOTH, processes_=2)


def many_streams(setting: Setting) -> AbstractContextManager[Peer]:
    """Every request mirrored, more than a thousand at once."""
    return start(setting, 1.0, "parhelion", limits=_ROOM | {"in_flight": 1200})


def injecting(setting: Setting) -> AbstractContextManager[Peer]:
    """Every request mirrored; logprobs asked for on our account and taken out again."""
    return start(setting, 1.0, "parhelion-inject", logprobs="inject")


def saturated(setting: Setting) -> AbstractContextManager[Peer]:
    """Every request mirrored, a small queue, nobody waits for what is in it."""
    return start(setting, 1.0, "saturated", awaited=False, limits={"queue_bytes": "32MiB"})


@contextlib.contextmanager
def comparator_off(setting: Setting) -> Iterator[Peer]:
    """The same with a judge that mirrors and reads just as much and compares nothing: what has been answered waits and, when there is no room, is dropped."""
    (setting.folder / "sitecustomize.py").write_text(_COMPARES_NOTHING)
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(setting.folder)]))
    with contextlib.ExitStack() as stack:
        with mock.patch.dict(os.environ, PYTHONPATH=path):
            own = start(setting, 1.0, "comparator-off", awaited=False, limits={"queue_bytes": "32MiB"})
            peer = stack.enter_context(own)
        yield peer


#: What Python runs first in each of its processes.
_COMPARES_NOTHING = """
import sys
if any(word.startswith("judge") for word in sys.orig_argv):
    from proxy.judge.pipeline import Pipeline
    Pipeline._may_compare = lambda self: False
"""
