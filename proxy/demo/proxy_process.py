"""The demo's proxy: ``parhelion serve`` as a user would start it, in a process of its own, asked over its admin port like any monitoring would."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson
import yaml

_READY = re.compile(r"clients (http://\S+) -> .*metrics (http://\S+)/metrics")
_STOP_GRACE = 40.0


_PR_SET_PDEATHSIG = 1  # prctl(2)
_libc = ctypes.CDLL(None)


def _end_with_parent() -> None:
    """Have the kernel stop the proxy when the demo dies, whatever kills it."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


class ProxyError(Exception):
    """The proxy did not start, or does not answer."""


class ProxyProcess:
    """One running ``parhelion serve``; a context manager. ``clients`` and ``admin`` are base URLs."""

    def __init__(self, settings: dict[str, Any], directory: Path) -> None:
        self.config = directory / "parhelion.yaml"
        self.config.write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
        self.log = directory / "proxy.log"
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                [sys.executable, "-P", "-m", "proxy.cli", "serve", "-c", str(self.config)],
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                preexec_fn=_end_with_parent,  # noqa: PLW1509 - one system call, before any thread of ours touches the child
                env=os.environ
                | {
                    "PYTHONPATH": os.pathsep.join(
                        filter(None, [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")])
                    )
                },
            )
        self.clients, self.admin = self._wait_ready()

    def _wait_ready(self) -> tuple[str, str]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().decode()
        if found := _READY.search(line):
            return found[1], found[2]
        self._process.wait()
        lines = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines() or ["no message"]
        last = next((line for line in reversed(lines) if line.startswith("parhelion: ")), lines[-1])
        self._process.stdout.close()
        raise ProxyError(f"the proxy did not start: {last}")

    @property
    def session(self) -> int:
        """The id of the session that all its processes are in."""
        return self._process.pid

    def get(self, path: str) -> bytes:
        """One GET on the admin port. Raises ProxyError."""
        try:
            with urllib.request.urlopen(f"{self.admin}{path}", timeout=30) as reply:  # noqa: S310 - our own http address
                return bytes(reply.read())
        except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
            raise ProxyError(f"the admin port does not answer {path}: {error}") from None

    def report(self) -> dict[str, Any]:
        """The report so far."""
        return dict(orjson.loads(self.get("/api/v1/report")))

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples that carry these labels."""
        total = 0.0
        for line in self.get("/metrics").decode().splitlines():
            sample, _, rest = line.partition(" ")
            if sample.partition("{")[0] == name and all(f'{key}="{value}"' in sample for key, value in labels.items()):
                total += float(rest.split()[0])
        return total

    def wait_known(self, arms: list[str], seconds: float) -> None:
        """Until every engine has been probed. Raises ProxyError."""
        limit = time.monotonic() + seconds
        while missing := [arm for arm in arms if not self.metric("parhelion_engine_info", arm=arm)]:
            if time.monotonic() > limit:
                raise ProxyError(f"no footprint of {', '.join(missing)} after {seconds:.0f} s; see {self.log}")
            time.sleep(0.2)

    def open_work(self) -> float:
        """Exchanges that have not settled yet, over all shadows and modes."""
        return self.metric("parhelion_in_flight")

    def stop(self) -> int:
        """SIGTERM, then wait; returns the exit status."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(_STOP_GRACE)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        return self._process.returncode

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
