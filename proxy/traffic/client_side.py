"""One client connection: reads requests with llhttp, one after the other, and writes the replies.

House rules. A request that is not understood is refused with a constant text and the connection closed, before a byte of it has gone to
the primary. The head is fed to the parser alone, up to its blank line, so that a body's bytes are never taken for another head and a pipelined
request waits, unparsed and bounded, for its turn. Whatever the peer does, what is held of it is bounded.
"""

from __future__ import annotations

import asyncio
from enum import Enum
from time import monotonic
from typing import Any, cast

import httptools

from proxy.counters import Slot
from proxy.exchange import Ended
from proxy.traffic import known_head, refusals, request_head
from proxy.traffic.admission import admit
from proxy.traffic.known_head import KnownHead
from proxy.traffic.refusals import Refusal
from proxy.traffic.relay import Relay
from proxy.traffic.request_head import MAX_HEAD
from proxy.traffic.service import Service
from proxy.traffic.writing import reset_at_close, unsent, write

_HIGH_WATER = 32 << 10
_AHEAD = 64 << 10  # pipelined bytes held while a reply is open; then the client is no longer read
_SLOWEST = 500  # bytes a second of a body, beyond the idle time that each has: Apache's mod_reqtimeout asks for as much after 20 s
_LINGER = 2.0  # after a refusal: read on so that the answer is not lost to a reset (RFC 9112 section 9.6)


class _State(Enum):
    HEAD = 1
    BODY = 2
    REPLY = 3
    CLOSING = 4


# Members of an enumeration cost a lookup each time they are named.
_HEAD, _BODY, _REPLY, _CLOSING = _State


