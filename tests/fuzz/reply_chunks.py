"""Invariant: a chunked reply is read as h11 reads it where both take it, the same in any split; bytes passed on as they came are plain whole chunks."""

from __future__ import annotations

import re

import h11

from proxy.traffic.reply_reader import ReplyReader
from tests.fuzz.target import Target, bytewise, halves

_HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


_SIZE = re.compile(rb"([1-9a-fA-F][0-9a-fA-F]*)\r\n")


def plain(data: bytes) -> tuple[list[bytes], bool]:
    """The chunks of bytes that are nothing but chunks in plain spelling, and whether the last one is the end. Raises AssertionError for all others."""
    chunks = []
    while found := _SIZE.match(data):
        begin, end = found.end(), found.end() + int(found[1], 16)
        assert data[end : end + 2] == b"\r\n"
        chunks.append(data[begin:end])
        data = data[end + 2 :]
    assert data in (b"", b"0\r\n\r\n")
    return chunks, bool(data)


def read(pieces: list[bytes]) -> tuple[bytes, bool, bool]:
    """Body so far, complete, faulty."""
    reader = ReplyReader()
    reader.begin(b"GET")
    reader.feed(_HEAD)
    body = b""
    for piece in pieces:
        reader.feed(piece)
        if reader.whole_chunks:
            assert plain(piece) == (reader.pieces, reader.complete)
        body += b"".join(reader.pieces)
        if reader.complete or reader.faulty:
            break
    return body, reader.complete, reader.faulty


def by_h11(data: bytes) -> tuple[bytes, bool] | None:
    """Body so far and whether it is whole, as another parser reads it; None when that one refuses."""
    reader = h11.Connection(h11.CLIENT)
    reader.send(h11.Request(method="GET", target="/", headers=[("Host", "h")]))
    reader.send(h11.EndOfMessage())
    body = b""
    try:
        reader.receive_data(_HEAD + data)
        while True:
            event = reader.next_event()
            if isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                return body, True
            elif event is h11.NEED_DATA:
                return body, False
    except h11.RemoteProtocolError:
        return None


def check(data: bytes) -> None:
    """Read whole, in two pieces, byte by byte, where a chunk may begin, and by h11."""
    body, complete, faulty = read([data])
    chunked = [piece for piece in re.split(rb"(?<=\n)(?=[1-9a-fA-F][0-9a-fA-F]{0,6}\r\n|0\r\n\r\n)", data) if piece]
    for pieces in (halves(data), bytewise(data), chunked):
        other, *state = read(pieces)
        assert state == [complete, faulty]
        assert other == body or faulty
    if faulty:
        return
    second = by_h11(data)
    if complete and second is not None:
        assert second == (body, True)


TARGET = Target(
    check,
    seeds=(b"5\r\nhello\r\n0\r\n\r\n", b"a;x=y\r\n0123456789\r\nF\r\n", b"2\r\nok\r\n0\r\nX: y\r\n\r\n", b"0\r\n\r\nHTTP/1.1 200 OK\r\n"),
    words=(b"\r\n", b"0\r\n\r\n", b"\n", b"\r", b";", b" ", b"0x", b"+", b"ffffffffffffffff", b"1\r\na\r\n", b"Content-Length: 1\r\n"),
    longest=1024,
)  # fmt: skip
