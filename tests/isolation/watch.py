"""Memory and descriptors of a proxy's processes over a stretch of time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from proxy.demo.proxy_process import ProxyProcess
from tests.isolation.stage import MIB, Processes, descriptors, resident

ROLES = ("traffic", "judge")
_EVERY = 0.1


@dataclass
class Growth:
    """By role: at the start and at the highest. A process that was replaced meanwhile is followed."""

    start: dict[str, tuple[int, int]] = field(default_factory=dict)
    highest: dict[str, tuple[int, int]] = field(default_factory=dict)
    together: int = 0  # bytes by which all of them had grown at one moment, at most
    connections: int = 0  # to the shadow's port, at most at once

    def within(self, more: int) -> None:
        """See that no process grew by more than so many bytes."""
        for role, (memory, _) in self.highest.items():
            assert memory - self.start[role][0] <= more, f"{role}: {self}"

    def __str__(self) -> str:
        words = []
        for role in self.start:
            memory, files = (high - low for high, low in zip(self.highest[role], self.start[role], strict=True))
            words.append(f"{role} {memory / MIB:+.0f} MiB {files:+d} fds")
        return ", ".join([*words, f"{self.connections} shadow connections"])


def connections_to(port: int) -> int:
    """Sockets that some process has open to a loopback port (proc(5): remote address in the third column, inode 0 when nobody holds it)."""
    rows = (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
    return sum(1 for row in rows if row[2].endswith(f":{port:04X}") and row[9] != "0")


@contextmanager
def growth(proxy: ProxyProcess, shadow_port: int = 0) -> Iterator[Growth]:
    """Look ten times a second from a thread."""
    found, processes, over = Growth(), Processes(proxy), threading.Event()
    pids = {role: processes.pid(role) for role in ROLES}
    for role, pid in pids.items():
        found.start[role] = found.highest[role] = (resident(pid), descriptors(pid))

    def look() -> None:
        while not over.wait(_EVERY):
            grown = 0
            for role, pid in pids.items():
                now = (resident(pid), descriptors(pid))
                grown += now[0] - found.start[role][0]
                found.highest[role] = max(found.highest[role][0], now[0]), max(found.highest[role][1], now[1])
            found.together = max(found.together, grown)
            if shadow_port:
                found.connections = max(found.connections, connections_to(shadow_port))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()
