"""Memory given back to the system once a backlog has drained, or moved on to the judge.

What waited for the judge were thousands of buffers of every size, and other things were allocated between them: the C library keeps the pages that they
leave. ``malloc_trim(3)`` gives them back; it is glibc's, and elsewhere nothing is done.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

#: Bytes. What a smaller backlog leaves is not worth the walk through the heap; so much is, though the rest is still there: another process may be about to hold it.
_LARGE, _MUCH = 1 << 20, 16 << 20


def _of_the_library() -> Callable[[int], object]:
    try:
        trim: Callable[[int], object] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):
        return lambda _: None
    return trim


class Heap:
    """Watches a backlog in bytes."""

    def __init__(self) -> None:
        self._trim = _of_the_library()
        self._most = 0

    def holds(self, backlog: int) -> None:
        """Note the backlog; when a large one is gone, or much of a very large one, give back what it took: a walk of about 1 ms behind 16 MiB, 10 ms behind 256."""
        self._most = most = max(self._most, backlog)
        if most - backlog >= (max(_MUCH, most // 8) if backlog else _LARGE):
            self._most = backlog
            self._trim(0)
