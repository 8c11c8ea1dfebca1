"""Zstandard files, whole or not at all: the library's own reader takes one that was cut for one that has ended.

House rules. Pure over an open file. Frames one after another are one stream, as ``cat`` and parallel packers write them.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import IO

import zstandard

#: What reading a packed file raises where it is cut or damaged.
BROKEN = (OSError, EOFError, zlib.error, zstandard.ZstdError)
#: Bytes read at a time: few, for what was packed to deceive grows by a factor of 32,768.
_AT_ONCE = 1 << 12


def unpacked(file: IO[bytes]) -> Iterator[bytes]:
    """Yield what was packed, in pieces. Raises EOFError for a file that ends within a frame, ZstdError for a damaged one."""
    frame = None
    while data := file.read(_AT_ONCE):
        while data:
            frame = frame or zstandard.ZstdDecompressor().decompressobj()
            if piece := frame.decompress(data):
                yield piece
            data = b""
            if frame.eof:
                data, frame = frame.unused_data, None
    if frame is not None:
        raise EOFError


def lines(pieces: Iterator[bytes], most: int) -> Iterator[bytes]:
    """Yield lines with their ends; one longer than ``most`` bytes is yielded as soon as it is, cut."""
    held: list[bytes] = []
    size = 0
    for piece in pieces:
        *whole, rest = piece.split(b"\n")
        for line in whole:
            yield b"".join((*held, line, b"\n"))
            held, size = [], 0
        held.append(rest)
        size += len(rest)
        if size > most:
            break
    if size:
        yield b"".join(held)
