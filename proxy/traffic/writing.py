"""How pieces are given to a transport: small ones as one, since the loop writes a single buffer with less work than a list.

Also what a transport has not got rid of, and how one is ended so that nobody takes it for the end of a reply.
"""

from __future__ import annotations

import asyncio
import fcntl
import socket
import struct
import termios

_SMALL = 4096  # below this a chunk is joined with its frame, above it is written by reference
_RESET = struct.pack("ii", 1, 0)
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


def unsent(transport: asyncio.WriteTransport) -> int:
    """Bytes that the peer has not taken yet, from our buffer or from the kernel's."""
    kernel = bytearray(4)
    fcntl.ioctl(transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, kernel)
    return transport.get_write_buffer_size() + int.from_bytes(kernel, "little")


def reset_at_close(transport: asyncio.WriteTransport) -> None:
    """Have the connection end by a reset instead of a plain end."""
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
