"""Content codings are undone up to a cap, and nothing else comes out."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from collections.abc import Callable

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from proxy.traffic.content_coding import CodingError, decode_body


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


CODERS: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("gzip", gzip.compress),
    ("X-GZIP", gzip.compress),
    ("deflate", zlib.compress),
    ("deflate", raw_deflate),
    ("br", brotli.compress),
    ("zstd", zstd),
]
BY_CODER = pytest.mark.parametrize(("name", "code"), CODERS, ids=[f"{name}-{code.__name__}" for name, code in CODERS])


@BY_CODER
@given(data=st.binary(max_size=3000))
def test_round_trip_and_cap(name: str, code: Callable[[bytes], bytes], data: bytes) -> None:
    assert decode_body(name, code(data), len(data)) == data
    if data:
        with pytest.raises(CodingError, match="too_large"):
            decode_body(name, code(data), len(data) - 1)


@BY_CODER
@given(cut=st.integers(1, 10_000))
def test_a_cut_body_is_never_taken_for_a_whole_one(name: str, code: Callable[[bytes], bytes], cut: int) -> None:
    packed = code(bytes(range(256)) * 40)
    part = packed[: -(cut % (len(packed) - 1)) - 1]
    with pytest.raises(CodingError, match="bad_coding"):
        decode_body(name, part, 1 << 20)


@BY_CODER
@given(data=st.binary(min_size=1, max_size=200))
def test_arbitrary_bytes_raise_only_the_declared_error(name: str, code: Callable[[bytes], bytes], data: bytes) -> None:
    for body in (data, code(b"abc") + data):
        assert _reason(name, body) in {None, "bad_coding", "too_large"}


def _reason(name: str, body: bytes) -> str | None:
    try:
        decode_body(name, body, 1 << 16)
    except CodingError as error:
        return error.reason
    return None


@BY_CODER
def test_a_bomb_does_not_go_off(name: str, code: Callable[[bytes], bytes]) -> None:
    bomb = code(b"\0" * (64 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(CodingError, match="too_large"):
            decode_body(name, bomb, 1 << 20)
        assert tracemalloc.get_traced_memory()[1] < 40 << 20
    finally:
        tracemalloc.stop()


def test_several_codings_none_and_unknown_ones() -> None:
    assert decode_body("gzip, br", brotli.compress(gzip.compress(b"x")), 100) == b"x"
    assert decode_body(None, b"x", 10) == b"x"
    assert decode_body("identity", b"x", 10) == b"x"
    assert decode_body("gzip", b"", 10) == b""
    assert decode_body("gzip", gzip.compress(b"a") + gzip.compress(b"b"), 10) == b"ab"
    assert decode_body("zstd", zstd(b"a") + zstd(b"b"), 10) == b"ab"
    with pytest.raises(CodingError, match="unknown_coding"):
        decode_body("compress", b"x", 10)
    with pytest.raises(CodingError, match="too_large"):
        decode_body(None, b"xx", 1)
