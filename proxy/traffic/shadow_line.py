"""One connection of the judge's client, and the call it carries: what was asked, and the answer as far as it has come.

House rules. One call at a time. A line never decides about a call's place, a new connection or a deadline: it tells its client. What the
peer sends outside a call breaks the connection off. Every piece is read when it comes, so that its time of arrival is the shadow's: to let a quick
stream gather for 25 ms and read it at once was tried and saved nothing (each pause and each resumption is a call of the system, too).
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from functools import lru_cache
from time import monotonic
from typing import Protocol, cast

from engines.dialect import Answer
from proxy.traffic.reply_head import ReplyHead
from proxy.traffic.reply_reader import ReplyReader

_IDLE = 4.0  # see pool.py: engines close idle connections after 5 s
_MARGIN = 1.0
#: A machine that is gone without a word is noticed 40 s after it fell silent, whether it owes an answer or an acknowledgement: else its calls would keep their
#: places until their deadline, each of them. An engine that thinks for minutes is still there, and its machine says so.
_ALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 20),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 40_000),
)
_AT_ONCE = struct.pack(
    "ii", 1, 0
)  # linger on, for no time (socket(7)): closing resets, and what was not sent is dropped
#: Seconds: less than what the kernel waits (above), which would end the connection on this side alone, without a word to the peer.
_UNREAD = 30.0
_PIECE = 96  # what a piece costs beside its bytes
_SHORT = 64  # fields of this length are the same in every reply, as a rule


class Owner(Protocol):
    """Who is told what happens to a line."""

    def opened(self, line: Line) -> None:
        """It is connected."""

    def lost(self, line: Line) -> None:
        """It is closed."""

    def give_back(self, line: Line) -> None:
        """It is free for the next call."""

    def over(self, asked: Asked) -> None:
        """Its call has ended."""

    def stale(self, asked: Asked) -> None:
        """Its call was sent into a connection that the peer had closed."""


class Asked:
    """One call: the request's bytes, a deadline (``seconds`` from now), whom to tell, and the answer as far as it has come."""

    __slots__ = (
        "_failure",
        "_headers",
        "_pieces",
        "_room",
        "_status",
        "body",
        "deadline",
        "grace",
        "head",
        "line",
        "method",
        "placed",
        "then",
    )

    def __init__(
        self, head: bytes, body: bytes, method: str, max_bytes: int, seconds: float, then: Callable[[Answer], None]
    ) -> None:
        self.head, self.body, self.method, self.then = head, body, method, then
        self.deadline = monotonic() + seconds
        self.grace = seconds  # by which the deadline may yet be moved
        self.line: Line | None = None
        self.placed = False  # it counts among those open at once
        self._room = max_bytes
        self._status = 0
        self._headers: tuple[tuple[str, str], ...] = ()
        self._pieces: list[tuple[int, bytes]] = []
        self._failure: str | None = None

    def restart(self) -> None:
        """Forget a failure: the call is made once more."""
        self._failure = None

    def extend(self, seconds: float) -> None:
        """Move the deadline, as far as there is grace."""
        granted = min(seconds, self.grace)
        self.grace -= granted
        self.deadline += granted

    def stuck(self, now: float, late: float) -> bool:
        """Tell whether it cannot be sent; see ``Line``."""
        return self.line is not None and self.line.stuck(now, late)

    def fail(self, reason: str) -> None:
        """Note why it failed; the first reason stays."""
        self._failure = self._failure or reason

    def take(self, reader: ReplyReader, micros: int) -> bool:
        """Take what the reader found; false when it is more than wanted."""
        head = reader.head
        if head is not None and not self._status:
            self._status = head.status
            self._headers = _headers(head, self.line)
        pieces = reader.pieces
        if pieces:
            # What one read brought arrived at one time: it is one piece.
            piece = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            self._room -= len(piece) + _PIECE
            if self._room < 0:
                self.fail("too_large")
                return False
            self._pieces.append((micros, piece))
        return True

    def answer(self) -> Answer:
        """The answer as it is now."""
        return Answer(self._status, self._headers, tuple(self._pieces), self._failure)


def _headers(head: ReplyHead, line: Line | None) -> tuple[tuple[str, str], ...]:
    """The fields of a head; those of a line's latest one are known when the reader has known the head again."""
    if line is not None and line.latest[0] is head:
        return line.latest[1]
    headers = tuple([_field(lower, value) for lower, _, value in head.fields])
    if line is not None:
        line.latest = head, headers
    return headers


