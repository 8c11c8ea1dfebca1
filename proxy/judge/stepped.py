"""A coroutine whose own steps are measured, and not what runs while it waits.

House rules. Knows nothing of what it runs: results, errors and cancellation go through as they are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from contextlib import AbstractContextManager
from typing import Any, TypeVar

T = TypeVar("T")


class _Steps:
    __slots__ = ("_around", "_work")

    def __init__(self, work: Coroutine[Any, Any, T], around: AbstractContextManager[None]) -> None:
        self._work, self._around = work, around

    def __await__(self) -> Generator[Any, Any, Any]:
        work, around = self._work, self._around
        cancelled: asyncio.CancelledError | None = None
        try:
            while True:
                try:
                    with around:
                        waits_for = work.send(None) if cancelled is None else work.throw(cancelled)
                except StopIteration as end:
                    return end.value
                cancelled = None
                try:
                    yield waits_for
                except asyncio.CancelledError as error:  # the coroutine's to deal with
                    cancelled = error
        finally:
            work.close()


async def stepped(work: Coroutine[Any, Any, T], around: AbstractContextManager[None]) -> T:
    """Run a coroutine, entering ``around`` for each of its steps."""
    found: T = await _Steps(work, around)
    return found
