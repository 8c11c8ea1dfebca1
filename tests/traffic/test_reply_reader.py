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


@given(
    chunks=st.lists(st.tuples(st.binary(min_size=1, max_size=40), st.sampled_from([b"", b"", b"", b";x=1", b"0"])), min_size=1, max_size=8),
    trailer=st.sampled_from([b"", b"X-T: 1\r\n"]),
    places=st.lists(st.integers(0, 10_000), max_size=8),
)  # fmt: skip
def test_only_whole_chunks_in_plain_spelling_may_pass_as_they_came(
    chunks: list[tuple[bytes, bytes]], trailer: bytes, places: list[int]
) -> None:
    spelled = [
        (b"0%x" if extra == b"0" else b"%x") % len(body) + (b"" if extra == b"0" else extra) + b"\r\n" + body + b"\r\n"
        for body, extra in chunks
    ]
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    raw = head + b"".join(spelled) + b"0\r\n" + trailer + b"\r\n"
    borders = {len(head)}
    for piece in spelled:
        borders.add(max(borders) + len(piece))
    for pieces in (
        cut(raw, places),
        [head, *spelled, raw[max(borders) :]],
        [head + spelled[0], *spelled[1:], raw[max(borders) :]],
    ):
        reader, at, shown = ReplyReader(), 0, b""
        for piece in filter(None, pieces):
            reader.feed(piece)
            shown += b"".join(reader.pieces)
            if reader.whole_chunks:
                plain = b"".join(map(chunk, reader.pieces)) + (b"0\r\n\r\n" if reader.complete else b"")
                assert piece.lower() == plain.lower()
                assert at in borders
            at += len(piece)
        assert shown == b"".join(body for body, _ in chunks)
        assert reader.complete
        assert not reader.extra


def test_paced_chunks_pass_as_they_came() -> None:
    reader = ReplyReader()
    for piece in stream(b"data: 1\n\n", b"data: 2\r\n\r\n", b"x" * 5000)[:-1]:
        reader.feed(piece)
        assert reader.whole_chunks is not bool(reader.heads)
    reader.feed(b"0\r\n\r\n")
    assert (reader.whole_chunks, reader.complete) == (True, True)
    reader.feed(b"1\r\nx\r\n")
    assert (reader.pieces, reader.extra) == ([], True)


@pytest.mark.parametrize(
    ("head", "keep"),
    [
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n", True),
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nConnection: Close\r\nContent-Length: 0\r\n\r\n", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", False),
        (b"HTTP/1.1 200 OK\r\nConnection: keep-alive, close\r\nContent-Length: 0\r\n\r\n", False),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", True),
    ],
)
def test_a_connection_is_kept_only_when_the_peer_keeps_it(head: bytes, keep: bool) -> None:
    reader = ReplyReader()
    reader.feed(head)
    assert (reader.complete, reader.keep) == (True, keep)
