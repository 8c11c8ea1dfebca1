"""What every peer is to the bench: a process tree with a port for clients.

House rules. A peer's file knows how that peer is installed, configured and started; nothing else does.
"""

from __future__ import annotations

import contextlib
import ctypes
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from tests.bench import cores

_PR_SET_PDEATHSIG = 1  # prctl(2)
_libc = ctypes.CDLL(None)


def _end_with_parent() -> None:
    """Have the kernel stop a peer when the bench dies, whatever kills it."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def nothing(name: str, **labels: str) -> float:
    """Most peers tell nothing that is asked of them here."""
    return 0.0


@dataclass(frozen=True)
class Peer:
    """One running peer.

    ``pid``: the root of its tree. ``mirrors``: its mirrored requests are waited for. ``metric``: the value of one of its own metrics,
    ``told`` waits until they say what has happened by now. ``live``: the processes
    that answer clients, of which a figure of their own is shown. ``headers``: what clients must send.
    """

    name: str
    port: int
    pid: int
    mirrors: bool
    metric: Callable[..., float] = nothing
    told: Callable[[], None] = lambda: None
    live: tuple[int, ...] = ()
    headers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Setting:
    """Where a peer finds its engines (ports on loopback), and a folder of its own."""

    folder: Path
    primary: int
    shadow: int


#: Starts a peer; the context ends it.
Start = Callable[[Setting], AbstractContextManager[Peer]]


def free_port() -> int:
    """A port that nobody has just now; for programs that cannot be told to choose one."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@contextlib.contextmanager
def running(
    words: Sequence[str | Path],
    *,
    port: int,
    folder: Path,
    seconds: float = 20.0,
    environment: Mapping[str, str] | None = None,
    on: set[int] = cores.PEER,
) -> Iterator[int]:
    """A program that serves on ``port``, in ``folder``, its output in output.log; its process id."""
    with (folder / "output.log").open("wb") as log, cores.pinned(on):
        process = subprocess.Popen(
            [str(word) for word in words],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=dict(environment) if environment else None,
            preexec_fn=_end_with_parent,  # noqa: PLW1509 - one system call, and the bench has no threads then
        )
    try:
        _wait_for(process, port, seconds, folder / "output.log")
        yield process.pid
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for(process: subprocess.Popen[bytes], port: int, seconds: float, log: Path) -> None:
    limit = time.monotonic() + seconds
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        if process.poll() is not None or time.monotonic() > limit:
            said = log.read_text(errors="replace")[-2000:]
            raise RuntimeError(f"{process.args!r} does not serve on port {port}:\n{said}")
        time.sleep(0.05)
