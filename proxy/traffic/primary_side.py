"""One connection to the primary: writes a request as it comes and passes every piece of the reply on at once.

House rules. Bytes and flow only: what a reply means is read by ``ReplyReader``, what happens to it is decided by the relay. A connection whose
last reply was not whole, clean and kept alive by the peer is never used again.
"""

from __future__ import annotations

import asyncio
import select
from time import monotonic
from typing import TYPE_CHECKING, cast

from proxy.traffic.reply_head import Framing
from proxy.traffic.reply_reader import ReplyReader
from proxy.traffic.writing import write

if TYPE_CHECKING:
    from proxy.traffic.pool import Pool
    from proxy.traffic.relay import Relay

_HIGH_WATER = 64 << 10
_LONG = 0.25  # seconds; beyond it an idle connection is asked about before it is used, which costs a system call

#: One for the process: what a read brings is copied out before the next. libuv's own reads are four times as large, and a slow client's
#: connection would hold one of them, in pieces that take nearly as much again.
_READ = memoryview(bytearray(64 << 10))


class PrimarySide(asyncio.BufferedProtocol):
    """``reused`` tells a connection that has answered before: only such a one can be stale."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._transport: asyncio.Transport | None = None
        self._relay: Relay | None = None
        self._reader = ReplyReader()
        self._slice = -1
        self.deadline = float("inf")
        self.idle_from = 0.0
        self.rests_until = 0.0  # the pool's: see there; 0 while in use
        self.reused = False
        self._held = False  # not read for now
        self.blocked = False  # what was written waits for the peer to read
        self.closed = asyncio.Event()

    @property
    def silent(self) -> bool:
        """Tell whether not one byte of the reply has come."""
        return self._reader.silent

    def usable(self, now: float) -> bool:
        """Tell whether an idle connection may carry another request, by the loop's knowledge or, after a while, by the system's.

        A close that has come and is yet to be read would cost the next client its request.
        """
        transport = self._transport
        if transport is None or transport.is_closing() or now >= self.deadline:
            return False
        return now - self.idle_from < _LONG or not _readable(transport.get_extra_info("socket").fileno())

    def serve(self, relay: Relay) -> None:
        """Carry one exchange from now on."""
        self._relay = relay
        self.deadline = float("inf")
        self.rests_until = 0.0
        self._reader.begin(relay.method, offered=relay.websocket)
        relay.attached(self)

    def send(self, pieces: list[bytes]) -> None:
        """Write bytes of the request."""
        transport = self._transport
        if transport is not None and not transport.is_closing():
            write(transport, pieces)

    def pause_reading(self) -> None:
        """Read no more for now: the client does not keep up."""
        self._held = True
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read on."""
        self._held = False
        if self._transport is not None:
            self._transport.resume_reading()

    def close(self) -> None:
        """Close an idle connection."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Break off, now: a generating engine sees its client leave. The relay hears nothing more."""
        self._relay = None
        if self._transport is not None:
            self._transport.abort()

    def hand_over(self) -> asyncio.Transport:
        """Give the connection to a tunnel."""
        self._relay = None
        return cast("asyncio.Transport", self._transport)

    def expired(self) -> None:
        """Close when the idle time is over."""
        self.deadline = float("inf")
        self._pool.forget(self)
        self.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=_HIGH_WATER)
        self._pool.opened(self)
        self._slice = self._pool.deadlines.watch(self)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the size is ours to bound
        """Lend the place for one read."""
        return _READ

    def buffer_updated(self, nbytes: int) -> None:
        """Take what was read."""
        self.data_received(bytes(_READ[:nbytes]))

    def data_received(self, data: bytes) -> None:
        """Read and pass on."""
        relay = self._relay
        if relay is None:
            self.abort()  # an answer nobody asked for
            return
        clock = monotonic()
        reader = self._reader
        reader.feed(data)
        over = reader.complete
        if over or reader.heads or reader.pieces:
            as_came = data if reader.whole_chunks or reader.as_came else None
            relay.reply(reader.heads, reader.pieces, clock, as_came, over=over)
            if self._relay is None:  # the relay broke off
                return
        if reader.switched is not None:
            relay.switched(self, reader.switched)
        elif reader.faulty:
            self.abort()
            relay.primary_faulty()
        elif over:
            self._over(relay, clock)

    def eof_received(self) -> bool:
        """End; nothing is written after the peer has closed."""
        self._ended(clean=True)
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._transport = None
        self._pool.deadlines.drop(self, self._slice)
        self._pool.lost(self)
        self.closed.set()
        self._ended(clean=exc is None)

    def pause_writing(self) -> None:
        """Hold the upload."""
        self.blocked = True
        if self._relay is not None:
            self._relay.upload_blocked()

    def resume_writing(self) -> None:
        """Let the upload go on."""
        self.blocked = False
        if self._relay is not None:
            self._relay.upload_free()

    def _over(self, relay: Relay, clock: float) -> None:
        reader = self._reader
        assert reader.head is not None
        self._relay = None
        if reader.keep and not reader.extra and relay.request_sent and not self.blocked:
            self.reused = True
            if self._held:
                self.resume_reading()
            self._pool.give_back(self, reader.head.patience, clock, chunked=reader.head.framing is Framing.CHUNKED)
        else:
            self.abort()
        relay.reply_over(clock)

    def _ended(self, *, clean: bool) -> None:
        relay, self._relay = self._relay, None
        if relay is None:
            return
        if clean and self._reader.ends_with_connection:
            relay.reply_over(monotonic())
        else:
            relay.primary_lost(self)


def _readable(descriptor: int) -> bool:
    """Tell whether something has come: of an idle connection only its end, or what nobody asked for."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))
