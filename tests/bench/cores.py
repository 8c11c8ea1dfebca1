"""Who runs where: client and engines share one core, what is measured has the other. On a machine with one core nothing is pinned."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

_ALL = sorted(os.sched_getaffinity(0))
LOAD = {_ALL[0]}
PEER = set(_ALL[1:2] or _ALL)
BOTH = set(_ALL)
#: Whether a peer that takes two cores has to share them with the load.
SHARED = len(_ALL) < 3


@contextlib.contextmanager
def pinned(cores: set[int]) -> Iterator[None]:
    """Processes started inside inherit these cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
