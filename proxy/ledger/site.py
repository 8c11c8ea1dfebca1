"""What every answer of the admin port may need: the configuration in force, the replica behind it, the clock, turns at the disk, who has signed in.

House rules. One for each application, under the key ``SITE``; handlers find it as ``request.app[SITE]`` and hold nothing of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ParamSpec, TypeVar

from aiohttp import web

from proxy.config import Config
from proxy.config_load import address
from proxy.ledger.access import Rules, is_loopback
from proxy.ledger.operation import Operation
from proxy.ledger.sessions import Sessions, Tries

_READS_AT_ONCE = 4
_P = ParamSpec("_P")
_T = TypeVar("_T")


@dataclass(slots=True)
class Site:
    """``operation``: the replica, whose configuration may change under way; None: ``started`` stands, and nothing can be changed.

    ``ready``: whether clients can be served now; ``command`` is named in the report; ``clock`` gives Unix seconds.
    """

    started: Config
    ready: Callable[[], bool]
    command: str
    clock: Callable[[], float]
    operation: Operation | None
    sessions: Sessions = field(default_factory=Sessions)
    tries: Tries = field(default_factory=Tries)
    building: asyncio.Lock = field(default_factory=asyncio.Lock)  # a report reads every record: one at a time
    changing: asyncio.Lock = field(default_factory=asyncio.Lock)
    reads: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_READS_AT_ONCE))

    @property
    def config(self) -> Config:
        """The configuration in force."""
        return self.started if self.operation is None else self.operation.config

    def rules(self) -> Rules:
        """How the port is guarded now."""
        host, _ = address(self.config.admin, "admin")
        return Rules(is_loopback(host), self.config.admin_token, frozenset(self.config.admin_public))

    async def read(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Call something that reads the disk in a thread, when it is its turn."""
        async with self.reads:
            return await asyncio.to_thread(function, *args, **kwargs)


SITE: web.AppKey[Site] = web.AppKey("site", Site)
