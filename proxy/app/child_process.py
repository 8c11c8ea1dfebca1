"""One place in the process tree, filled by one incarnation of a child after another.

House rules. Starts it, tells it what to do, hears what it answers. When it is to run is the supervisor's business.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from proxy import logs
from proxy.app.orders import Assignment, Order, encode
from proxy.config import Config
from proxy.switch import Switch

logger = logging.getLogger("parhelion")

_PATIENCE = 5.0  # seconds for an answer to an order; a process that hangs obeys when it goes on


@dataclass(slots=True)
class ChildProcess:
    """``sock``: a traffic process's listening socket, which outlives it. ``process`` is None before the first start."""

    role: str
    number: int
    sock: socket.socket | None = None
    process: asyncio.subprocess.Process | None = None
    ready: bool = False
    incarnation: str = ""
    _answers: dict[int, asyncio.Future[bool]] = field(default_factory=dict)

    async def live(self, config: Config, switch: Switch) -> int:
        """One incarnation, from start to end; its exit status."""
        self.incarnation = f"{self.role}{self.number}-{time.time_ns():x}"
        descriptor = self.sock.fileno() if self.sock is not None else None
        self.process = process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",  # a folder named proxy where we were started is not ours
            "-m",
            "proxy.app.child",
            self.incarnation,  # for people who look at a list of processes
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            pass_fds=(descriptor,) if descriptor is not None else (),
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [_root(), os.environ.get("PYTHONPATH")]))},
        )
        assert process.stdin is not None
        process.stdin.write(encode(Assignment(config, self.role, self.incarnation, switch, descriptor)))
        try:
            await self._hear(process)
            return await process.wait()
        finally:
            self.ready = False
            process.stdin.close()
            for answer in self._answers.values():
                answer.set_result(True)  # its successor begins with what it was told
            self._answers.clear()

    async def obey(self, order: Order) -> bool:
        """Send an order; false when it is refused. Where nobody answers, whoever comes to it next begins with it."""
        process = self.process
        if process is None or process.returncode is not None or process.stdin is None or process.stdin.is_closing():
            return True
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._answers[order.number] = answer
        process.stdin.write(encode(order))
        await asyncio.wait([answer], timeout=_PATIENCE)
        if answer.done():
            return answer.result()
        logs.say(logger, logging.WARNING, "order_not_answered", child=self.incarnation, after_seconds=_PATIENCE)
        return True

    async def _hear(self, process: asyncio.subprocess.Process) -> None:
        """Take what the child says until it says no more."""
        assert process.stdout is not None
        while line := await process.stdout.readline():
            word, _, number = line.decode("ascii", "replace").strip().partition(" ")
            match word:
                case "ready":
                    self.ready = True
                case "obeyed" | "refused" if number.isdigit():
                    answer = self._answers.pop(int(number), None)
                    if answer is not None:
                        answer.set_result(word == "obeyed")

    def terminate(self) -> None:
        """Ask it to end in order."""
        if self.process is not None and self.process.returncode is None:
            self.process.terminate()

    def kill(self) -> None:
        """End it at once."""
        if self.process is not None and self.process.returncode is None:
            self.process.kill()


def _root() -> str:
    """Where the packages lie, so that children find them however the parent was started."""
    return str(Path(__file__).resolve().parents[2])
