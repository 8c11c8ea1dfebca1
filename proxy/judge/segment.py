"""One file of the spool: exchanges as they were handed over, framed so that whatever is whole can be told from whatever is not.

A frame is 16 bytes (little-endian: payload length, CRC-32, number) and the payload, a msgpack ``Exchange``. The CRC covers number and payload. The
file's name says the first number in it, and in how many lives of a judge it was taken up again. House rules. Bytes and names only; who has settled
what is not known here.
"""

from __future__ import annotations

import re
import stat
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from proxy.traffic.wire import MAX_FRAME, Payload

_HEADER = struct.Struct("<IIQ")
HEADER = _HEADER.size
_NAME = re.compile(r"([0-3][0-9a-f]{15})\.(\d{1,4})\.spool")
_READ = 1 << 20
_NUMBERS = (
    1 << 62
)  # they begin as nanoseconds since 1970; a larger one is not ours, and SQLite takes none from 2**63 on


class Frame(NamedTuple):
    """A whole frame: where its payload lies in the file."""

    number: int
    offset: int
    payload: bytes


def header(number: int, payload: Payload) -> bytes:
    """The bytes before a payload."""
    return _HEADER.pack(len(payload), _sum(number, payload), number)


def name(first: int, lives: int) -> str:
    """The name of a file."""
    return f"{first:016x}.{lives}.spool"


def lives(path: Path) -> int | None:
    """In how many lives a file has been taken up again; None when it is none of ours."""
    found = _NAME.fullmatch(path.name)
    return int(found[2]) if found else None


def files(directory: Path) -> list[Path]:
    """All of a directory's, oldest first. Raises OSError. What has such a name and is no file of its own is none of ours: opening a pipe would not end."""
    found = sorted(path for path in directory.iterdir() if lives(path) is not None)
    return [path for path in found if stat.S_ISREG(path.lstat().st_mode)]


def scan(path: Path) -> Iterator[Frame]:
    """Read a file's whole frames; it ends at the first one that is not: torn by a kill, or damaged. Raises OSError."""
    with path.open("rb", buffering=_READ) as file:
        offset = 0
        while len(head := file.read(HEADER)) == HEADER:
            length, check, number = _HEADER.unpack(head)
            if length > MAX_FRAME or number >= _NUMBERS:
                return
            payload = file.read(length)
            if len(payload) < length or check != _sum(number, payload):
                return
            yield Frame(number, offset + HEADER, payload)
            offset += HEADER + length


def _sum(number: int, payload: Payload) -> int:
    return zlib.crc32(payload, (number ^ number >> 32) & 0xFFFFFFFF)
