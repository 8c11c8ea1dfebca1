"""A traffic process's ``serve`` inside the test's own loop, on a free port, with its counters at hand."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from proxy.config import Config, Limits, Primary, Sampling, Shadow, Timeouts
from proxy.counters import Counters, Slot
from proxy.traffic.process import serve

_serial = itertools.count(1)
_CLOSING = 30.0  # beyond the drain: what is longer hangs


@dataclass
class Proxy:
    """``address`` to connect to, ``state`` directory, ``counters`` as any reader sees them, ``stop`` to begin the drain."""

    address: tuple[str, int]
    state: Path
    counters: Counters
    stop: asyncio.Event
    incarnation: str

    def __getitem__(self, slot: Slot) -> int:
        return self.counters[slot]

    def balanced(self) -> bool:
        """The two conservation laws of the live path."""
        c = self.counters
        taken = c[Slot.SAMPLED] + c[Slot.OFFERED]
        spent = c[Slot.SHED_QUEUE] + c[Slot.SHED_CAPTURE] + c[Slot.QUEUED] + c[Slot.HANDED_OVER] + c[Slot.OPEN_SAMPLED]
        return c[Slot.RECEIVED] == c[Slot.NOT_SAMPLED] + taken and taken == spent

    async def until(self, slot: Slot, value: int, seconds: float = 10.0) -> None:
        """Wait until a counter has a value."""
        async with asyncio.timeout(seconds):
            while self.counters[slot] != value:  # noqa: ASYNC110 - shared memory sends no event
                await asyncio.sleep(0.002)


def config_for(url: str, state: Path, **changes: Any) -> Config:
    """A configuration that samples everything; ``changes`` replace whole parts."""
    base = Config(
        primary=Primary(url=url),
        shadows=(Shadow(name="shadow", url="http://127.0.0.1:9"),),
        sampling=Sampling(rate=1.0, salt="salt"),
        state=str(state),
        limits=Limits(),
        timeouts=Timeouts(head=5.0, connect=2.0, idle=20.0),
        drain=2.0,
    )
    return msgspec.structs.replace(base, **changes)


@asynccontextmanager
async def proxied(url: str, state: Path, **changes: Any) -> AsyncIterator[Proxy]:
    """Serve with that primary; at the end the drain must come to its end by itself."""
    config = config_for(url, state, **changes)
    incarnation = f"t{next(_serial)}"
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", 0))
    stop, ready = asyncio.Event(), asyncio.Event()
    task = asyncio.get_running_loop().create_task(
        serve(config, incarnation=incarnation, sock=sock, ready=ready.set, stop=stop)
    )
    await asyncio.wait({task, begun := asyncio.ensure_future(ready.wait())}, return_when=asyncio.FIRST_COMPLETED)
    begun.cancel()
    if task.done():
        task.result()
    counters = Counters.attach(state / "counters" / f"{incarnation}.bin")
    try:
        yield Proxy(sock.getsockname(), state, counters, stop, incarnation)
    finally:
        stop.set()
        try:
            async with asyncio.timeout(config.drain + _CLOSING):
                await task
        finally:
            counters.close()
            sock.close()
