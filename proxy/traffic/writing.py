"""How pieces are given to a transport: small ones as one, since the loop writes a single buffer with less work than a list."""

from __future__ import annotations

import asyncio

_SMALL = 4096  # below this a chunk is joined with its frame, above it is written by reference
_JOINED = 16 << 10  # below this copying costs less than a list of buffers does


def write(transport: asyncio.WriteTransport, pieces: list[bytes]) -> None:
    """Write pieces in their order."""
    if len(pieces) == 1:
        transport.write(pieces[0])
    elif sum(map(len, pieces)) <= _JOINED:
        transport.write(b"".join(pieces))
    else:
        transport.writelines(pieces)


def add_chunk(piece: bytes, out: list[bytes]) -> None:
    """Add one chunk of a chunked body to what is to be written."""
    if len(piece) < _SMALL:
        out.append(b"%x\r\n%b\r\n" % (len(piece), piece))
    else:
        out += (b"%x\r\n" % len(piece), piece, b"\r\n")
