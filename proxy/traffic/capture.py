"""The copy of one sampled exchange: references to the bytes that passed, with the time each piece of the reply arrived.

House rules. Nothing is parsed, and nothing that can be a credential is kept: headers by allow-list, the path without its
query, the sampling header as a keyed hash. A capture over ``limits.capture_bytes`` is shed at once with what it
holds; so is one for which the hand-over budget has no room. Every way out leaves the counters' equation exact.
"""

from __future__ import annotations

import re
from typing import Any

from proxy.config import Sampling
from proxy.counters import Counters, Slot
from proxy.exchange import Ended, Exchange
from proxy.traffic import plain_head
from proxy.traffic.handoff import Handoff
from proxy.traffic.known_head import LONGEST, Fields, KnownHead
from proxy.traffic.sample import Standing, settle

_REQUEST_HEADERS = plain_head.fields_named(
    b"content-type", b"content-encoding", b"accept", b"accept-encoding", b"user-agent", b"traceparent",
    b"openai-beta", b"anthropic-version", b"anthropic-beta",
)  # fmt: skip
_REPLY_HEADERS = plain_head.fields_named(
    b"content-type", b"content-encoding", b"server", b"retry-after", b"openai-model", b"openai-version", b"openai-processing-ms",
)  # fmt: skip
_OPEN = int(Slot.OPEN_SAMPLED)
_OFFERED = Standing.OFFERED  # a member of an enumeration costs a lookup each time it is named
#: What a piece costs beside its bytes (object headers, tuple, list slot): a flood of one-byte pieces must not slip under the limit.
_PIECE = 96
_LUMP = 1 << 10  # the budget is taken in such lumps, not for every piece


class Capture:
    """One open capture. Made for a request whose standing is SAMPLED or OFFERED, and settled exactly once: shed or closed."""

    __slots__ = (
        "_counters", "_granted", "_handoff", "_known", "_limit", "_number", "_pieces", "_request", "_request_headers", "_size",
        "_started", "_target", "_zero", "head_us", "in_flight", "incarnation", "injected", "method", "offered", "open",
        "response_headers", "status", "u",
    )  # fmt: skip

    def __init__(
        self, counters: Counters, handoff: Handoff, known: KnownHead, standing: Standing,
        incarnation: str, number: str, u: float | None, limit: int, started: float, zero: float, in_flight: int,
        key_hash: tuple[bytes, bytes] | None,
    ) -> None:  # fmt: skip
        self._counters = counters
        self._handoff = handoff
        self._limit = limit
        self._number = number
        self._known = known
        self.u = u
        self.offered = standing is _OFFERED
        self._started = started
        self._zero = zero  # the monotonic clock at ``started``
        self._request: list[bytes] = []
        self._pieces: list[tuple[int, bytes]] = []
        self._size = self._granted = 0
        self.method, self._target, headers = known.note or _noted(known)
        self._request_headers = (*headers, key_hash) if key_hash else headers
        self.incarnation = incarnation
        self.in_flight = in_flight
        self.injected = False
        self.status = 0
        self.head_us = 0
        self.response_headers: Fields = ()
        self.open = True
        counters.slots[_OPEN] += 1

    def wants(self, sampling: Sampling, salt: str, path: bytes, body: dict[str, Any]) -> bool:
        """Whether the exchange is sampled, now that its request's body has been read."""
        if not self.open or not self.offered:
            return self.open
        return settle(sampling, u=self.u, salt=salt, path=path.decode("latin-1"), body=body)

    def request(self, piece: bytes) -> None:
        """Keep a piece of the request's body."""
        if self.open and self._room(len(piece) + _PIECE):
            self._request.append(piece)

    def reply_head(self, status: int, lines: bytes, clock: float) -> None:
        """Note the primary's reply head; ``clock`` is the monotonic clock now."""
        self.status = status
        self.head_us = self._micros(clock)
        known = self._known
        latest, self.response_headers = known.reply_note
        if latest != lines:
            self.response_headers = fields = _allowed(_REPLY_HEADERS, lines)
            if len(lines) <= LONGEST:
                known.reply_note = lines, fields

    def reply(self, piece: bytes, clock: float) -> None:
        """Keep a piece of the reply's body, which arrived at ``clock``; none of an error, where engines quote keys and nothing is to be compared."""
        if self.open and self.status < 400 and self._room(len(piece) + _PIECE):
            self._pieces.append((int((clock - self._zero) * 1e6), piece))

    def restart(self) -> None:
        """Forget the reply so far: the primary is asked again."""
        self._size -= sum(len(piece) + _PIECE for _, piece in self._pieces)
        self._pieces.clear()
        self.status = 0
        self.injected = False

    def shed(self, slot: Slot) -> None:
        """Give the capture up, counted under ``slot``; later pieces are ignored."""
        if self.open:
            self._settle()
            self._counters.add(slot)

    def close(self, ended: Ended, clock: float, *, request_whole: bool = True) -> None:
        """Hand the exchange over, now that it has ended. Ignored when it was shed before."""
        if not self.open:
            return
        exchange = Exchange(
            self._number, self.incarnation, self._started, self.u, self.method, self._target, self._request_headers,
            b"".join(self._request), self.status, self.response_headers, tuple(self._pieces), self.head_us,
            self._micros(clock), ended, self.injected, self.in_flight, offered=self.offered,
            request_whole=request_whole,
        )  # fmt: skip
        self._settle()
        self._handoff.offer(exchange)

    def _room(self, size: int) -> bool:
        size += self._size
        if size > self._limit:
            self.shed(Slot.SHED_CAPTURE)
            return False
        if size > self._granted:
            more = max(size - self._granted, _LUMP)
            if not self._handoff.hold(more):
                self.shed(Slot.SHED_QUEUE)
                return False
            self._granted += more
        self._size = size
        return True

    def _settle(self) -> None:
        self.open = False
        self._counters.slots[_OPEN] -= 1
        self._handoff.hold(-self._granted)
        self._request.clear()
        self._pieces.clear()

    def _micros(self, clock: float) -> int:
        return int((clock - self._zero) * 1e6)


def _noted(known: KnownHead) -> tuple[str, str, Fields]:
    """What is kept of a request's head, for this exchange and for those whose head is the same."""
    head = known.head
    known.note = note = head.method.decode(), head.path.decode("latin-1"), _allowed(_REQUEST_HEADERS, head.lines)
    return note


def _allowed(pattern: re.Pattern[bytes], lines: bytes) -> Fields:
    """Return the fields on the list, names lower-cased, from field lines."""
    return tuple([(name.lower(), value) for name, value in pattern.findall(lines)])
