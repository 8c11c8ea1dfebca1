"""The vectors of ``requests.txt``, ``requests_heads.txt`` and ``replies.txt``, read; the first of them says how they are written."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_HERE = Path(__file__).parent
_ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|(.))")
_NAMED = {"r": b"\r", "n": b"\n", "t": b"\t", "0": b"\0", "\\": b"\\"}
_REPEAT = re.compile(r"<(?!mark>|hidden>)([^<>]+?)\*([0-9]+)>")
_HIDDEN = "GET /hidden-<mark> HTTP/1.1\\r\\nHost: h\\r\\n\\r\\n"


@dataclass(frozen=True)
class Vector:
    """One line of a file: ``expected`` is its middle column, ``text`` the bytes as written there."""

    name: str
    section: str
    expected: str
    text: str

    def wire(self, mark: str) -> bytes:
        """The bytes, for one run."""
        return unescaped(self.text.replace("<hidden>", _HIDDEN).replace("<mark>", mark))


def unescaped(text: str) -> bytes:
    """The bytes that a text of the files stands for."""
    repeated = _REPEAT.sub(lambda found: found[1] * int(found[2]), text)
    out = bytearray()
    place = 0
    for found in _ESCAPE.finditer(repeated):
        out += repeated[place : found.start()].encode("ascii")
        out += bytes.fromhex(found[1]) if found[1] else _NAMED[found[2]]
        place = found.end()
    return bytes(out + repeated[place:].encode("ascii"))


def read(file: str) -> list[Vector]:
    """All vectors of a file. Raises ValueError for a line that is none, and for a name that comes twice."""
    found: dict[str, Vector] = {}
    section = ""
    for number, line in enumerate((_HERE / file).read_text(encoding="ascii").splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        if line.startswith("["):
            section = line.strip("[]")
            continue
        parts = line.split("|", 2)
        if len(parts) != 3 or parts[0].strip() in found:
            raise ValueError(f"{file}:{number} is not NAME | EXPECTED | BYTES with a name of its own")
        found[parts[0].strip()] = Vector(parts[0].strip(), section, parts[1].strip(), parts[2][1:])
    return list(found.values())


REQUESTS = read("requests.txt") + read("requests_heads.txt")