def _field(lower: bytes, value: bytes) -> tuple[str, str]:
    return _short_field(lower, value) if len(value) <= _SHORT else _text(lower, value)


def _text(lower: bytes, value: bytes) -> tuple[str, str]:
    return lower.decode(), value.strip(b" \t").decode("latin-1")


_short_field = lru_cache(256)(_text)


class Line(asyncio.Protocol):
    """One connection, one call at a time."""

    def __init__(self, client: Owner) -> None:
        self._client = client
        self._transport: asyncio.Transport | None = None
        self._reader = ReplyReader()
        self._asked: Asked | None = None
        self._sent = 0.0
        self._reused = False
        self.latest: tuple[ReplyHead | None, tuple[tuple[str, str], ...]] = None, ()
        self._usable_until = 0.0
        self._unsent, self._moved = 0, 0.0
        self.closed = asyncio.Event()

    def usable(self, now: float) -> bool:
        """Tell whether an idle line may carry the next call."""
        return self._transport is not None and not self._transport.is_closing() and now < self._usable_until

    def ask(self, asked: Asked) -> None:
        """Send a call; the client is told when its answer has ended."""
        transport = self._transport
        asked.line = self
        if transport is None or transport.is_closing():
            asked.fail("reset")
            asyncio.get_running_loop().call_soon(self._client.over, asked)
            return
        self._reader.begin(asked.method.encode())
        self._asked = asked
        self._unsent = 0
        self._sent = monotonic()
        # One write where the body is small: joining costs less than a second buffer. A large one is not copied.
        if len(asked.body) < 1 << 16:
            transport.write(asked.head + asked.body)
        else:
            transport.writelines([asked.head, asked.body])

    def stuck(self, now: float, late: float) -> bool:
        """Tell whether the peer has read nothing of a request for longer than one can wait; ``late``: seconds in which we were not served ourselves."""
        unsent = 0 if self._transport is None else self._transport.get_write_buffer_size()
        if not unsent or unsent != self._unsent:
            self._unsent, self._moved = unsent, now
        self._moved += late
        return now - self._moved > _UNREAD

    def leave(self) -> None:
        """Break off, telling nobody: the call is of no more interest.

        By a reset: a peer that does not read would never come to the end behind what it has not read, and would keep a connection that has left our count.
        """
        self._asked = None
        connection = None if self._transport is None else self._transport.get_extra_info("socket")
        if connection is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        self.abort()

    def abort(self) -> None:
        """Break the connection off."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Asyncio's word that it is connected."""
        self._transport = cast("asyncio.Transport", transport)
        connection = transport.get_extra_info("socket")
        if connection is not None:
            for level, option, value in _ALIVE:
                connection.setsockopt(level, option, value)
        self._client.opened(self)

    def data_received(self, data: bytes) -> None:
        """Asyncio's word that something came."""
        asked, reader = self._asked, self._reader
        if asked is None:
            self.abort()
            return
        reader.feed(data)
        if not asked.take(reader, int((monotonic() - self._sent) * 1e6)):
            self._finish(asked, keep=False)
        elif reader.faulty:
            asked.fail("protocol")
            self._finish(asked, keep=False)
        elif reader.complete:
            self._finish(asked, keep=reader.keep and not reader.extra)

    def eof_received(self) -> bool:
        """Asyncio's word that the peer will send no more."""
        self._ended(clean=True)
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Asyncio's word that it is closed."""
        self._transport = None
        self._client.lost(self)
        self.closed.set()
        self._ended(clean=exc is None)

    def _ended(self, *, clean: bool) -> None:
        asked = self._asked
        if asked is None:
            return
        if not (clean and self._reader.ends_with_connection):
            if self._reused and self._reader.silent:
                self._asked = None
                self.abort()
                self._client.stale(asked)
                return
            asked.fail("reset" if self._reader.head is None else "cut")
        self._finish(asked, keep=False)

    def _finish(self, asked: Asked, *, keep: bool) -> None:
        self._asked = None
        transport = self._transport
        if transport is not None and not transport.is_closing():
            head = self._reader.head
            patience = _IDLE if head is None or head.patience is None else head.patience - _MARGIN
            if keep and patience > 0 and not transport.get_write_buffer_size():
                self._reused = True
                self._usable_until = monotonic() + patience
                self._client.give_back(self)
            else:
                transport.abort()
        self._client.over(asked)
