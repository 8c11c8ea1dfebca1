"""Undoing Content-Encoding with a bound on what comes out.

House rules. Pure. A reply is a stranger's: a few bytes may unfold to gigabytes, so every decoder here is told where to stop and
nothing is decoded at once. Used by the judge on captures and on shadows' replies, never on the live path.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

import brotli  # type: ignore[import-untyped]  # it publishes no types
import zstandard

_ZSTD_WINDOW = 128 << 20  # RFC 9659 asks decoders for 8 MiB; zstd's own tools accept 128 MiB by default
_GZIP = 16 + zlib.MAX_WBITS


class CodingError(ValueError):
    """``reason`` is a bounded label: unknown_coding, bad_coding (not what it says, or cut), too_large."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def decode_body(encoding: str | None, data: bytes, cap: int) -> bytes:
    """Undo the codings of a Content-Encoding value, last applied first (RFC 9110 section 8.4), to at most ``cap`` bytes.

    Raises ``CodingError`` and nothing else. No coding, ``identity`` and an empty body give the data as it is (``cap`` holds for it too).
    """
    codings = [coding.strip().lower() for coding in (encoding or "").split(",")]
    for coding in reversed(codings):
        if coding in ("", "identity") or not data:
            continue
        decoder = _DECODERS.get(coding)
        if decoder is None:
            raise CodingError("unknown_coding")
        data = decoder(data, cap)
    if len(data) > cap:
        raise CodingError("too_large")
    return data


def _inflate(data: bytes, cap: int, window: int) -> bytes:
    out: list[bytes] = []
    size = 0
    while data:
        decoder = zlib.decompressobj(window)
        try:
            piece = decoder.decompress(data, cap - size + 1)
        except zlib.error:
            raise CodingError("bad_coding") from None
        size += len(piece)
        out.append(piece)
        if size > cap:
            raise CodingError("too_large")
        if not decoder.eof:
            raise CodingError("bad_coding")
        data = decoder.unused_data if window == _GZIP else b""  # gzip allows several members (RFC 1952 section 2.2)
    return b"".join(out)


def _gzip(data: bytes, cap: int) -> bytes:
    return _inflate(data, cap, _GZIP)


def _deflate(data: bytes, cap: int) -> bytes:
    # "deflate" is the zlib format (RFC 9110 section 8.4.1.2), but raw deflate is sent under this name as well.
    try:
        return _inflate(data, cap, zlib.MAX_WBITS)
    except CodingError as error:
        if error.reason == "too_large":
            raise
        return _inflate(data, cap, -zlib.MAX_WBITS)


def _brotli(data: bytes, cap: int) -> bytes:
    decoder = brotli.Decompressor()
    out: list[bytes] = []
    size = 0
    fed = data
    try:
        while not decoder.is_finished():
            piece = decoder.process(fed, output_buffer_limit=cap - size + 1)
            fed = b""
            size += len(piece)
            out.append(piece)
            if size > cap:
                raise CodingError("too_large")
            if not piece and decoder.can_accept_more_data() and not decoder.is_finished():
                raise CodingError("bad_coding")
    except brotli.error:
        raise CodingError("bad_coding") from None
    return b"".join(out)


def _zstd(data: bytes, cap: int) -> bytes:
    # The streaming reader can be bounded but takes a cut frame for an end; the object knows the end but not a bound. So: measure, then decode.
    decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW)
    out: list[bytes] = []
    try:
        reader = decompressor.stream_reader(data, read_across_frames=True)
        size = 0
        while piece := reader.read(min(cap - size + 1, 1 << 20)):
            size += len(piece)
            if size > cap:
                raise CodingError("too_large")
        while data:
            frame = decompressor.decompressobj()
            out.append(frame.decompress(data))
            if not frame.eof:
                raise CodingError("bad_coding")
            data = frame.unused_data
    except zstandard.ZstdError:
        raise CodingError("bad_coding") from None
    return b"".join(out)


_DECODERS: dict[str, Callable[[bytes, int], bytes]] = {
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": _deflate,
    "br": _brotli,
    "zstd": _zstd,
}
