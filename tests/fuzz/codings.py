"""Invariant: a coding is undone to at most the cap, to what was encoded, and ``CodingError`` is the only error."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable

import brotli  # type: ignore[import-untyped]  # it publishes no types
import zstandard

from proxy.traffic.content_coding import CodingError, decode_body
from tests.fuzz.target import Target

_CAP = 1 << 16
_REASONS = {"unknown_coding", "bad_coding", "too_large"}
ENCODERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda data: gzip.compress(data, mtime=0),
    "deflate": zlib.compress,
    "br": lambda data: bytes(brotli.compress(data, quality=1)),
    "zstd": lambda data: zstandard.ZstdCompressor(level=1).compress(data),
}
_NAMES = (*ENCODERS, "x-gzip", "identity", "gzip, br", "nonsense", "", "GZIP ,zstd")


def decode(name: str, data: bytes, cap: int) -> bytes | str:
    """What comes out, or the reason why nothing does."""
    try:
        return decode_body(name, data, cap)
    except CodingError as error:
        reason = error.reason
    assert reason in _REASONS
    return reason


def check(data: bytes) -> None:
    """The first byte chooses the coding; the rest is read as its output, and then encoded and read again."""
    name, body = _NAMES[data[0] % len(_NAMES)] if data else "", data[1:]
    out = decode(name, body, _CAP)
    if isinstance(out, bytes):
        assert len(out) <= _CAP
        assert not out or decode(name, body, len(out) - 1) == "too_large"
    encode = ENCODERS.get(name)
    if encode is not None:
        packed = encode(body)
        assert decode(name, packed, _CAP) == body
        assert decode(name, packed[:-1], _CAP) in ("bad_coding", body)  # a raw deflate's checksum may be missing
        assert not body or decode(name, packed, len(body) - 1) == "too_large"


TARGET = Target(
    check,
    seeds=(
        *(bytes([number]) + encode(b"hello hello hello") for number, encode in enumerate(ENCODERS.values())),
        b"\x06" + brotli.compress(gzip.compress(b"x", mtime=0)),
        b"\x00" + gzip.compress(b"a", mtime=0) + gzip.compress(b"b", mtime=0),
        b"\x00" + gzip.compress(bytes(1 << 17), mtime=0),
    ),
    words=(b"\x1f\x8b\x08", b"\x78\x9c", b"\x28\xb5\x2f\xfd", b"\x50\x2a\x4d\x18"),
    longest=1024,
)
