"""A tokenizer's internal pieces back to the bytes they stand for.

House rules. Pure. Some engines show tokens as the vocabulary spells them: one letter per byte (``Ġsea``, ``Ċ``), or SentencePiece's ``▁sea`` and ``<0xE2>``. Which
it is, nobody says; a spelling is believed only when the reply's own tokens, read that way, hold the reply's own text. Letters for bytes are those that byte-level BPE has used since
GPT-2: printable Latin-1 stands for itself, the other bytes for U+0100 onwards in their order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

Spelling = Callable[[str], bytes]
Json = dict[str, Any]

_PLAIN = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_LETTERS = {chr(byte): byte for byte in _PLAIN} | {
    chr(0x100 + place): byte for place, byte in enumerate(sorted(set(range(0x100)) - set(_PLAIN)))
}
_BYTE = re.compile("<0x([0-9A-F]{2})>")


def mend(rows: list[Json], texts: list[str]) -> None:
    """Put text and bytes in place of the pieces in a chat's rows, in place; ``texts`` are what the reply shows. Nothing where nobody can tell.

    A row without a piece is one whose token was not among those with a value: what stands there instead is taken away.
    """
    lists = [_entries(row) for row in rows]
    way = spelling(map(_piece, rows), (_piece(entry) for entries in lists for entry in entries), texts)
    for row, entries in zip(rows, lists, strict=True):
        if not _piece(row) and not row.get("bytes"):
            row["logprob"] = None
        for entry in (row, *entries):
            data = way(_piece(entry)) if way else b""
            entry["token"], entry["bytes"] = data.decode(errors="ignore"), list(data)


def _entries(row: Json) -> list[Json]:
    listed = row.get("top_logprobs")
    return [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []


def _piece(entry: Json) -> str:
    piece = entry.get("token")
    return piece if isinstance(piece, str) else ""


def spelling(chosen: Iterable[str], others: Iterable[str], texts: Iterable[str]) -> Spelling | None:
    """Return the way to read pieces, None when none fits: ``chosen`` in their order hold each of ``texts``, ``others`` only have to be readable."""
    mine = list(chosen)
    pieces = {*mine, *others}
    wanted = [stripped for text in texts if (stripped := text.strip())]
    if not wanted:
        return None
    for way, possible in ((letters, _all_letters), (marks, _any_marks), (plainly, _no_marks)):
        if possible(pieces):
            spelled = b"".join(map(way, mine)).decode(errors="replace")
            if all(text in spelled for text in wanted):
                return way
    return None


@lru_cache(1 << 14)
def letters(piece: str) -> bytes:
    """Read one letter per byte; what is not written so (an added token) stands for itself."""
    try:
        return bytes(_LETTERS[letter] for letter in piece)
    except KeyError:
        return piece.encode(errors="replace")


@lru_cache(1 << 14)
def marks(piece: str) -> bytes:
    """Read SentencePiece's way of writing blanks and bytes."""
    found = _BYTE.fullmatch(piece)
    return bytes([int(found[1], 16)]) if found else piece.replace("\u2581", " ").encode(errors="replace")


def plainly(piece: str) -> bytes:
    """Read the piece as the text it is."""
    return piece.encode(errors="replace")


def _all_letters(pieces: set[str]) -> bool:
    return not any("\u2581" in piece or " " in piece for piece in pieces)


def _any_marks(pieces: set[str]) -> bool:
    return any("\u2581" in piece or _BYTE.fullmatch(piece) for piece in pieces)


def _no_marks(pieces: set[str]) -> bool:
    return not _any_marks(pieces)
