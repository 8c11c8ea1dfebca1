"""A replay for tests: a file of requests, scripted engines, the command as a user calls it, and what two reports have in common."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from proxy.ledger.store import Store
from proxy.ledger.store_error import StoreError
from tests.replay.test_traffic import lines
from tests.running import ROOT, scripted

#: Keys of a report that are times, or of when it was run.
_WHEN = frozenset({"time", "latency", "since", "last", "replay", "command"})


def requests(file: Path, count: int, **fields: Any) -> Path:
    """Write a file of chats, every other one streamed."""
    bodies = [
        {"model": "toy", "messages": [{"role": "user", "content": f"Question {n}, about halos."}], "temperature": 0,
         "max_tokens": 30, "stream": n % 2 == 0} | fields
        for n in range(count)
    ]  # fmt: skip
    file.write_bytes(lines(*bodies))
    return file


@contextmanager
def engines(directory: Path, **more: Any) -> Iterator[list[str]]:
    """A primary, a noisy candidate and a control that is a little noisy: as flags. ``more``: what a script says besides, by engine."""
    scripts = {}
    for name, noise in (("primary", 0.0), ("candidate", 0.05), ("control", 0.01)):
        scripts[name] = directory / f"{name}.yaml"
        scripts[name].write_text(json.dumps({"differences": {"noise": noise}} | more.get(name, {})))
    with ExitStack() as stack:
        primary, candidate, control = (stack.enter_context(scripted("vllm", one)) for one in scripts.values())
        yield ["--primary", primary, "--shadow", f"candidate={candidate}", "--control", control]


def replay(*words: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """The command to its end."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "proxy.cli", "replay", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        **options,
    )


def put(engine: str, script: dict[str, Any]) -> None:
    """Have a scripted engine go on by another script."""
    request = urllib.request.Request(f"{engine}/scripted/script", data=json.dumps(script).encode(), method="PUT")
    with urllib.request.urlopen(request, timeout=30) as reply:
        assert reply.status == 200


def settled(out: Path) -> int:
    """How many requests a store says are done; 0 before it is one."""
    if not out.exists() or not out.stat().st_size:
        return 0
    with suppress(StoreError), Store.open_read_only(f"sqlite:///{out}") as store:
        return len(store.spooled())
    return 0


def timeless(value: Any) -> Any:
    """A report without what is a time; of evidence over the time what it has come to: how it came there is a matter of minutes on the clock."""
    if isinstance(value, dict):
        kept = value | ({"over_time": value["over_time"][-1:]} if "over_time" in value else {})
        return {key: timeless(inner) for key, inner in kept.items() if key not in _WHEN}
    if isinstance(value, list):
        return [timeless(inner) for inner in value]
    return value


def report(file: Path) -> dict[str, Any]:
    """Read a report."""
    found: dict[str, Any] = json.loads(file.read_bytes())
    return found
