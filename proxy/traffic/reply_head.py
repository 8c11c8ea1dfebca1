"""The primary's reply heads: which are accepted, how their body is framed, and how they are written anew for the client.

House rules. Pure: fields in, a value out; no socket, no parser object, no clock. Status, reason phrase and end-to-end headers
(order, case, duplicates) are the primary's; framing is each hop's own. A chunked body stays chunked towards an HTTP/1.1 client, one chunk
for what each read brought; a body delimited by the end of the connection becomes chunked, so that a cut can be told from an end;
towards an HTTP/1.0 client both are delimited by the end. Trailers and chunk extensions are dropped.
"""

from __future__ import annotations

import re
from enum import Enum

from msgspec import Struct

from proxy.traffic import plain_head
from proxy.traffic.plain_head import Field
from proxy.traffic.request_head import HOP_BY_HOP, MAX_HEAD, UNSTRIPPABLE

_SPECIAL = HOP_BY_HOP | {b"content-length", b"transfer-encoding"}
_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_LENGTH = re.compile(rb"[0-9]{1,18}")
_CODED = re.compile(rb"\r\ntransfer-encoding:", re.IGNORECASE)
_PATIENCE = re.compile(rb"(?i:timeout)=([0-9]{1,6})")


class Framing(Enum):
    """How a body's end is told."""

    NONE = "none"
    LENGTH = "length"
    CHUNKED = "chunked"
    CLOSE = "close"


class ReplyHead(Struct, frozen=True):
    """An accepted reply head.

    ``lines`` are the end-to-end fields, each after a CRLF, with Transfer-Encoding kept as a place holder when it was there. ``patience`` is how
    long the peer says it keeps an idle connection, in seconds.
    """

    status: int
    reason: bytes
    lines: bytes
    framing: Framing
    length: int | None
    stream: bool
    patience: float | None = None

    @property
    def fields(self) -> list[Field]:
        """The end-to-end fields."""
        return plain_head.fields(self.lines)

    @property
    def interim(self) -> bool:
        """True for 1xx: the reply proper follows."""
        return self.status < 200

    def value(self, name: bytes) -> bytes | None:
        """Return the first value of a field, by lower-cased name."""
        for lower, _, value in self.fields:
            if lower == name:
                return value
        return None


def read(
    status: int, reason: bytes, raw_fields: list[tuple[bytes, bytes]], method: bytes, *, offered: bool = False
) -> ReplyHead | None:
    """Judge a reply head to a request of ``method``; None when it is not HTTP/1.x that can be passed on without guessing.

    ``offered``: the request offered to switch to websocket, so that 101 may be the answer.
    """
    if (
        not 100 <= status <= 999
        or (status == 101 and not offered)
        or (not reason.isalpha() and _CONTROL.search(reason))
    ):
        return None
    fields: list[Field] = []
    options: set[bytes] = set()
    switches: list[bytes] = []
    length: int | None = None
    patience: float | None = None
    chunked = stream = False
    for name, value in raw_fields:
        lower = name.lower()
        if lower not in _SPECIAL:
            if lower[:6] == b"proxy-":
                continue
            fields.append((lower, name, value))
            if lower == b"content-type":
                stream = value[:17].lower() == b"text/event-stream"
        elif lower == b"content-length":
            stripped = value.strip(b" \t")
            if length is not None or not _LENGTH.fullmatch(stripped):
                return None
            length = int(stripped)
            fields.append((lower, name, stripped))
        elif lower == b"transfer-encoding":
            if chunked or value.strip(b" \t").lower() != b"chunked":
                return None
            chunked = True
            fields.append((lower, name, b"chunked"))
        elif lower == b"connection":
            options.update(option.strip(b" \t").lower() for option in value.split(b","))
        elif lower == b"upgrade":
            switches.append(value.strip(b" \t"))
        elif lower == b"keep-alive" and (found := _PATIENCE.search(value)):
            patience = float(found[1])
    stated = chunked or length is not None
    # RFC 9112 section 6.3: two statements of length "ought to be handled as an error"; RFC 9110 section 8.6: no 1xx states any.
    if stated and (status < 200 or (chunked and length is not None)):
        return None
    strip = options - UNSTRIPPABLE
    if strip:
        fields = [field for field in fields if field[0] not in strip]
    if status == 101:
        if [value.lower() for value in switches] != [b"websocket"]:
            return None
        fields += [(b"connection", b"Connection", b"Upgrade"), (b"upgrade", b"Upgrade", switches[0])]
    framing = _framing(status, method, length, chunked=chunked)
    return ReplyHead(status, reason, plain_head.lines(fields), framing, length, stream, patience)


def read_plain(data: bytes, method: bytes) -> tuple[ReplyHead, bool, int] | None:
    """Read the head that ``data`` begins with, when it is whole, in plain spelling and states a length; else None.

    Returned with it: whether the peer keeps the connection, and where the head ends.
    """
    found = plain_head.reply(data, MAX_HEAD)
    if found is None:
        return None
    status, reason, lines, length, stream, keep, end = found
    framing = Framing.NONE if method == b"HEAD" else Framing.LENGTH
    return ReplyHead(status, reason, lines, framing, length, stream), keep, end


def _framing(status: int, method: bytes, length: int | None, *, chunked: bool) -> Framing:
    # RFC 9112 section 6.3, in its order.
    if method == b"HEAD" or status < 200 or status in (204, 304):
        return Framing.NONE
    if chunked:
        return Framing.CHUNKED
    if length is not None:
        return Framing.LENGTH
    return Framing.CLOSE


def towards_client(framing: Framing, minor: int) -> Framing:
    """How the same body is framed for a client of HTTP/1.``minor``."""
    if framing is Framing.NONE or framing is Framing.LENGTH:
        return framing
    return Framing.CHUNKED if minor else Framing.CLOSE


def write(head: ReplyHead, minor: int, *, close: bool) -> bytes:
    """Write the head for a client of HTTP/1.``minor``; ``close`` announces that the connection ends after this reply."""
    lines = head.lines
    framing = head.framing
    if framing is Framing.CLOSE and minor:
        lines += b"\r\nTransfer-Encoding: chunked"
    elif not minor and _CODED.search(lines):
        lines = plain_head.lines([field for field in head.fields if field[0] != b"transfer-encoding"])
    if close and not head.interim:
        lines += b"\r\nConnection: close"
    return b"HTTP/1.1 %d %b%b\r\n\r\n" % (head.status, head.reason, lines)


def with_length(head: ReplyHead, length: int) -> ReplyHead:
    """Return the same head for a body of ``length`` bytes; a head that states no length stays as it is."""
    if head.framing is not Framing.LENGTH:
        return head
    stated = b"%d" % length
    fields = [(lower, name, stated if lower == b"content-length" else value) for lower, name, value in head.fields]
    return ReplyHead(
        head.status, head.reason, plain_head.lines(fields), Framing.LENGTH, length, head.stream, head.patience
    )


def as_chunked(head: ReplyHead) -> ReplyHead:
    """Return the same head for a body whose length is not known yet."""
    fields = [field for field in head.fields if field[0] not in (b"content-length", b"transfer-encoding")]
    fields.append((b"transfer-encoding", b"Transfer-Encoding", b"chunked"))
    return ReplyHead(head.status, head.reason, plain_head.lines(fields), Framing.CHUNKED, None, head.stream)
