"""A websocket on its way through: once the primary has agreed to switch, the two connections of an exchange become one pipe.

House rules. Opaque and both ways: nothing is parsed, held or sampled, and a side that does not read stops the other. Both ends close together, what was
written before still delivered; a pipe that is silent for ``idle`` is closed, one that will not close is cut. Who accepted the connections goes
on counting them: the end of each is passed on to its former protocol.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from proxy.counters import Slot

if TYPE_CHECKING:
    from proxy.traffic.client_side import ClientSide
    from proxy.traffic.primary_side import PrimarySide
    from proxy.traffic.service import Service

_LINGER = 2.0  # seconds for what was written last to leave


_Side = tuple[asyncio.Transport, "ClientSide | PrimarySide"]


class Tunnel:
    """Made by ``join``. ``over`` is called once, when it begins to close."""

    def __init__(self, service: Service, idle: float, over: Callable[[], None]) -> None:
        self._deadlines = deadlines = service.deadlines
        self._counters = service.counters
        self._counters.add(Slot.OPEN_STREAMS)
        self._idle = idle
        self._over = over
        self._open: list[asyncio.Transport] = []
        self._closing = False
        self.deadline = deadlines.now + idle
        self._slice = deadlines.watch(self)

    def begin(self, one: _Side, other: _Side) -> None:
        """Take both connections over, each with the protocol that it had."""
        for (transport, owner), (far, behind) in ((one, other), (other, one)):
            self._open.append(transport)
            transport.set_protocol(_End(self, transport, far, owner))
            if transport.is_closing():
                continue
            if behind.blocked:  # its transport has said so, and tells only when it is over
                transport.pause_reading()
            else:
                transport.resume_reading()

    def touch(self) -> None:
        """Something passed: the idle time starts anew."""
        if not self._closing:
            self.deadline = self._deadlines.now + self._idle

    def close(self) -> None:
        """Close both ends when what was written to them has left."""
        if not self._closing:
            self._closing = True
            self.deadline = self._deadlines.now + _LINGER
            for transport in self._open:
                transport.close()
            self._counters.add(Slot.OPEN_STREAMS, -1)
            self._over()

    def expired(self) -> None:
        """End what is silent, and cut what does not end."""
        if not self._closing:
            self.close()
        else:
            for transport in list(self._open):
                transport.abort()

    def lost(self, transport: asyncio.Transport) -> None:
        """Note the end of one connection; the other's follows."""
        self._open.remove(transport)
        self.close()
        if not self._open:
            self._deadlines.drop(self, self._slice)


class _End(asyncio.Protocol):
    """One connection: what comes in goes out at the ``far`` one."""

    def __init__(
        self, tunnel: Tunnel, transport: asyncio.Transport, far: asyncio.Transport, owner: asyncio.BaseProtocol
    ) -> None:
        self._tunnel = tunnel
        self.transport = transport
        self._far = far
        self._owner = owner

    def data_received(self, data: bytes) -> None:
        """Pass on."""
        self._tunnel.touch()
        if not self._far.is_closing():
            self._far.write(data)

    def eof_received(self) -> bool:
        """End: nobody speaks websocket over half a connection (RFC 6455 section 7.1.1)."""
        self._tunnel.close()
        return False

    def pause_writing(self) -> None:
        """Read no more at the far end: this side does not keep up."""
        if not self._far.is_closing():
            self._far.pause_reading()

    def resume_writing(self) -> None:
        """Let the far end go on."""
        if not self._far.is_closing():
            self._far.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._owner.connection_lost(exc)
        self._tunnel.lost(self.transport)


def join(
    service: Service, idle: float, client: ClientSide, primary: PrimarySide, beyond: bytes, over: Callable[[], None]
) -> None:
    """Make one pipe of two connections, with ``beyond`` what the primary sent behind its 101. ``idle`` in seconds; ``over`` is called once."""
    near, early = client.hand_over()
    far = primary.hand_over()
    Tunnel(service, idle, over).begin((near, client), (far, primary))
    for transport, data in ((far, early), (near, beyond)):
        if data and not transport.is_closing():
            transport.write(data)
