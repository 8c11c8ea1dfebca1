"""``parhelion serve``: starts the traffic processes and the judge, restarts what dies, serves the admin port, stops in order.

House rules. No request of a client passes through this process, and it does nothing that could block: it may die without a stream being
cut only because its children drain when it does. A child that keeps dying is restarted with growing pauses, and said so.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from proxy import logs
from proxy.app import listeners, state
from proxy.app.child import SAID, Assignment
from proxy.config import Config
from proxy.config_load import ConfigError, address
from proxy.ledger import totals
from proxy.ledger.admin import make_admin
from proxy.ledger.admin_server import AdminServer, listen

logger = logging.getLogger("parhelion")

_LONGEST_PAUSE = 10.0
_SETTLED_AFTER = 30.0  # a child that lived this long starts again at once
_JUDGE_GRACE = 20.0  # time for the judge to settle what it has when all traffic has drained


@dataclass(slots=True)
class Child:
    """One place in the process tree, filled by one incarnation after another."""

    role: str
    number: int
    sock: socket.socket | None = None
    process: asyncio.subprocess.Process | None = None
    ready: bool = False
    incarnation: str = ""


@dataclass(slots=True)
class Supervisor:
    """One replica. ``roles``: "traffic", "judge" or both."""

    config: Config
    roles: tuple[str, ...]
    children: list[Child] = field(default_factory=list)
    draining: bool = False
    failed: str | None = None
    said: bool = False
    _stop: asyncio.Event = field(default_factory=asyncio.Event)
    _started: bool = False

    def ready(self) -> bool:
        """Whether clients can be served. Never depends on a shadow, nor on the judge."""
        traffic = [child for child in self.children if child.role == "traffic"]
        return not self.draining and all(child.ready for child in traffic or self.children)

    async def run(self, announce: Callable[[Supervisor, str], None]) -> int:
        """Run until SIGTERM or SIGINT; returns the exit status. Raises ConfigError when it cannot start."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        self._place_children()
        admin = await self._serve_admin()
        keepers = [asyncio.ensure_future(self._keep(child)) for child in self.children]
        try:
            if await self._wait_ready():
                self._started = True
                announce(self, admin.address)
                await self._stop.wait()
        finally:
            await self._shut_down(keepers)
            await admin.close()
            for child in self.children:
                if child.sock is not None:
                    child.sock.close()
        if self.said:
            return SAID
        if self.failed is not None:
            raise ConfigError(f"the {self.failed} process did not start; the log above says where it stopped")
        return 0

    def listening(self) -> str:
        """HOST:PORT of the live path as bound (the port may have been chosen by the system)."""
        sock = next((child.sock for child in self.children if child.sock is not None), None)
        if sock is None:
            return ""
        host, port = sock.getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def _place_children(self) -> None:
        if "traffic" in self.roles:
            for number, sock in enumerate(listeners.listen(self.config.listen, self.config.processes)):
                self.children.append(Child("traffic", number, sock))
        if "judge" in self.roles:
            self.children.append(Child("judge", 0))

    async def _serve_admin(self) -> AdminServer:
        host, port = address(self.config.admin, "admin")
        application = make_admin(self.config, ready=self.ready)
        try:
            return await listen(application, host, port)
        except OSError as error:
            raise ConfigError(
                f"admin: {self.config.admin} cannot be bound ({error.strerror}); choose another port"
            ) from None

    async def _wait_ready(self) -> bool:
        """Until every child is up; False when told to stop before, or when one cannot start at all."""
        while not all(child.ready for child in self.children):
            if self._stop.is_set() or self.failed is not None:
                return False
            await asyncio.sleep(0.02)
        return True

    async def _keep(self, child: Child) -> None:
        """Keep one place filled until the replica stops."""
        pause = 0.1
        while not self._stop.is_set():
            started = time.monotonic()
            code = await self._live(child)
            child.ready = False
            if self._stop.is_set():
                return
            logs.say(logger, logging.ERROR, "child_died", child=child.incarnation, status=code)
            if not self._started:  # a mistake to be told of, not a fault to be ridden out
                self.failed, self.said = child.role, code == SAID
                return
            pause = 0.1 if time.monotonic() - started > _SETTLED_AFTER else min(pause * 2, _LONGEST_PAUSE)
            await asyncio.sleep(pause)

    async def _live(self, child: Child) -> int | None:
        """One incarnation, from start to end; its exit status, None when it could not even be started."""
        try:
            await self._start(child)
        except Exception:
            logger.exception("child_not_started")
            return None
        assert child.process is not None
        return await child.process.wait()

    async def _start(self, child: Child) -> None:
        child.incarnation = f"{child.role}{child.number}-{time.time_ns():x}"
        descriptor = child.sock.fileno() if child.sock is not None else None
        assignment = Assignment(self.config, child.role, child.incarnation, descriptor)
        child.process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",  # a folder named proxy where we were started is not ours
            "-m",
            "proxy.app.child",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            pass_fds=(descriptor,) if descriptor is not None else (),
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [_root(), os.environ.get("PYTHONPATH")]))},
        )
        assert child.process.stdin is not None
        assert child.process.stdout is not None
        try:
            child.process.stdin.write(msgspec.msgpack.encode(assignment))
            await child.process.stdin.drain()
            child.process.stdin.close()
            child.ready = await child.process.stdout.readline() == b"ready\n"
        except ConnectionError:
            child.ready = False

    async def _shut_down(self, keepers: Sequence[asyncio.Future[None]]) -> None:
        """Traffic drains first, then the judge settles what it was handed."""
        self.draining = True
        self._stop.set()
        await self._end("traffic", self.config.drain + 5.0)
        await self._end("judge", _JUDGE_GRACE)
        for keeper in keepers:
            keeper.cancel()
        await asyncio.gather(*keepers, return_exceptions=True)

    async def _end(self, role: str, grace: float) -> None:
        processes = [child.process for child in self.children if child.role == role and child.process is not None]
        for process in processes:
            if process.returncode is None:
                process.terminate()
        waits = [asyncio.ensure_future(process.wait()) for process in processes]
        if waits:
            await asyncio.wait(waits, timeout=grace)
        for process in processes:
            if process.returncode is None:
                logs.say(logger, logging.ERROR, "child_killed", role=role, after_seconds=grace)
                process.kill()
                await process.wait()


def _root() -> str:
    """Where the packages lie, so that children find them however the parent was started."""
    return str(Path(__file__).resolve().parents[2])


def serve(config: Config, role: str, announce: Callable[[Supervisor, str], None]) -> int:
    """Run one replica in this process. Raises ConfigError when it cannot start."""
    logs.set_up()
    directory = state.prepare(config)
    roles = ("traffic", "judge") if role == "all" else (role,)
    locks = [state.hold(directory, one) for one in roles]
    try:
        totals.fold(directory / "counters")  # those of earlier lives, before anybody counts on them
        config = state.with_salt(config, directory)
        return asyncio.run(Supervisor(config, roles).run(announce))
    finally:
        for lock in locks:
            os.close(lock)
