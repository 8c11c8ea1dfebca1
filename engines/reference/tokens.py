"""The bytes of every token, and text that is given out only once it is certain.

Two ideas. ``TokenTable`` says which bytes each token id stands for, read from the tokenizer's own definition (the content of a ``tokenizer.json``), so that
a token that is a third of an emoji is those exact bytes and not a replacement character. ``TextStream`` joins such bytes into text: it holds back an
incomplete UTF-8 sequence, and the beginning of a stop string.

House rules: pure; knows no model, no server, no tokenizer object.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def byte_alphabet() -> dict[str, int]:
    """Return the letters in which byte-level BPE writes bytes (GPT-2's table).

    Printable Latin-1 stands for itself; the other 68 bytes are written, in order, as the letters from U+0100 on.
    """
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    letters = {chr(byte): byte for byte in plain}
    others = [byte for byte in range(256) if byte not in set(plain)]
    letters.update({chr(0x100 + place): byte for place, byte in enumerate(others)})
    return letters


@dataclass(frozen=True, slots=True)
class TokenTable:
    """``pieces[id]`` are a token's raw bytes (empty for an id without a piece); ``special`` are the ids that visible text leaves out."""

    pieces: tuple[bytes, ...]
    special: frozenset[int]

    def data(self, token: int) -> bytes:
        """Return the bytes of one token; empty for ids beyond the vocabulary (models pad their output layer)."""
        return self.pieces[token] if 0 <= token < len(self.pieces) else b""

    def text(self, token: int) -> str:
        r"""Return a token's text; bytes that are no text by themselves are spelled ``bytes:\xf0\x9f``, as the OpenAI API does.

        So no two tokens of different bytes share a text.
        """
        data = self.data(token)
        try:
            return data.decode()
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)

    def visible(self, token: int, *, skip_special: bool) -> bytes:
        """Return what a token adds to the text that a client sees."""
        return b"" if skip_special and token in self.special else self.data(token)


def table_from_definition(definition: Mapping[str, Any], size: int) -> TokenTable:
    """Read a ``tokenizer.json`` definition; ``size`` is the number of ids wanted at least.

    Understands byte-level BPE, and pieces in the SentencePiece manner (U+2581 for a space, ``<0x0A>`` for a byte); pieces of any other kind are
    taken as the UTF-8 they are written in.
    """
    vocabulary = definition["model"]["vocab"]
    entries: Iterable[tuple[str, int]] = (
        vocabulary.items()
        if isinstance(vocabulary, dict)
        else ((piece, number) for number, (piece, _) in enumerate(vocabulary))
    )
    kinds = set(_kinds(definition.get("decoder")))
    letters = byte_alphabet()
    pieces: dict[int, bytes] = {}
    for piece, number in entries:
        if "ByteLevel" in kinds:
            pieces[number] = _byte_level(piece, letters)
        elif kinds & {"ByteFallback", "Metaspace", "Replace"}:
            pieces[number] = _sentencepiece(piece)
        else:
            pieces[number] = piece.encode()
    special = set()
    for added in definition.get("added_tokens") or ():
        pieces[added["id"]] = added["content"].encode()
        if added.get("special"):
            special.add(added["id"])
    length = max(size, max(pieces, default=-1) + 1)
    return TokenTable(pieces=tuple(pieces.get(number, b"") for number in range(length)), special=frozenset(special))


def _kinds(decoder: Mapping[str, Any] | None) -> Iterable[str]:
    """Yield the type names of a decoder and of the parts of a sequence."""
    if decoder is None:
        return
    yield decoder["type"]
    for part in decoder.get("decoders") or ():
        yield from _kinds(part)


def _byte_level(piece: str, letters: Mapping[str, int]) -> bytes:
    # A letter outside the table is seen in vocabularies to which plain words were added by hand: it is itself.
    return b"".join(bytes([letters[letter]]) if letter in letters else letter.encode() for letter in piece)


def _sentencepiece(piece: str) -> bytes:
    byte = _BYTE_PIECE.fullmatch(piece)
    return bytes([int(byte.group(1), 16)]) if byte else piece.replace("\u2581", " ").encode()


class TextStream:
    """Bytes in, certain text out.

    ``push`` and ``finish`` return newly certain text. After a stop string was seen ``stopped`` names it and no more text comes. Bytes that can never
    become UTF-8 turn into U+FFFD; a sequence that is still incomplete at the end is left out, as vLLM and llama.cpp do.
    """

    def __init__(self, stops: Iterable[str] = (), *, include_stop: bool = False) -> None:
        self._stops = tuple(stop for stop in stops if stop)
        self._include_stop = include_stop
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""
        self.length = 0
        self.stopped: str | None = None

    def push(self, data: bytes, *, watch: bool = True) -> str:
        """Add a token's bytes; ``watch`` False gives text out without looking for stop strings (before a minimum length)."""
        if self.stopped is not None:
            return ""
        self._held += self._decoder.decode(data)
        if not watch:
            return self._give(len(self._held))
        found = [(self._held.index(stop), stop) for stop in self._stops if stop in self._held]
        if found:
            start, self.stopped = min(found, key=lambda place: place[0])
            return self._give(start + len(self.stopped) if self._include_stop else start)
        return self._give(len(self._held) - self._tail())

    def finish(self) -> str:
        """Give out the text held back for a stop string that never came."""
        return "" if self.stopped is not None else self._give(len(self._held))

    def _give(self, count: int) -> str:
        given, self._held = self._held[:count], self._held[count:]
        self.length += len(given)
        return given

    def _tail(self) -> int:
        """Length of the longest end of the held text that begins a stop string."""
        longest = min(len(self._held), max((len(stop) for stop in self._stops), default=1) - 1)
        for count in range(longest, 0, -1):
            if any(stop.startswith(self._held[-count:]) for stop in self._stops if len(stop) > count):
                return count
        return 0
