"""Foreign proxies for the chain: started with a port for each route, known to answer when handed over, ended by their own process id."""

from __future__ import annotations

import contextlib
import random
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

#: Port to listen on, to the port on loopback that what comes there is sent to.
Routes = Mapping[int, int]

_SECONDS = 20.0


def free_ports(count: int) -> list[int]:
    """Ports that nobody has just now, for programs that cannot be told to choose; below those the kernel gives out by itself."""
    found: list[int] = []
    for port in random.sample(range(15000, 32000), 1000):
        with socket.socket() as sock, contextlib.suppress(OSError):
            sock.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == count:
            return found
    raise RuntimeError(f"no {count} free ports between 15000 and 32000")


@contextlib.contextmanager
def running(words: Sequence[str | Path], ports: Sequence[int], folder: Path) -> Iterator[None]:
    """A program, from when it listens on all ``ports`` until the end of the context. Its output stands in ``folder/log``."""
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [str(word) for word in words], stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=folder
        )
        try:
            limit = time.monotonic() + _SECONDS
            for port in ports:
                while not _listens(port):
                    if process.poll() is not None or time.monotonic() > limit:
                        said = (folder / "log").read_text(encoding="utf-8", errors="replace")[-2000:]
                        raise RuntimeError(f"{words[0]} does not listen on {port}: {said}")
                    time.sleep(0.05)
            yield
        finally:
            process.terminate()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as sock:
        sock.settimeout(1)
        return sock.connect_ex(("127.0.0.1", port)) == 0
