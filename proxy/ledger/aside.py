"""Reports made by a process of their own, on behalf of the admin port: one needs much memory and minutes of processor time, which the port's process has better uses for.

House rules. The child (``aside_child``) is told what to make on its input and answers on its output. It has the lowest priority, is the first that the system ends when memory is
short, and ends with whoever started it. It may die or hang: that is an ``AsideError``, and nothing else is any the worse.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import msgspec
from msgspec import Struct

import proxy
from proxy.config import Config
from proxy.ledger.query import Filter

#: ``-P``: a folder named proxy where we were started is not ours.
COMMAND = (sys.executable, "-P", "-m", "proxy.ledger.aside_child")


class AsideError(Exception):
    """There is no answer; the text says so to a person."""


class Order(Struct, frozen=True):
    """What to make: the report of all records as JSON, or of those ``wanted``; with ``newest`` a ``Recent`` (msgpack) of the newest. ``now`` in Unix seconds."""

    config: Config
    command: str
    now: float
    wanted: Filter | None = None
    newest: bool = False


async def made(order: Order, *, deadline: float, command: tuple[str, ...] = COMMAND) -> bytes:
    """Have it made; ``deadline`` in seconds. Who is cancelled ends the child. Raises AsideError."""
    pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=nothing, env=environment())
    try:
        async with asyncio.timeout(deadline):
            found, _ = await process.communicate(msgspec.msgpack.encode(order))
    except TimeoutError:
        raise AsideError(
            f"the report was not made within {deadline:.0f} s: ask for a part of it (since, until)"
        ) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise AsideError("the report could not be made; if memory was short, ask for a part of it (since, until)")
    return found


def make(order: Order, *, deadline: float, command: tuple[str, ...] = COMMAND) -> bytes:
    """The same for a thread. Raises AsideError."""
    try:
        return subprocess.run(  # noqa: S603 - our own command
            command,
            input=msgspec.msgpack.encode(order),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=deadline,
            check=True,
            env=environment(),
        ).stdout
    except (OSError, subprocess.SubprocessError) as error:  # whose text would quote its output
        raise AsideError(f"the report could not be made: {type(error).__name__}") from None


def environment() -> dict[str, str]:
    """Return the child's environment, in which it finds these packages however the parent was started."""
    path = os.pathsep.join(filter(None, [str(Path(proxy.__file__).parents[1]), os.environ.get("PYTHONPATH")]))
    return os.environ | {"PYTHONPATH": path}
