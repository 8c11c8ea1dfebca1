"""Heads in plain spelling, read with two expressions instead of a callback for every field: nearly all that clients and engines send.

House rules. Pure. What is accepted here is a strict part of what the parser and the rules of ``request_head`` and ``reply_head`` accept, with the
same meaning, and such that writing it anew would give the same lines back: one space after the colon, nothing to trim, no field that frames the message
but one Content-Length, no field to judge but Host. Everything else gives None, and the parser decides. The tests hold both ways of reading against
each other.
"""

from __future__ import annotations

import re

_NAME = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]++"
_LINE = rb"\r\n" + _NAME + rb": [!-~\x80-\xff][\t -~\x80-\xff]*+(?<![\t ])"
_REQUEST = re.compile(
    rb"(GET|HEAD|POST|PUT|DELETE|PATCH|OPTIONS) (/[!\"$-~]*+) HTTP/1\.1((?:" + _LINE + rb")++)\r\n\r\n"
)
_REPLY = re.compile(rb"HTTP/1\.1 ([2-9][0-9][0-9]) ([!-~](?:[ -~]*[!-~])?)((?:" + _LINE + rb")++)\r\n\r\n")
#: Fields that mean something to this hop, also as what Connection may name. ``findall`` gives their names as sent and their values.
_REQUEST_SPECIAL = re.compile(
    rb"\r\n(host|content-length|connection|transfer-encoding|expect|te|trailer|upgrade|keep-alive|close|x-parhelion|proxy-[^:]*): ([^\r]*)",
    re.IGNORECASE,
)
_REPLY_SPECIAL = re.compile(
    rb"\r\n(content-length|content-type|connection|transfer-encoding|te|trailer|upgrade|keep-alive|close|proxy-[^:]*): ([^\r]*)",
    re.IGNORECASE,
)
_HOST = re.compile(rb"[A-Za-z0-9._~!$&'()*+,;=:%\[\]-]*")  # as in request_head
_LENGTH = re.compile(rb"\r\ncontent-length: ([0-9]+)", re.IGNORECASE)
_DIGITS = re.compile(rb"[0-9]{1,18}+")  # as many as are read below
_FIELD = re.compile(rb"\r\n([^:]*): ([^\r]*)")

#: (lower-cased name, name as sent, value)
Field = tuple[bytes, bytes, bytes]
#: (method, target, field lines, the Host line, Content-Length or None, whether the client keeps the connection, where the head ends)
Request = tuple[bytes, bytes, bytes, bytes, int | None, bool, int]
#: (status, reason, field lines, Content-Length, event stream, whether the peer keeps the connection, where the head ends)
Reply = tuple[int, bytes, bytes, int, bool, bool, int]


def request(data: bytes, most_fields: int, most_bytes: int) -> Request | None:
    """Read the request head that ``data`` begins with; None when it is not whole or not plain. Field lines begin with their CRLF, the last has none at its end."""
    found = _REQUEST.match(data)
    if found is None:
        return None
    method, target, lines = found.groups()
    end = found.end()
    if end > most_bytes or lines.count(b"\n") > most_fields:
        return None
    host = b""
    length: int | None = None
    keep = True
    for name, value in _REQUEST_SPECIAL.findall(lines):
        lower = name.lower()
        if lower == b"host" and not host and _HOST.fullmatch(value):
            host = b"\r\n%b: %b" % (name, value)
        elif lower == b"content-length" and length is None and value.isdigit() and len(value) < 19:
            length = int(value)
        elif lower == b"connection" and value.lower() in (b"keep-alive", b"close") and keep:
            keep = value.lower() != b"close"
            lines = lines.replace(b"\r\n%b: %b" % (name, value), b"", 1)
        else:
            return None
    return (method, target, lines, host, length, keep, end) if host else None


def reply(data: bytes, most_bytes: int) -> Reply | None:
    """Read the reply head that ``data`` begins with; None when it is not whole, not plain, or its body has no stated length."""
    found = _REPLY.match(data)
    if found is None:
        return None
    status, reason, lines = found.groups()
    end = found.end()
    length = -1
    stream = False
    keep = True
    for name, value in _REPLY_SPECIAL.findall(lines):
        lower = name.lower()
        if lower == b"content-length" and length < 0 and value.isdigit() and len(value) < 19:
            length = int(value)
        elif lower == b"content-type":
            stream = value[:17].lower() == b"text/event-stream"
        elif lower == b"connection" and value.lower() in (b"keep-alive", b"close") and keep:
            keep = value.lower() != b"close"
            lines = lines.replace(b"\r\n%b: %b" % (name, value), b"", 1)
        else:
            return None
    if length < 0 or end > most_bytes or status in (b"204", b"205", b"304"):
        return None
    return int(status), reason, lines, length, stream, keep, end


def around_length(block: bytes) -> tuple[bytes, bytes] | None:
    """Cut out the digits of Content-Length; None when there are none. For bytes that were accepted here, with one such field at most."""
    found = _LENGTH.search(block)
    return None if found is None else (block[: found.start(1)], block[found.end(1) :])


def length_between(before: bytes, after: bytes, data: bytes) -> tuple[bytes, int] | None:
    """Find digits between ``before`` and ``after`` at the start of ``data``, and where that ends; None when it begins otherwise."""
    if not data.startswith(before):
        return None
    digits = _DIGITS.match(data, len(before))
    if digits is None or not data.startswith(after, digits.end()):
        return None
    return digits[0], digits.end() + len(after)


def fields(lines: bytes) -> list[Field]:
    """Take field lines apart."""
    return [(name.lower(), name, value) for name, value in _FIELD.findall(lines)]


def fields_named(*names: bytes) -> re.Pattern[bytes]:
    """Make an expression whose ``findall`` picks the fields of these names out of field lines, as (name as sent, value)."""
    return re.compile(rb"\r\n(" + b"|".join(names) + rb"): ([^\r]*)", re.IGNORECASE)


def line(name: bytes, value: bytes) -> bytes:
    """Write one field line."""
    return b"\r\n%b: %b" % (name, value)


def lines(fields: list[Field]) -> bytes:
    """Put field lines together."""
    return b"".join([b"\r\n%b: %b" % (name, value) for _, name, value in fields])
