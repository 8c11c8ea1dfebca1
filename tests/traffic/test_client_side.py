"""Bytes from clients in any split: what reaches the primary is the same, and nothing a client sends makes us raise."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wire.bench import Bench
from tests.wire.client import get, post
from tests.wire.engine import chunk


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    bench = Bench(tmp_path_factory.mktemp("bench"))
    asyncio.set_event_loop(None)
    yield bench
    bench.counters.close()
    bench.loop.close()


CHUNKED = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
GOOD = [
    post(b'{"a": 1}', close=False),
    post(b"", close=False),
    get("/v1/models").replace(b"Connection: close\r\n", b""),
    b"\r\n" + post(b"x" * 50, "/tokenize", close=False),
    post(b"{}", fields="Connection: Upgrade\r\nUpgrade: h2c\r\n", close=False),
    b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n",
]


def cut(raw: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, *(place % (len(raw) + 1) for place in places), len(raw)})
    return [raw[a:b] for a, b in pairwise(edges)]


@settings(deadline=None)
@given(st.lists(st.sampled_from(GOOD), min_size=1, max_size=5), st.lists(st.integers(0, 10**6), max_size=10))
def test_any_split_of_good_requests_sends_the_same_to_the_primary(
    bench: Bench, requests: list[bytes], places: list[int]
) -> None:
    raw = b"".join(requests)
    whole = bench.run([raw])
    assert len(whole[0]) == len(requests)
    assert bench.run(cut(raw, places)) == whole
    assert bench.run([bytes([byte]) for byte in raw]) == whole
    assert bench.balanced()


@settings(deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=40), max_size=6), st.lists(st.integers(0, 10**6), max_size=10))
def test_chunks_reach_the_primary_whole_in_any_split(bench: Bench, chunks: list[bytes], places: list[int]) -> None:
    raw = CHUNKED + b"".join(map(chunk, chunks)) + b"0\r\nX-Trailer: 1\r\n\r\n"
    for pieces in ([raw], cut(raw, places), [bytes([byte]) for byte in raw]):
        [sent], got, closed = bench.run(pieces)
        head, _, body = sent.partition(b"\r\n\r\n")
        assert head.endswith(b"Transfer-Encoding: chunked")
        assert _unchunked(body) == b"".join(chunks)
        assert got.startswith(b"HTTP/1.1 200 OK")
        assert not closed
    assert bench.balanced()


def _unchunked(raw: bytes) -> bytes:
    body = b""
    while raw:
        size, _, raw = raw.partition(b"\r\n")
        piece, raw = raw[: int(size, 16)], raw[int(size, 16) :]
        assert raw.startswith(b"\r\n")
        raw = raw[2:]
        body += piece
    return body


@settings(deadline=None)
@given(st.sampled_from([*GOOD, CHUNKED + chunk(b"abc") + chunk(b"")]), st.data())
def test_a_changed_byte_is_passed_refused_or_waits_but_never_raises(
    bench: Bench, raw: bytes, data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(raw) - 1))
    byte = data.draw(st.sampled_from([0, 9, 10, 13, 32, 35, 44, 48, 58, 59, 65, 127, 255]))
    changed = raw[:place] + bytes([byte]) + raw[place + 1 :]
    whole = bench.run([changed])
    split = bench.run([bytes([one]) for one in changed])
    assert split[0] or not whole[0]
    if whole[0]:
        assert whole[0][0].partition(b"\r\n\r\n")[0] == split[0][0].partition(b"\r\n\r\n")[0]
    elif split[0]:  # a bad chunk in the same packet as the head is seen before anything has left
        assert whole[1].startswith(b"HTTP/1.1 400 ")
        assert b"HTTP/1.1 400 " in split[1]
    assert bench.balanced()


@settings(deadline=None)
@given(st.lists(st.binary(max_size=60), max_size=6))
def test_arbitrary_bytes_never_raise_and_never_reach_the_primary_unless_they_are_a_request(
    bench: Bench, pieces: list[bytes]
) -> None:
    sent, _, _ = bench.run([piece for piece in pieces if piece])
    assert sent == []
    assert bench.balanced()
