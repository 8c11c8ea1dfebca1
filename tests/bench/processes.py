"""What a process and all its descendants have used: CPU by the scheduler's own clock, resident memory, open sockets.

House rules. Reads /proc and nothing else. CPU is the sum of run times of all live threads (``schedstat``, nanoseconds), so that there is no tick to round to.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable
from pathlib import Path

_PROC = Path("/proc")


def tree(root: int) -> list[int]:
    """``root`` and all that descend from it."""
    children: dict[int, list[int]] = {}
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found, todo = [], [root]
    while todo:
        found.append(todo.pop())
        todo += children.get(found[-1], [])
    return found


def cpu(root: int) -> float:
    """Seconds of CPU of the whole tree so far."""
    return own_cpu(tree(root))


def own_cpu(pids: Iterable[int]) -> float:
    """Seconds of CPU of these processes, without their descendants."""
    return sum(map(_run_time, pids)) / 1e9


def _run_time(pid: int) -> int:
    total = 0
    with contextlib.suppress(OSError):
        for thread in (_PROC / str(pid) / "task").iterdir():
            with contextlib.suppress(OSError):
                total += int((thread / "schedstat").read_text().split()[0])
    return total


def settled(root: int, *, window: float = 0.2, idle: float = 0.05, limit: float = 30.0) -> float:
    """Wait until the tree uses less than a share ``idle`` of a core; its CPU seconds then, or after ``limit`` seconds."""
    end = time.monotonic() + limit
    before = cpu(root)
    while True:
        time.sleep(window)
        after = cpu(root)
        if after - before < idle * window or time.monotonic() > end:
            return after
        before = after


def resident(pids: list[int]) -> float:
    """Megabytes resident, summed over processes."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            for line in (_PROC / str(pid) / "status").read_text().splitlines():
                if line.startswith("VmRSS:"):
                    total += int(line.split()[1])
    return total / 1024
