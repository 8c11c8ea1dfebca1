"""An engine that runs in processes of its own: started, waited for, stopped to the last process.

House rules: knows no engine by name; commands, environments and health routes come in as values. Everything blocks (call it through ``asyncio.to_thread`` from
a loop); nothing is ever left running: the engine is under ``guard.py``.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

#: The directory that holds the packages ``proxy`` and ``engines``; other interpreters find them through PYTHONPATH.
ROOT = Path(__file__).resolve().parent.parent
_GUARD = Path(__file__).resolve().with_name("guard.py")
#: Seconds an engine has between SIGTERM and SIGKILL.
GRACE = 15.0

Say = Callable[[str], None]


class EngineError(Exception):
    """An engine could not be started or has ended; the text says why, where its log is and how to mend it."""


class EngineProcess:
    """One running engine: ``url`` is its base URL, ``log`` the file with its output (None: our own). A context manager that stops it."""

    def __init__(self, name: str, url: str, log: Path | None, guard: subprocess.Popen[bytes]) -> None:
        self.name = name
        self.url = url
        self.log = log
        self.ready = False
        self._guard = guard

    @property
    def running(self) -> bool:
        """True until the engine has ended."""
        return self._guard.poll() is None

    @property
    def pid(self) -> int:
        """The engine's own main process. Raises EngineError when it has ended."""
        guard = self._guard.pid
        with contextlib.suppress(OSError, ValueError, IndexError):
            return int(Path(f"/proc/{guard}/task/{guard}/children").read_text(encoding="ascii").split()[0])
        raise EngineError(f"{self.name} has ended")

    def wait_ready(self, seconds: float = 600, *, path: str = "/health", say: Say | None = None) -> Self:
        """Wait until ``path`` answers 200. ``say`` hears of the wait every ten seconds. Raises EngineError, and then nothing is left running."""
        begun = time.monotonic()
        told = 0
        while not answers(self.url, path):
            waited = time.monotonic() - begun
            if not self.running:
                raise EngineError(
                    f"{self.name} ended with status {self.stop()} before it was ready{self._last_words()}"
                )
            if waited > seconds:
                self.stop()
                raise EngineError(f"{self.name} was not ready after {seconds:.0f} s{self._last_words()}")
            if say is not None and waited // 10 > told:
                told = int(waited // 10)
                say(f"{self.name}: starting ({waited:.0f} s)")
            time.sleep(0.25)
        self.ready = True
        return self

    def wait(self) -> int:
        """Wait until the engine ends by itself; its exit status."""
        status = self._guard.wait()
        if self._guard.stdin is not None:
            self._guard.stdin.close()
        return status

    def stop(self) -> int:
        """End every process of the engine and wait for that; its exit status. Calling again does nothing."""
        if self.running:
            # An engine that is still loading has nothing to finish, and vLLM would not listen to SIGTERM yet.
            self._guard.send_signal(signal.SIGTERM if self.ready else signal.SIGQUIT)
        return self.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _last_words(self) -> str:
        if self.log is None:
            return ""
        lines = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-8:]
        return f"; the end of its log {self.log}:\n  " + "\n  ".join(line[:300] for line in lines)


def start(
    name: str,
    command: Sequence[str],
    *,
    url: str,
    log: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> EngineProcess:
    """Start a command under guard. Returns at once; ``environment`` is added to our own, with this code's packages on PYTHONPATH."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    whole = [sys.executable, "-S", str(_GUARD), str(GRACE), *command]
    with contextlib.ExitStack() as stack:
        output = None
        if log is not None:
            log.parent.mkdir(parents=True, exist_ok=True)
            output = stack.enter_context(log.open("wb"))
        guard = subprocess.Popen(  # noqa: S603 - our own command, no shell
            whole,
            stdin=subprocess.PIPE,  # never written to: its end tells the guard that we are gone
            stdout=output,
            stderr=subprocess.STDOUT if output else None,
            env={**os.environ, "PYTHONPATH": path, **(environment or {})},
            start_new_session=True,
        )
    return EngineProcess(name, url, log, guard)


def answers(url: str, path: str) -> bool:
    """Tell whether a GET of ``path`` below ``url`` is answered with 200 within two seconds."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "127.0.0.1", parts.port, timeout=2)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def free_port(host: str = "127.0.0.1") -> int:
    """Return a port that is free now."""
    with socket.create_server((host, 0)) as server:
        return int(server.getsockname()[1])


def require_free(host: str, port: int) -> None:
    """Raise EngineError when something listens on the port already.

    Needed because vLLM binds with SO_REUSEPORT: beside another vLLM it would start without an error, and the old one would get the requests.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as failed:
            raise EngineError(
                f"cannot listen on {host}:{port}: {failed.strerror}; stop what runs there or choose another --port"
            ) from failed
