"""One traffic process from start to drain: the composition of the live path.

House rules. ``serve`` is handed a bound socket, an incarnation and when to stop; it makes the counters file, watches nothing else and knows neither the
command line nor the other processes. The judge may come, go or never exist.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from engines.dialect import Answer, Call, Dialect, DialectError
from proxy.config import Config
from proxy.counters import Counters
from proxy.traffic.client_side import ClientSide
from proxy.traffic.deadlines import Deadlines
from proxy.traffic.handoff import Handoff
from proxy.traffic.service import Service, snapshot_of
from proxy.traffic.shadow_client import Client

_BACKLOG = 2048  # the kernel's own cap (somaxconn) is 4096 since Linux 5.4
_LAST_CALL = 0.05  # told to stop: time to accept who has connected already, since closing the socket resets who is still in its queue
# libuv takes one connection from a listener in a turn of the loop, and with a thousand streams a turn takes tens of milliseconds: newcomers would wait
# for seconds. So many descriptors of the one listening socket take as many; a connection costs a few failed accepts more, microseconds.
_ACCEPTS = 8
_PROBE_SECONDS = 10.0
_PROBE_BYTES = 8 << 20
_FLUSH = 2.0  # how long the hand-over queue may take to leave at the end


async def serve(
    config: Config, *, incarnation: str, sock: socket.socket, ready: Callable[[], None], stop: asyncio.Event
) -> None:
    """Serve clients on ``sock`` until ``stop`` is set, then drain for up to ``config.drain`` seconds.

    Raises OSError when the state directory or the counters file cannot be made, ValueError for a primary URL that cannot be used.
    """
    await Live(config, incarnation).run(sock, ready, stop)


class Live:
    """One traffic process; ``reconfigure`` may be called at any time. Raises as ``serve`` does."""

    def __init__(self, config: Config, incarnation: str) -> None:
        self.config = config
        self._loop = loop = asyncio.get_running_loop()
        state = Path(config.state)
        self._salt = config.sampling.salt or kept_salt(state)
        snapshot = snapshot_of(config, self._salt, _named_dialect(config))
        (state / "counters").mkdir(parents=True, exist_ok=True)
        self.counters = Counters.create(state / "counters" / f"{incarnation}.bin")
        self.deadlines = Deadlines(loop, round_seconds=min(1.0, snapshot.head, snapshot.idle))
        self.handoff = Handoff(loop, str(state / "judge.sock"), incarnation, self.counters, _queue(config))
        self.service = Service(
            loop,
            snapshot,
            incarnation=incarnation,
            counters=self.counters,
            deadlines=self.deadlines,
            handoff=self.handoff,
        )
        self.deadlines.every_tick(self.handoff.tick)
        self._learning = self._learn()

    async def run(self, sock: socket.socket, ready: Callable[[], None], stop: asyncio.Event) -> None:
        """Serve until ``stop``, then drain."""
        try:
            listeners = await self._listen(sock)
            self.deadlines.start()
            self.handoff.tick(self._loop.time())
            ready()
            try:
                await stop.wait()
                self.service.draining = True
                await asyncio.sleep(_LAST_CALL)
            finally:
                for listener in listeners:
                    listener.close()
                await _ended(self._learning)
                await _drain(self.service, self.config.drain)
                await self.handoff.close(_FLUSH)
                self.deadlines.stop()
        finally:
            self._learning.cancel()
            self.counters.close()

    async def _listen(self, sock: socket.socket) -> list[asyncio.Server]:
        ways = [sock, *(sock.dup() for _ in range(_ACCEPTS - 1))]
        return [
            await self._loop.create_server(lambda: ClientSide(self.service), sock=way, backlog=_BACKLOG) for way in ways
        ]

    def reconfigure(self, config: Config) -> None:
        """Work by another configuration from the next request on. Raises ValueError, and then goes on as before."""
        before = self.config
        known = self.service.snapshot.inject if _same_dialect(before, config) else None
        snapshot = snapshot_of(config, config.sampling.salt or self._salt, _named_dialect(config) or known)
        self.config = config
        self.handoff.limit(_queue(config))
        self.service.reconfigure(snapshot)
        if not _same_dialect(before, config):
            self._learning.cancel()
            self._learning = self._learn()

    def _learn(self) -> asyncio.Task[None]:
        return self._loop.create_task(_learn_dialect(self.config, self.service))


def _queue(config: Config) -> int:
    """This process's part of what may wait."""
    return config.limits.queue_bytes // config.processes


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def _same_dialect(one: Config, other: Config) -> bool:
    """Whether what is known of the primary's dialect under one configuration holds under the other."""
    return (one.primary.url, one.primary.engine, one.primary.api_key, one.primary.logprobs) == (
        other.primary.url, other.primary.engine, other.primary.api_key, other.primary.logprobs,
    )  # fmt: skip


async def _drain(service: Service, seconds: float) -> None:
    """Let open exchanges end, for a while; then break off what is left."""
    service.draining = True
    for client in list(service.clients):
        client.drain()
    try:
        async with asyncio.timeout(seconds):
            await service.idle.wait()
    except TimeoutError:
        for client in list(service.clients):
            client.abort()
        await service.idle.wait()
    finally:
        await service.close()


def kept_salt(state: Path) -> str:
    """Return the installation's salt, made on first use and kept in the state directory. Raises OSError."""
    state.mkdir(parents=True, exist_ok=True)
    path = state / "salt"
    made = state / f"salt.{os.getpid()}.{secrets.token_hex(4)}"
    if not path.exists():
        descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(32))
        try:
            os.link(made, path)  # whoever is first decides; a half-written file is never seen
        except FileExistsError:
            pass
        finally:
            made.unlink()
    return path.read_text().strip()


def _named_dialect(config: Config) -> Dialect | None:
    """Return the dialect to inject with, when the configuration names the primary's engine. Raises ValueError for an unknown one."""
    if config.primary.logprobs != "inject" or config.primary.engine == "auto":
        return None
    from engines.registry import dialect

    try:
        return dialect(config.primary.engine)
    except KeyError as error:
        raise ValueError(f"primary.engine: {error.args[0]}") from None


async def _learn_dialect(config: Config, service: Service) -> None:
    """Find out which dialect the primary speaks when nobody says so; nothing is injected until it has answered."""
    if config.primary.logprobs != "inject" or config.primary.engine != "auto":
        return
    from engines.registry import detect, dialect

    client = Client(
        config.primary.url,
        api_key=config.primary.api_key,
        connections=1,
        connect_timeout=config.timeouts.connect,
        max_bytes=_PROBE_BYTES,
    )

    async def fetch(call: Call) -> Answer:
        return await client.send(call, deadline=_PROBE_SECONDS)

    pause = 0.5
    try:
        while True:
            try:
                found = dialect(await detect(fetch))
            except DialectError:
                await asyncio.sleep(pause)
                pause = min(pause * 2, _PROBE_SECONDS)
            else:
                service.reconfigure(replace(service.snapshot, inject=found))
                return
    finally:
        await client.aclose()
