"""The head of a connection's latest message, known again in the next: mostly the two differ in nothing but the digits of Content-Length.

House rules. Pure. Known is only what ``read_plain`` has accepted, and taken for the same only what has the same bytes around those digits,
so that reading it anew would give the same; the tests hold one against the other. It lives no longer than its connection: a head holds credentials.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from proxy.traffic import plain_head, reply_head, request_head
from proxy.traffic.reply_head import ReplyHead
from proxy.traffic.request_head import RequestHead
from proxy.traffic.routes import route_of

if TYPE_CHECKING:
    from proxy.traffic.service import Snapshot

LONGEST = 4 << 10  # bytes of a head that are kept: a connection is not to cost much more than its buffers
Fields = tuple[tuple[bytes, bytes], ...]


class KnownHead:
    """An accepted head, and what has been made of it so far.

    ``block`` are its bytes up to the body, empty when it is not to be known again. ``note`` is for what a capture keeps of it: method, target and fields;
    ``reply_note`` for what it keeps of the latest reply's lines.
    """

    __slots__ = ("_around", "_block", "_snapshot", "_written", "head", "note", "reply_note", "route")

    def __init__(self, head: RequestHead, block: bytes = b"") -> None:
        self.head = head
        self.route = route_of(head.path)
        self.note: tuple[str, str, Fields] | None = None
        self.reply_note: tuple[bytes, Fields] = b"", ()
        self._block = block if len(block) <= LONGEST else b""
        self._around = plain_head.around_length(self._block)
        self._snapshot: Snapshot | None = None
        self._written = b""

    def again(self, data: bytes) -> tuple[KnownHead, int] | None:
        """Read the head that ``data`` begins with and say where it ends, when it is this one but for Content-Length; else None."""
        block = self._block
        if block and data.startswith(block):
            return self, len(block)
        if self._around is None:
            return None
        found = plain_head.length_between(*self._around, data)
        return None if found is None else (self._of_length(data, *found), found[1])

    def _of_length(self, data: bytes, digits: bytes, end: int) -> KnownHead:
        around = plain_head.around_length(self.head.lines)
        assert around is not None
        head = replace(self.head, lines=around[0] + digits + around[1], length=int(digits))
        known = KnownHead(head, data[:end])
        known.note, known.reply_note = self.note, self.reply_note
        return known

    def written(self, snapshot: Snapshot) -> bytes:
        """The head as it goes to the primary."""
        if self._snapshot is not snapshot:
            self._snapshot = snapshot
            self._written = request_head.write(self.head, snapshot.origin, keep_host=snapshot.keep_host)
        return self._written


def read(latest: KnownHead | None, data: bytes) -> tuple[KnownHead, int] | None:
    """Read the head that ``data`` begins with and say where it ends, when it is whole and in plain spelling; else None."""
    if latest is not None and (found := latest.again(data)) is not None:
        return found
    plain = request_head.read_plain(data)
    return None if plain is None else (KnownHead(plain[0], data[: plain[1]]), plain[1])


class KnownReply:
    """The same of a reply to ``method``: its head, whether the peer keeps the connection, whether its bytes are those that would be written anew."""

    __slots__ = ("_around", "_block", "as_came", "head", "keep", "method")

    def __init__(self, method: bytes, head: ReplyHead, block: bytes, *, keep: bool) -> None:
        self.method, self.head, self.keep = method, head, keep
        self.as_came = block == reply_head.write(head, 1, close=False)
        self._block = block if len(block) <= LONGEST else b""
        self._around = plain_head.around_length(self._block) if self.as_came else None

    def again(self, data: bytes) -> tuple[KnownReply, int] | None:
        """Read the head that ``data`` begins with and say where it ends, when it is this one but for Content-Length; else None."""
        block = self._block
        if block and data.startswith(block):
            return self, len(block)
        if self._around is None:
            return None
        found = plain_head.length_between(*self._around, data)
        if found is None:
            return None
        digits, end = found
        lines = data[data.index(b"\r\n") : end - 4]
        head = replace(self.head, lines=lines, length=int(digits))
        return KnownReply(self.method, head, data[:end], keep=self.keep), end


def read_reply(latest: KnownReply | None, data: bytes, method: bytes) -> tuple[KnownReply, int] | None:
    """Read the head that ``data`` begins with and say where it ends, when it is whole, in plain spelling and states a length; else None."""
    if latest is not None and latest.method == method and (found := latest.again(data)) is not None:
        return found
    plain = reply_head.read_plain(data, method)
    if plain is None:
        return None
    head, keep, end = plain
    return KnownReply(method, head, data[:end], keep=keep), end
