"""What one traffic process shares between its connections: the configuration snapshot, the counters, the pool, the way to the judge.

House rules. A ``Snapshot`` is immutable and taken once per request; a reload makes a new one and swaps it in with ``reconfigure``, so that an
open exchange ends under the configuration it began with. Nothing here reads a socket.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from engines.dialect import Dialect
from proxy.config import Config, Sampling
from proxy.counters import Counters, Slot
from proxy.traffic.deadlines import Deadlines
from proxy.traffic.handoff import Handoff
from proxy.traffic.origin import Origin, read_origin, tls_context
from proxy.traffic.pool import Pool

if TYPE_CHECKING:
    from proxy.traffic.client_side import ClientSide
    from proxy.traffic.relay import Relay

_NOTHING = Sampling(rate=0.0)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One configuration as the live path uses it. Spans in seconds, sizes in bytes.

    ``samples`` is false when no request can be sampled. ``key_header`` is the lower-cased sampling header, ``inject`` the primary's dialect when logprobs are asked for on our account.
    """

    origin: Origin
    keep_host: bool
    sampling: Sampling
    samples: bool
    salt: str
    key_header: bytes | None
    capture_bytes: int
    head: float
    connect: float
    idle: float
    inject: Dialect | None


def snapshot_of(config: Config, salt: str, inject: Dialect | None) -> Snapshot:
    """Take from a configuration what the live path needs. Without shadows nothing is sampled. Raises ValueError for a bad primary URL."""
    by = config.sampling.by
    sampling = config.sampling if config.shadows else _NOTHING
    return Snapshot(
        origin=read_origin(config.primary.url),
        keep_host=config.primary.host == "keep",
        sampling=sampling,
        samples=sampling.highest > 0.0,
        salt=salt,
        key_header=by.removeprefix("header:").lower().encode() if by.startswith("header:") else None,
        capture_bytes=config.limits.capture_bytes,
        head=config.timeouts.head,
        connect=config.timeouts.connect,
        idle=config.timeouts.idle,
        inject=inject if config.primary.logprobs == "inject" else None,
    )


class Service:
    """The shared state. ``draining`` refuses to keep connections alive; ``idle`` is set while no client connection is open."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        snapshot: Snapshot,
        *,
        incarnation: str,
        counters: Counters,
        deadlines: Deadlines,
        handoff: Handoff,
    ) -> None:
        self.loop = loop
        self.incarnation = incarnation
        self.counters = counters
        self.deadlines = deadlines
        self.handoff = handoff
        self.snapshot = snapshot
        self.pool = self._new_pool(snapshot)
        self.draining = False
        self.clients: set[ClientSide] = set()
        self.idle = asyncio.Event()
        self.idle.set()
        self.open_exchanges = 0
        self._serial = 0
        self._old_pools: list[Pool] = []

    def number(self) -> str:
        """Make a new request id, unique over processes and restarts because the incarnation is."""
        self._serial += 1
        return f"{self.incarnation}-{self._serial:x}"

    def reconfigure(self, snapshot: Snapshot) -> None:
        """Use another snapshot from the next request on; connections to another primary are let go as they fall idle."""
        old = self.snapshot
        self.snapshot = snapshot
        if replace(snapshot, origin=old.origin, connect=old.connect) == snapshot:
            return
        self._old_pools = [pool for pool in (*self._old_pools, self.pool) if pool.in_use]
        self.pool.retire()
        self.pool = self._new_pool(snapshot)

    def cancel(self, relay: Relay) -> None:
        """Stop connecting for a relay, whichever pool it had asked."""
        for pool in (self.pool, *self._old_pools):
            pool.cancel(relay)

    def client_came(self, client: ClientSide) -> None:
        """Note an accepted connection."""
        self.clients.add(client)
        self.idle.clear()
        self.counters.add(Slot.CLIENT_CONNECTIONS)

    def client_left(self, client: ClientSide) -> None:
        """Note a closed connection."""
        if client not in self.clients:
            return
        self.clients.discard(client)
        self.counters.add(Slot.CLIENT_CONNECTIONS, -1)
        if not self.clients:
            self.idle.set()

    async def close(self) -> None:
        """Let every connection to the primary go. Call after the last client has left."""
        for pool in (*self._old_pools, self.pool):
            await pool.close()

    def _new_pool(self, snapshot: Snapshot) -> Pool:
        return Pool(self.loop, self.deadlines, snapshot.origin, tls_context(snapshot.origin), snapshot.connect)