class ClientSide(asyncio.Protocol):
    """Made by the server for each accepted connection."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._transport: asyncio.Transport | None = None
        self._slice = -1
        self._state = _HEAD
        self._relay: Relay | None = None
        self._held = b""  # of an unfinished head, or pipelined behind an open exchange
        self._remaining = 0  # body bytes still to come, with Content-Length
        self._chunked = False
        self._idle = service.snapshot.idle
        self._backlog = -1
        self._paused = False
        self.blocked = False  # what was written waits for the client to read
        self._body_until = self._held_since = 0.0
        self.deadline = 0.0
        self._parser: Any = None
        self._known: KnownHead | None = None  # the latest request's head
        self._begin_head()

    def _new_parser(self) -> None:
        self._parser = httptools.HttpRequestParser(self)
        self._begin_head()

    def _begin_head(self) -> None:
        self._fields: list[tuple[bytes, bytes]] = []
        self._pieces: list[bytes] = []
        self._head_complete = False
        self._message_complete = False
        self._beyond = False  # a pipelined request was swallowed by the parser
        self._quiet = 0

    # -- used by the relay

    def write(self, pieces: list[bytes]) -> None:
        """Send bytes of a reply."""
        transport = self._transport
        if transport is not None and not transport.is_closing():
            write(transport, pieces)

    def touch(self) -> None:
        """Something happened: the idle time starts anew."""
        self.deadline = self._service.deadlines.now + self._idle

    def hold(self) -> None:
        """Read no more of the request for now."""
        if self._transport is not None and not self._paused:
            self._paused = True
            self._held_since = self._service.deadlines.now
            self._transport.pause_reading()

    def release(self) -> None:
        """Read on."""
        if self._transport is not None and self._paused:
            self._paused = False
            self._body_until += self._service.deadlines.now - self._held_since
            self._transport.resume_reading()

    def exchange_over(self, *, close: bool) -> None:
        """Go on to the next request, or close, now that the reply is written."""
        self._relay = None
        if self._state is _CLOSING:
            return
        unread = self._state is _BODY or bool(self._held)
        if close or self._beyond or self._service.draining:
            self._close(linger=unread)
        elif not self.blocked:
            self._next()

    def _next(self) -> None:
        # Not before the client has taken what was written: the replies to pipelined requests would pile up.
        self._state = _HEAD
        self.deadline = self._service.deadlines.now + self._idle
        held, self._held = self._held, b""
        if self._paused:
            self.release()
        if held:
            self._read_head(held)

    def refuse(self, refusal: Refusal) -> None:
        """Answer with a constant text and close."""
        self._relay = None
        self.write([refusal.closing])
        self._close(linger=True)

    def cut(self, *, reset: bool) -> None:
        """Let what was written leave, then end the connection inside the reply; ``reset`` where a plain end would look like a whole reply."""
        self._relay = None
        if reset and self._transport is not None:
            reset_at_close(self._transport)
        self._close(linger=False)

    def hand_over(self) -> tuple[asyncio.Transport, bytes]:
        """Give the connection to a tunnel, and what came behind the request."""
        self._relay, self.deadline = None, float("inf")
        return cast("asyncio.Transport", self._transport), self._held

    # -- used by the service

    def drain(self) -> None:
        """Close now if no exchange is open; else after it."""
        if self._state is _HEAD and not self._held:
            self._close(linger=False)

    def abort(self) -> None:
        """Break the connection off."""
        if self._transport is not None:
            self._transport.abort()

    def expired(self) -> None:
        """Give up waiting; who is to blame depends on what was waited for."""
        relay = self._relay
        if relay is None:
            if self._state is _HEAD and self._held:
                self._service.counters.add(Slot.REFUSED_HEADS)
                self.refuse(refusals.HEAD_TIMEOUT)
            elif self._state is not _CLOSING and self._progress():
                self.touch()
            else:
                self.abort()
        elif self._progress():
            self.touch()
        elif self._state is _BODY and self._transport is not None and self._transport.is_reading():
            relay.abandon(refusals.HEAD_TIMEOUT, Ended.CLIENT_GONE)
        else:
            relay.abandon(refusals.PRIMARY_TIMEOUT, Ended.CLIENT_GONE if self._backlog > 0 else Ended.PRIMARY_CUT)

    def _progress(self) -> bool:
        """Tell whether a slow reader has taken bytes since the last look, from our buffer or from the kernel's."""
        if self._transport is None:
            return False
        backlog = unsent(self._transport)
        before, self._backlog = self._backlog, backlog
        return backlog > 0 and (before < 0 or backlog != before)

    # -- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for a head."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=_HIGH_WATER)
        service = self._service
        service.client_came(self)
        self.deadline = service.loop.time() + service.snapshot.head
        self._slice = service.deadlines.watch(self)

    def data_received(self, data: bytes) -> None:
        """Read on where the last bytes ended."""
        state = self._state
        if state is _HEAD:
            self._read_head(data)
        elif state is _BODY:
            self._body_until += len(data) / _SLOWEST
            self.deadline = min(self._service.deadlines.now + self._idle, self._body_until)
            self._read_body(data)
        elif state is _REPLY:
            self._held += data
            if len(self._held) > _AHEAD:
                self.hold()

    def eof_received(self) -> bool:
        """Take the client for gone."""
        # A client that closes and one that only stops sending look the same; like other proxies we take both for gone.
        if self._state is not _CLOSING:
            self._gone()
            self.abort()
        return False

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - why does not matter: gone is gone
        """End."""
        self._transport = None
        self._service.deadlines.drop(self, self._slice)
        self._gone()
        self._service.client_left(self)

    def pause_writing(self) -> None:
        """Hold the reply."""
        self.blocked = True
        if self._relay is not None:
            self._relay.client_blocked()

    def resume_writing(self) -> None:
        """Let the reply go on, or the next begin."""
        self.blocked = False
        if self._relay is not None:
            self.touch()
            self._relay.client_free()
        elif self._state is _REPLY:
            self.exchange_over(close=False)

    # -- httptools callbacks: collect only

    def on_message_begin(self) -> None:
        """Note a request that follows in the same feed."""
        if self._message_complete:
            self._beyond = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """Collect a field; after the head it is a trailer, which is dropped."""
        if not self._head_complete:
            self._fields.append((name, value))

    def on_headers_complete(self) -> None:
        """Note the end of the head."""
        self._head_complete = True

    def on_body(self, piece: bytes) -> None:
        """Collect a piece of a chunked body."""
        if not self._message_complete:
            self._pieces.append(piece)

    def on_message_complete(self) -> None:
        """Note the end of the request."""
        self._message_complete = True

    # -- reading

    def _read_head(self, data: bytes) -> None:
        clock = monotonic()
        known = len(self._held)
        if not known:
            data = data.lstrip(b"\r\n")  # blank lines before a request line (RFC 9112 section 2.2)
            if not data:
                return
            self.deadline = self._service.deadlines.now + self._service.snapshot.head
            found = known_head.read(self._known, data)
            if found is not None:
                self._known, end = found
                self._accept(self._known, data[end:], clock, upgrade=False)
                return
            self._begin_head()
            if self._parser is None:
                self._new_parser()
        block = self._held + data if known else data
        end = block.find(b"\r\n\r\n", max(0, known - 3)) + 4
        whole = end > 3
        upgrade = False
        try:
            self._parser.feed_data(block[known:end] if whole else data)
        except httptools.HttpParserUpgrade:
            upgrade = True
        except httptools.HttpParserError:
            self._refuse_head(request_head.blame(block, self._fields))
            return
        if len(block) > MAX_HEAD and (not whole or end > MAX_HEAD):
            self._refuse_head(refusals.HEAD_TOO_LARGE)
        elif not whole:
            self._held = block
        else:
            self._held = b""
            head = request_head.read(block.partition(b"\r\n")[0], self._fields)
            if isinstance(head, Refusal):
                self._refuse_head(head)
            else:
                self._accept(KnownHead(head), block[end:], clock, upgrade=upgrade)

    def _accept(self, known: KnownHead, rest: bytes, clock: float, *, upgrade: bool) -> None:
        service = self._service
        snapshot = service.snapshot
        self._idle = snapshot.idle
        self._backlog = -1
        self.deadline = service.deadlines.now + snapshot.idle
        head = known.head
        capture = admit(service, snapshot, known, clock)
        relay = self._relay = Relay(service, snapshot, self, known, capture, clock)
        self._chunked = head.chunked
        self._remaining = length = head.length or 0
        if length == len(rest) and not head.chunked and not upgrade:
            self._state = _REPLY
            self._parser = None if length else self._parser
            relay.whole(rest)
            return
        if head.chunked:
            if upgrade:
                self._new_parser()
                self._parser.feed_data(request_head.RESUME)
                self._fields = []
        elif upgrade or self._remaining:
            self._parser = None  # it stands in a message whose body is counted here, not parsed: uncopied, as it came
        if not head.has_body:
            self._request_over(rest)
        else:
            self._state = _BODY
            self._body_until = self.deadline
            if rest:
                self._read_body(rest)
        relay.start()

    def _read_body(self, data: bytes) -> None:
        relay = self._relay
        if relay is None:
            return
        if self._chunked:
            self._read_chunks(relay, data)
            return
        piece = data if len(data) <= self._remaining else data[: self._remaining]
        self._remaining -= len(piece)
        relay.body(piece)
        if not self._remaining:
            self._request_over(data[len(piece) :])

    def _read_chunks(self, relay: Relay, data: bytes) -> None:
        faulty = False
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            faulty = not self._message_complete
            self._beyond = True
        pieces, self._pieces = self._pieces, []
        self._quiet = 0 if pieces else self._quiet + len(data)
        if faulty or (self._quiet > MAX_HEAD and not self._message_complete):
            relay.abandon(refusals.BAD_FRAMING, Ended.CLIENT_GONE)
            return
        for piece in pieces:
            relay.body(piece)
        if self._message_complete:
            if self._beyond:
                self._new_parser()
                self._beyond = True
            self._request_over(b"")

    def _request_over(self, rest: bytes) -> None:
        assert self._relay is not None
        self._state = _REPLY
        self._held = rest
        if self._paused:
            self.release()
        self._relay.body_end()

    # -- ends

    def _refuse_head(self, refusal: Refusal) -> None:
        self._service.counters.add(Slot.REFUSED_HEADS)
        self.refuse(refusal)

    def _gone(self) -> None:
        relay, self._relay = self._relay, None
        if relay is not None:
            relay.client_gone()

    def _close(self, *, linger: bool) -> None:
        self._state = _CLOSING
        self._held = b""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if linger:
            self.deadline = self._service.deadlines.now + _LINGER
            transport.write_eof()
            self.release()
        else:
            self.touch()
            transport.close()
