"""Nobody in between: what a client and an engine cost each other."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from tests.bench.peers.peer import Peer, Setting


@contextlib.contextmanager
def start(setting: Setting) -> Iterator[Peer]:
    """The engine's own port. Its CPU figure means nothing."""
    yield Peer("direct", setting.primary, os.getpid(), mirrors=False)
