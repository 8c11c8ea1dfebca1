"""A running proxy seen from outside: its processes, what they hold, what its metrics say; and an engine beside it that can fall ill."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from proxy.demo.proxy_process import ProxyProcess
from tests.running import ROOT, until

_PAGE = os.sysconf("SC_PAGE_SIZE")
MIB = 1 << 20


class Sick:
    """The far end of ``tests.isolation.ailing``."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.pid = process.pid
        self.port = int(self._answer())

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def tls_url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def become(self, state: str) -> None:
        """Fall ill in some way, or get well; open connections are closed by it."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{state}\n".encode())
        self._process.stdin.flush()
        assert self._answer() == state

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().decode().strip()


@contextmanager
def sick(pace: float = 0.0, noise: float = 0.0, certificates: Path | None = None) -> Iterator[Sick]:
    """An engine that is well until told otherwise; ``noise`` in nats makes its words differ from those of one without."""
    words = [sys.executable, "-m", "tests.isolation.ailing", "--pace", str(pace), "--noise", str(noise)]
    words += ["--certificates", str(certificates)] if certificates else []
    process = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield Sick(process)
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


class Metrics:
    """One reading of ``/metrics``, so that all its numbers are of one moment."""

    def __init__(self, proxy: ProxyProcess) -> None:
        page = proxy.get("/metrics").decode()
        self.samples = [one for family in text_string_to_metric_families(page) for one in family.samples]

    def sum(self, name: str, **labels: str) -> int:
        """The sum of a metric's samples that carry these labels."""
        full = f"parhelion_{name}"
        return int(
            sum(
                one.value
                for one in self.samples
                if one.name == full and all(one.labels.get(key) == value for key, value in labels.items())
            )
        )

    def by(self, name: str, label: str, **labels: str) -> dict[str, int]:
        """That sum for each value of a label; zeros left out."""
        full = f"parhelion_{name}"
        values = {one.labels[label] for one in self.samples if one.name == full}
        found = {value: self.sum(name, **{label: value}, **labels) for value in sorted(values)}
        return {value: n for value, n in found.items() if n}

    def ended(self, shadow: str, mode: str = "free") -> dict[str, int]:
        """What became of every sampled exchange of an arm, by outcome or reason."""
        compared = {"compared": self.sum("compared_total", shadow=shadow, mode=mode)}
        why = {
            f"{name}:{reason}": n
            for name in ("incomparable", "shed")
            for reason, n in self.by(f"{name}_total", "reason", shadow=shadow, mode=mode).items()
        }
        return compared | why


def settled(proxy: ProxyProcess, received: int | None = None, seconds: float = 60.0) -> Metrics:
    """Wait until ``received`` requests (None: however many) are counted and nothing is under way; then the law must hold exactly for every arm."""

    def at_rest() -> bool:
        seen = Metrics(proxy)
        counted = seen.sum("received_total")
        return counted >= (received or 0) and seen.sum("store_up") == 1 and not seen.sum("in_flight")

    until(at_rest, seconds, "the settling")
    seen = Metrics(proxy)
    if received is None:
        received = seen.sum("received_total")
    assert seen.sum("received_total") == received
    sampled = seen.sum("sampled_total")
    assert received == seen.sum("not_sampled_total") + sampled + seen.sum("undecided")
    arms = {
        (one.labels["shadow"], one.labels["mode"]) for one in seen.samples if one.name == "parhelion_compared_total"
    }
    for shadow, mode in arms:
        assert sum(seen.ended(shadow, mode).values()) == sampled, (shadow, mode, seen.ended(shadow, mode), sampled)
    return seen


class Processes:
    """The process tree of a proxy, looked at through ``/proc``."""

    def __init__(self, proxy: ProxyProcess) -> None:
        self._state = Path(_state_of(proxy))
        self.supervisor = proxy._process.pid

    def pid(self, role: str) -> int:
        """The child with this role, once there is one: the judge holds a lock of its own, the traffic process has its counters open. Never 0, which would be ourselves."""
        found = 0

        def look() -> bool:
            nonlocal found
            found = self.find(role)
            return found > 1

        until(look, 20, f"a {role} process")
        return found

    def find(self, role: str) -> int:
        """The child with this role, 0 while there is none."""
        try:
            children = Path(f"/proc/{self.supervisor}/task/{self.supervisor}/children").read_text().split()
        except OSError:
            return 0
        for child in children:
            files = _files(int(child))
            judges = str(self._state / "judge" / "lock") in files
            counting = any(name.startswith(str(self._state / "counters")) for name in files)
            if judges if role == "judge" else counting and not judges:
                return int(child)
        return 0


def _state_of(proxy: ProxyProcess) -> str:
    return proxy.config.read_text().split("state: ")[1].split("\n")[0]


def _files(pid: int) -> list[str]:
    try:
        there = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return []
    found: list[str] = []
    for one in there:
        with suppress(OSError):  # closed since: it is one less, and not none
            found.append(str(one.readlink()))
    return found


def descriptors(pid: int) -> int:
    """How many descriptors a process holds; 0 when it is gone."""
    return len(_files(pid))


def connections(pid: int) -> int:
    """How many TCP sockets a process holds, listening ones included (proc(5): the inode is the tenth column of ``/proc/net/tcp``)."""
    held = {name.removeprefix("socket:[").removesuffix("]") for name in _files(pid) if name.startswith("socket:[")}
    return sum(line.split()[9] in held for line in Path("/proc/net/tcp").read_text().splitlines()[1:])


def resident(pid: int) -> int:
    """Resident memory in bytes; 0 when the process is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except OSError:
        return 0


def threads(pid: int) -> int:
    """How many threads a process has; 0 when it is gone."""
    try:
        return len(list(Path(f"/proc/{pid}/task").iterdir()))
    except OSError:
        return 0


def arms(shadow: str, **changes: Any) -> list[dict[str, Any]]:
    """One candidate that runs free, with a deadline a test can wait for."""
    return [{"name": "cand", "url": shadow, "engine": "reference", "modes": ["free"], "deadline": 1.0} | changes]
