"""``parhelion serve``: starts the traffic processes and the judge, restarts what dies, serves the admin port, stops in order.

House rules. No request of a client passes through this process, and it does nothing that could block: it may die without a stream being
cut only because its children drain when it does. A child that keeps dying is restarted with growing pauses, and said so.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import resource
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from proxy import logs
from proxy.app import listeners, state, switch_file
from proxy.app.child import SAID
from proxy.app.child_process import ChildProcess
from proxy.app.orders import Order
from proxy.app.reload import Reload
from proxy.config import Config
from proxy.config_file import ConfigError
from proxy.config_load import address
from proxy.ledger import totals
from proxy.ledger.admin import make_admin
from proxy.ledger.admin_server import AdminServer, listen, reads_in_c
from proxy.ledger.operation import Standing
from proxy.switch import ON, Switch

logger = logging.getLogger("parhelion")

_LONGEST_PAUSE = 10.0
_SETTLED_AFTER = 30.0  # a child that lived this long starts again at once
_JUDGE_GRACE = 20.0  # time for the judge to settle what it has when all traffic has drained


@dataclass(slots=True)
class Supervisor:
    """One replica. ``roles``: "traffic", "judge" or both; ``load`` reads the configuration again, ``file`` is what to look at for a change."""

    config: Config
    roles: tuple[str, ...]
    load: Callable[[], Config]
    file: Path | None = None
    switch: Switch = ON
    children: list[ChildProcess] = field(default_factory=list)
    draining: bool = False
    failed: str | None = None
    said: bool = False
    reload: Reload = field(init=False)
    _stop: asyncio.Event = field(default_factory=asyncio.Event)
    _started: bool = False
    _orders: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    _ordering: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self.reload = Reload(self.config, self.load, self._work_by, self.file)

    def ready(self) -> bool:
        """Whether clients can be served. Never depends on a shadow, nor on the judge."""
        traffic = [child for child in self.children if child.role == "traffic"]
        return not self.draining and all(child.ready for child in traffic or self.children)

    async def run(self, announce: Callable[[Supervisor, str], None]) -> int:
        """Run until SIGTERM or SIGINT; returns the exit status. Raises ConfigError when it cannot start."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        loop.add_signal_handler(signal.SIGHUP, self.reload.ask)
        self._place_children()
        admin = await self._serve_admin()
        keepers = [asyncio.ensure_future(self._keep(child)) for child in self.children]
        try:
            if await self._wait_ready():
                self._started = True
                announce(self, admin.address)
                keepers += [asyncio.ensure_future(part) for part in (self.reload.run(), self._follow_switch())]
                await self._stop.wait()
                logs.say(logger, logging.INFO, "draining", at_most_seconds=self.config.drain)
        finally:
            await self._shut_down(keepers)
            await admin.close()
            self._close_sockets()
            # The loop puts back what a signal does by default when it closes, and a late SIGHUP would end us with a status that looks like a fault.
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
        if self._started:
            logs.say(logger, logging.INFO, "stopped")
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
                self.children.append(ChildProcess("traffic", number, sock))
        if "judge" in self.roles:
            self.children.append(ChildProcess("judge", 0))

    async def _serve_admin(self) -> AdminServer:
        host, port = address(self.config.admin, "admin")
        if not reads_in_c():
            raise ConfigError(
                "admin: aiohttp runs without its C parser; unset AIOHTTP_NO_EXTENSIONS, or install aiohttp from a wheel"
            )
        application = make_admin(self.config, ready=self.ready, operation=self)
        try:
            return await listen(application, host, port, head=self.config.timeouts.head)
        except OSError as error:
            raise ConfigError(f"admin: {self.config.admin} {listeners.why(error)}") from None

    async def _wait_ready(self) -> bool:
        """Until every child is up; False when told to stop before, or when one cannot start at all."""
        while not all(child.ready for child in self.children):
            if self._stop.is_set() or self.failed is not None:
                return False
            await asyncio.sleep(0.02)
        return True

    async def _work_by(self, config: Config) -> bool:
        """Have every process work by another configuration, or none."""
        before = self.config
        if await self._order(config, self.switch):
            return True
        await self._order(before, self.switch)
        return False

    async def turn(self, switch: Switch) -> bool:
        """Turn the kill switch, here and in every child; false when its position could not be kept."""
        kept = True
        try:
            switch_file.save(Path(self.config.state), switch)
        except OSError as error:
            kept = False
            logs.say(logger, logging.ERROR, "switch_not_kept", reason=error.strerror)
        await self._turned(switch)
        return kept

    async def _turned(self, switch: Switch) -> None:
        await self._order(self.config, switch)
        logs.say(logger, logging.WARNING, "mirror_switched", enabled=switch.enabled, off=list(switch.off))

    def standing(self) -> Standing:
        """How the replica is operated now, for the metrics."""
        mirrored = {shadow.name: self.switch.on(shadow.name) for shadow in self.config.shadows}
        return Standing(mirrored, self.reload.failed, self.reload.succeeded)

    async def _order(self, config: Config, switch: Switch) -> bool:
        async with self._ordering:
            self.config, self.switch = config, switch
            order = Order(next(self._orders), config, switch)
            return all(await asyncio.gather(*(child.obey(order) for child in self.children)))

    async def _follow_switch(self) -> None:
        await switch_file.follow(Path(self.config.state), lambda: self.switch, self._turned)

    async def _keep(self, child: ChildProcess) -> None:
        """Keep one place filled until the replica stops."""
        pause = 0.1
        while not self._stop.is_set():
            started = time.monotonic()
            code = await self._live(child)
            if self._stop.is_set():
                return
            logs.say(logger, logging.ERROR, "child_died", child=child.incarnation, status=code)
            if not self._started:  # a mistake to be told of, not a fault to be ridden out
                self.failed, self.said = child.role, code == SAID
                return
            pause = 0.1 if time.monotonic() - started > _SETTLED_AFTER else min(pause * 2, _LONGEST_PAUSE)
            await asyncio.sleep(pause)

    async def _live(self, child: ChildProcess) -> int | None:
        """One incarnation, from start to end; its exit status, None when it could not even be started."""
        try:
            return await child.live(self.config, self.switch)
        except Exception:
            logger.exception("child_not_started")
            return None

    async def _shut_down(self, keepers: Sequence[asyncio.Future[None]]) -> None:
        """Traffic drains first, then the judge settles what it was handed."""
        self.draining = True
        self._stop.set()
        traffic = asyncio.ensure_future(self._end("traffic", self.config.drain + 5.0))
        await asyncio.sleep(0)  # they have been told
        self._close_sockets()  # else the system would go on taking connections that nobody accepts
        await traffic
        await self._end("judge", _JUDGE_GRACE)
        for keeper in keepers:
            keeper.cancel()
        await asyncio.gather(*keepers, return_exceptions=True)

    def _close_sockets(self) -> None:
        for child in self.children:
            if child.sock is not None:
                child.sock.close()

    async def _end(self, role: str, grace: float) -> None:
        children = [child for child in self.children if child.role == role and child.process is not None]
        for child in children:
            child.terminate()
        waits = [asyncio.ensure_future(child.process.wait()) for child in children if child.process is not None]
        if waits:
            await asyncio.wait(waits, timeout=grace)
        for child, wait in zip(children, waits, strict=True):
            if not wait.done():
                logs.say(logger, logging.ERROR, "child_killed", role=role, after_seconds=grace)
                child.kill()
                await wait


def serve(
    config: Config,
    role: str,
    announce: Callable[[Supervisor, str], None],
    load: Callable[[], Config],
    file: Path | None = None,
) -> int:
    """Run one replica in this process; ``load`` reads the configuration's sources again. Raises ConfigError when it cannot start."""
    logs.set_up()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # whoever asks before we serve gets what is read now
    # Memory holds what clients send, keys and all: no process of this tree leaves it on disk when it crashes.
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    directory = state.prepare(config)
    roles = ("traffic", "judge") if role == "all" else (role,)
    locks = [state.hold(directory, one) for one in roles]
    try:
        totals.fold(directory / "counters")  # those of earlier lives, before anybody counts on them
        config = state.with_salt(config, directory)
        switch = switch_file.load(directory)
        supervisor = Supervisor(config, roles, lambda: state.with_salt(load(), directory), file, switch)
        return asyncio.run(supervisor.run(announce))
    finally:
        for lock in locks:
            os.close(lock)
