"""The hand-over's frames: round trip, any split, and what a stranger sends."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.exchange import Ended, Exchange
from proxy.traffic.wire import FrameReader, Hello, WireError, encode_frame

PAIRS = st.lists(st.tuples(st.binary(max_size=8), st.binary(max_size=8)), max_size=3).map(tuple)
MICROS = st.integers(0, 2**40)
EXCHANGES = st.builds(
    Exchange,
    id=st.text(max_size=12), incarnation=st.text(max_size=8), started=st.floats(0, 2e9), u=st.none() | st.floats(0, 0.999), method=st.just("POST"),
    target=st.text(max_size=20), request_headers=PAIRS, request_body=st.binary(max_size=300), status=st.integers(0, 599), response_headers=PAIRS,
    pieces=st.lists(st.tuples(MICROS, st.binary(max_size=60)), max_size=6).map(tuple), head_us=MICROS, end_us=MICROS, ended=st.sampled_from(Ended),
    injected=st.booleans(), in_flight=st.integers(0, 9), offered=st.booleans(),
)  # fmt: skip


@given(st.lists(EXCHANGES, max_size=4), st.lists(st.integers(0, 10**6), max_size=8))
def test_any_split_gives_the_same_values(exchanges: list[Exchange], places: list[int]) -> None:
    values: list[Hello | Exchange] = [Hello("t1", 7), *exchanges]
    raw = b"".join(map(encode_frame, values))
    edges = [0, *sorted(place % (len(raw) + 1) for place in places), len(raw)]
    for pieces in ([raw[a:b] for a, b in pairwise(edges)], [bytes([byte]) for byte in raw]):
        reader, read, payloads = FrameReader(), list[Hello | Exchange](), list[bytes]()
        for piece in pieces:
            read += reader.feed(piece)
            payloads += map(bytes, reader.payloads)
        assert read == values
        assert payloads == [encode_frame(value)[4:] for value in values]
        assert reader.pending == 0


@given(st.binary(max_size=200))
def test_a_stranger_is_told_from_a_traffic_process(data: bytes) -> None:
    for start in (b"", encode_frame(Hello("t1", 0))):
        reader = FrameReader(limit=1000)
        try:
            reader.feed(start + data)
        except WireError:
            return
        assert reader.pending <= 1004


def test_the_first_frame_is_a_hello_and_no_other_is() -> None:
    exchange = Exchange("i", "t", 0.0, None, "POST", "/", (), b"", 200, (), (), 0, 0, Ended.COMPLETE)
    with pytest.raises(WireError, match="in its place"):
        FrameReader().feed(encode_frame(exchange))
    with pytest.raises(WireError, match="in its place"):
        FrameReader().feed(encode_frame(Hello("t", 0)) * 2)


def test_another_version_is_refused() -> None:
    with pytest.raises(WireError, match="version 99"):
        FrameReader().feed(encode_frame(Hello("t", 0, 99)))


def test_a_frame_beyond_the_limit_is_refused_before_it_is_read() -> None:
    with pytest.raises(WireError, match="longer"):
        FrameReader(limit=10).feed(encode_frame(Hello("t", 0)) + (11).to_bytes(4, "little"))
    with pytest.raises(WireError, match="longer"):
        FrameReader().feed((1 << 20).to_bytes(4, "little"))


def test_a_frame_is_a_length_and_a_msgpack_array() -> None:
    frame = encode_frame(Hello("t1", 5))
    assert int.from_bytes(frame[:4], "little") == len(frame) - 4
    assert msgspec.msgpack.decode(frame[4:]) == ["t1", 5, 1]
