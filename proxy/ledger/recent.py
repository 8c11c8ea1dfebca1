"""The report that pages show: over the newest records, made in the background, kept until it is too old.

A report over all records takes minutes at a million, and nobody waits for a page that long. The counts and the verdict in it are of all conversations nevertheless: they
come from sums. House rules. The event loop never waits for the making: who asks gets the last one, and a newer one is begun when that is too old. It is made by a process of its
own (``aside``), of the lowest priority, which may die or hang: then the last one stays, and it is tried again later.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct

from proxy.config import Config
from proxy.ledger.aside import COMMAND, AsideError, Order, make
from proxy.logs import say

log = logging.getLogger("parhelion.admin")

#: Records that it is made of at most, and bytes of them as stored.
RECORDS, BYTES = 20_000, 96 << 20
#: Seconds for which one is good enough: so many, or so many times what its making took.
_FRESH, _TIMES = 10.0, 4.0
#: Seconds that whoever asks first may wait; seconds after which the making is given up.
_FIRST, _DEADLINE = 2.0, 300.0


class Recent(Struct, frozen=True):
    """``report``: as in ``build_report``; ``as_of``: Unix seconds; ``records``: of how many it is made, ``of`` how many there are."""

    report: dict[str, Any]
    as_of: float
    records: int
    of: int


class Making:
    """One replica's last report, and the making of the next. ``command``: what makes one, see ``aside``."""

    def __init__(self, command: tuple[str, ...], *, deadline: float = _DEADLINE) -> None:
        self._command, self._deadline = command, deadline
        self.last: Recent | None = None
        self._due = 0.0  # on the monotonic clock
        self._making: asyncio.Future[None] | None = None

    async def latest(self, config: Config, *, wait: float = _FIRST) -> Recent | None:
        """Return the last one; where there is none yet, wait for it a moment (seconds). Call on the event loop."""
        loop = asyncio.get_running_loop()
        making = self._making
        if making is None or making.done() or making.get_loop() is not loop:
            making = None
            if time.monotonic() >= self._due:
                self._making = making = loop.create_future()
                # A thread that nobody waits for when we end: the child ends with us.
                threading.Thread(target=self._make, args=(config, loop, making), name="recent", daemon=True).start()
        if self.last is None and making is not None:
            await asyncio.wait([making], timeout=wait)
        return self.last

    def _make(self, config: Config, loop: asyncio.AbstractEventLoop, done: asyncio.Future[None]) -> None:
        began = time.monotonic()
        try:
            found = make(
                Order(config, "report", time.time(), newest=True), deadline=self._deadline, command=self._command
            )
            if found:
                self.last = msgspec.msgpack.decode(found, type=Recent)
        except (AsideError, msgspec.MsgspecError) as error:
            say(log, logging.WARNING, "the report for pages cannot be made", error=type(error).__name__)
        self._due = time.monotonic() + max(_FRESH, _TIMES * (time.monotonic() - began))
        with suppress(RuntimeError):  # the loop has ended, and so has whoever waited
            loop.call_soon_threadsafe(lambda: None if done.done() else done.set_result(None))


_makings: dict[tuple[str, str], Making] = {}


async def latest(config: Config) -> Recent | None:
    """Return the last report there is, and see to it that there will be a newer one; None while there is none. Call on the event loop."""
    return await _makings.setdefault((config.records.url, config.state), Making(COMMAND)).latest(config)
