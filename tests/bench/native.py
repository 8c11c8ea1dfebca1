"""The two C programs of the bench: built when their source is newer, run as processes of their own.

House rules. Knows how to build, start and ask them; what is measured with them is none of its business.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.bench import cores

HERE = Path(__file__).parent
BUILD = HERE.parents[1] / "build" / "bench"


def built(name: str) -> Path:
    """The program ``name``, compiled from ``name.c`` beside this file. Raises CalledProcessError with the compiler's words on standard error."""
    source, program = HERE / f"{name}.c", BUILD / name
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        BUILD.mkdir(parents=True, exist_ok=True)
        made = BUILD / f"{name}.{os.getpid()}"
        subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-o", str(made), str(source)], check=True, timeout=120)
        made.replace(program)
    return program


@dataclass(frozen=True)
class Reply:
    """What the engine answers with: a body (``kind`` json) or events with a blank line after each (sse); times in microseconds."""

    kind: str
    body: bytes
    delay: int = 0
    pace: int = 0


class Engine:
    """The fake engine's several ports: ``port[name]``."""

    def __init__(self, *names: str) -> None:
        with cores.pinned(cores.LOAD):
            self._process = subprocess.Popen([built("engine"), *names], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        lines = [self._process.stdout.readline().split() for _ in range(len(names) + 1)]
        self.port = {name.decode(): int(number) for name, number in lines}
        self.names = names
        self._control = socket.create_connection(("127.0.0.1", self.port["control"]), timeout=30)

    def tell(self, line: str) -> str:
        """One line to the control port; its answer."""
        self._control.sendall(line.encode() + b"\n")
        said = self._control.recv(4096).decode().strip()
        assert said != "unknown", line
        return said

    def answer(self, reply: Reply, *names: str) -> None:
        """Answer so from now on, on the named ports or on all."""
        file = BUILD / f"reply.{os.getpid()}"
        file.write_bytes(reply.body)
        for name in names or self.names:
            self.tell(f"reply {name} {reply.kind} {file} {reply.delay} {reply.pace}")
        file.unlink()

    def sicken(self, name: str, illness: str) -> None:
        """Make one port ill, or well again (``ok``)."""
        self.tell(f"ill {name} {illness}")

    def stats(self, name: str) -> dict[str, Any]:
        """Counts since the last ``clear``."""
        return dict(json.loads(self.tell(f"stats {name}")))

    def clear(self) -> None:
        """All counts to zero."""
        self.tell("clear")

    def close(self) -> None:
        """End it."""
        self._control.close()
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


@contextlib.contextmanager
def engine(*names: str) -> Iterator[Engine]:
    """A fake engine with these ports."""
    running = Engine(*names)
    try:
        yield running
    finally:
        running.close()


@dataclass(frozen=True)
class Work:
    """What the load client does (see load.c): ``rate`` 0 is a closed loop; ``requests`` 0 has no limit. Times in seconds, ``ramp`` in milliseconds."""

    body: bytes
    connections: int = 32
    seconds: float = 1.0
    requests: int = 0
    rate: float = 0.0
    ramp: float = 0.0
    grace: float = 10.0
    verify: bool = False
    path: str = "/v1/chat/completions"
    headers: tuple[str, ...] = ()

    def to(self, headers: tuple[str, ...]) -> Work:
        """The same with what a peer asks of its clients."""
        return replace(self, headers=self.headers + headers)


def start_load(port: int, work: Work) -> subprocess.Popen[bytes]:
    """The load client under way; ``finish`` reads what it measured."""
    body, headers = BUILD / f"body.{os.getpid()}", BUILD / f"headers.{os.getpid()}"
    program = built("load")
    body.write_bytes(work.body)
    headers.write_text("".join(f"{line}\r\n" for line in work.headers))
    words = {
        "port": port,
        "body": body,
        "headers": headers,
        "path": work.path,
        "connections": work.connections,
        "seconds": work.seconds,
        "requests": work.requests,
        "rate": work.rate,
        "ramp": work.ramp,
        "grace": work.grace,
        "verify": int(work.verify),
    }
    with cores.pinned(cores.LOAD):
        return subprocess.Popen([program, *(f"{key}={value}" for key, value in words.items())], stdout=subprocess.PIPE)


def finish(process: subprocess.Popen[bytes], seconds: float) -> dict[str, Any]:
    """What the client measured, within ``seconds``."""
    try:
        said, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    assert process.returncode == 0, f"the load client ended with {process.returncode}"
    return dict(json.loads(said))


def load(port: int, work: Work) -> dict[str, Any]:
    """Do the work, return what was measured."""
    return finish(start_load(port, work), work.seconds + work.grace + 30)
