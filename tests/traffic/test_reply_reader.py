"""Replies read whole and byte by byte say the same."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.traffic.reply_reader import ReplyReader
from tests.wire.engine import chunk, reply, stream

WELL = {
    "length": reply(b"hello"),
    "chunked": b"".join(stream(b"data: 1\n\n", b"caf\xc3\xa9", b"z" * 300)),
    "trailers": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0\r\nX-T: 1\r\n\r\n",
    "interim": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: x\r\n\r\n" + reply(b"x"),
    "no content": b"HTTP/1.1 204 No Content\r\n\r\n",
    "to the end": b"HTTP/1.1 200 OK\r\n\r\nuntil",
}
FAULTY = {
    "garbage": b"\x00\x01\x02\r\n\r\n",
    "chunk size": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    "upgrade": b"HTTP/1.1 101 S\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    "version": b"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n",
}


def read(pieces: list[bytes]) -> tuple[object, ...]:
    reader = ReplyReader()
    heads, body = [], b""
    assert reader.silent
    for piece in filter(None, pieces):
        reader.feed(piece)
        heads += reader.heads
        body += b"".join(reader.pieces)
        if reader.faulty:
            return ("faulty",)
    return heads, body, reader.complete, reader.extra, reader.keep, reader.ends_with_connection


def cut(raw: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(raw) + 1) for place in places), len(raw)]
    return [raw[a:b] for a, b in pairwise(edges)]


@pytest.mark.parametrize("name", [*WELL, *FAULTY])
@given(places=st.lists(st.integers(0, 10_000), max_size=12))
def test_any_split_reads_the_same(name: str, places: list[int]) -> None:
    raw = (WELL | FAULTY)[name]
    whole = read([raw])
    assert read(cut(raw, places)) == whole
    assert read([bytes([byte]) for byte in raw]) == whole
    assert (whole == ("faulty",)) == (name in FAULTY)


def test_bytes_behind_a_reply_are_told() -> None:
    reader = ReplyReader()
    reader.feed(reply(b"a") + b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nb")
    assert (reader.complete, reader.extra, reader.pieces) == (True, True, [b"a"])


def test_a_reply_to_head_ends_with_its_head_and_the_next_is_read_afresh() -> None:
    reader = ReplyReader()
    for _ in range(2):
        reader.begin(b"HEAD")
        reader.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n")
        assert (reader.complete, reader.keep, reader.extra) == (True, True, False)
    reader.begin(b"GET")
    reader.feed(reply(b"body"))
    assert (reader.complete, reader.pieces) == (True, [b"body"])


@given(st.binary(max_size=400))
def test_arbitrary_bytes_never_raise(data: bytes) -> None:
    for fed in ([data], [reply(b"x")[:-1], data], [b"".join(stream(b"x"))[:-5], data], [chunk(data), data]):
        assert read(fed) == read([b"".join(fed)])


def test_endless_heads_and_trailers_are_faulty_within_64_kib() -> None:
    for start, endless in ((b"HTTP/1.1 200 OK\r\n", b"X: y\r\n"), (b"".join(stream(b"x"))[:-2] + b"T: ", b"t" * 8)):
        reader = ReplyReader()
        reader.feed(start)
        fed = 0
        while not reader.faulty:
            reader.feed(endless)
            fed += len(endless)
            assert fed < 80 << 10
