"""Invariant: any split of a reply is read the same, nothing is raised, and a head that is passed on is written in clean lines.

What follows a reply (``extra``) may be seen in one split and not yet in another; a fault behind a sound head is seen at the same byte.
"""

from __future__ import annotations

import re

from proxy.traffic import reply_head
from proxy.traffic.reply_head import ReplyHead
from proxy.traffic.reply_reader import ReplyReader
from tests.fuzz.target import Target, bytewise, halves
from tests.smuggling.vectors import read as read_file
from tests.smuggling.vectors import unescaped

_LINE = re.compile(rb"HTTP/1\.1 [0-9]{3} [\t -~\x80-\xff]*")
_FIELD = re.compile(rb"[!#-'*+.^_`|~0-9A-Za-z-]+: ?[\t -~\x80-\xff]*")
_PAUSE = re.compile("<(?:pause|close|poison)>")
_METHODS = (b"GET", b"POST", b"HEAD")
Read = tuple[list[ReplyHead], bytes, bool, bool]


def read(pieces: list[bytes], method: bytes) -> Read:
    """Heads, body, and whether the reply is complete or faulty; fed until it is one of the two, as its connection does."""
    reader = ReplyReader()
    reader.begin(method)
    heads: list[ReplyHead] = []
    body = b""
    for piece in pieces:
        reader.feed(piece)
        heads += reader.heads
        body += b"".join(reader.pieces)
        if reader.faulty or reader.complete:
            break
    return heads, body, reader.complete, reader.faulty


def clean(head: ReplyHead) -> None:
    """Assert that a head is written in lines that no parser reads in two ways."""
    for minor, close in ((1, False), (1, True), (0, True)):
        written = reply_head.write(head, minor, close=close)
        assert written.endswith(b"\r\n\r\n")
        line, *fields = written[:-4].split(b"\r\n")
        assert _LINE.fullmatch(line), line
        names = []
        for field in fields:
            assert _FIELD.fullmatch(field), field
            names.append(field.partition(b":")[0].lower())
        assert names.count(b"content-length") + names.count(b"transfer-encoding") <= 1
        assert not {b"keep-alive", b"te", b"trailer", b"upgrade"} & set(names)


def check(data: bytes) -> None:
    """The first byte chooses the method; read whole, in two pieces and byte by byte."""
    method, raw = _METHODS[data[0] % 3] if data else b"GET", data[1:]
    heads, body, complete, faulty = read([raw], method)
    assert not (complete and faulty)
    for pieces in (halves(raw), bytewise(raw)):
        other = read(pieces, method)
        assert other[2:] == (complete, faulty)
        assert other[0] == heads
        assert other[1] == body or faulty, "before a fault, what had come may have been passed on"
    assert len([head for head in heads if not head.interim]) <= 1
    for head in heads:
        clean(head)


_VECTORS = tuple(
    b"\x00" + raw
    for raw in (unescaped(_PAUSE.sub("", vector.text)) for vector in read_file("replies.txt"))
    if len(raw) < 400
)
TARGET = Target(
    check,
    seeds=(
        *_VECTORS,
        b"\x00HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        b"\x01HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 \r\nTransfer-Encoding: chunked\r\nX: y\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        b"\x02HTTP/1.0 304 Not Modified\r\nConnection: close\r\nContent-Length: 3\r\n\r\n",
        b"\x00HTTP/1.1 200 OK\r\nConnection: X-A, keep-alive\r\nX-A: b\r\nKeep-Alive: timeout=3\r\n\r\nto the end",
    ),
    words=(
        b"\r\n", b"\r\n\r\n", b"\n", b"\r", b"\0", b"\t", b": ", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.0 ", b"204", b"304", b"101", b"100",
        b"Content-Length: ", b"Transfer-Encoding: chunked", b"Connection: ", b"upgrade", b"Upgrade: h2c", b"0\r\n\r\n", b" \r\n", b"chunked",
    ),
)  # fmt: skip
