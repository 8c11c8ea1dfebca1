"""One coarse timer for everything that may wait too long: connections are looked at about once a second, none has a timer of its own.

House rules. Precision is not wanted here (limits are seconds to minutes); cheapness is: to put off a deadline is one attribute
store, and the clock is read once a tick. What expires is told once per look until it is dropped or sets a new deadline.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

_SLICES = 4  # a look at one slice per tick spreads the work of a full round


class Perishable(Protocol):
    """What can be watched: ``deadline`` in the loop's time (``Deadlines.now`` plus a span)."""

    deadline: float

    def expired(self) -> None:
        """Act on a ``deadline`` that has passed."""


class Deadlines:
    """``now`` is the loop's time as of the last tick; ``round_seconds`` how long a full round of looks takes."""

    def __init__(self, loop: asyncio.AbstractEventLoop, round_seconds: float = 1.0) -> None:
        self._loop = loop
        self._tick = round_seconds / _SLICES
        self._slices: list[set[Perishable]] = [set() for _ in range(_SLICES)]
        self._turn = 0
        self._next = 0
        self._handle: asyncio.TimerHandle | None = None
        self._every: list[Callable[[float], None]] = []
        self.now = loop.time()

    def start(self) -> None:
        """Begin to tick."""
        self.now = self._loop.time()
        self._handle = self._loop.call_later(self._tick, self._look)

    def stop(self) -> None:
        """Tick no more."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def every_tick(self, callback: Callable[[float], None]) -> None:
        """Call back with ``now`` at each tick."""
        self._every.append(callback)

    def watch(self, thing: Perishable) -> int:
        """Look at a thing from now on; the returned slice number is what ``drop`` wants."""
        self._next = number = (self._next + 1) % _SLICES
        self._slices[number].add(thing)
        return number

    def drop(self, thing: Perishable, number: int) -> None:
        """Look no more. Dropping twice is harmless."""
        self._slices[number].discard(thing)

    def _look(self) -> None:
        self.now = now = self._loop.time()
        self._handle = self._loop.call_later(self._tick, self._look)
        self._turn = (self._turn + 1) % _SLICES
        for thing in [thing for thing in self._slices[self._turn] if thing.deadline < now]:
            thing.expired()
        for callback in self._every:
            callback(now)
