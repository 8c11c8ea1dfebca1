"""Token ids and texts: special tokens, the 256 bytes, then words.

House rules. Pure. Every text has exactly one tokenization (the longest word first, else a byte), and decoding gives it back byte for byte.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

from engines.scripted.script import Vocabulary

END, START, THINK, THOUGHT, CALL, CALLED, TURN = range(7)
#: Texts of the special tokens, by id.
SPECIAL = ("<|end|>", "<|start|>", "<think>", "</think>", "<tool_call>", "</tool_call>", "<|turn|>")
FIRST_BYTE = len(SPECIAL)
FIRST_WORD = FIRST_BYTE + 256

_WORDS = (
    "the of and to in is that for it as was with be by on not he his but at are this have from or had an they which one"
    " you were her all she there would their we him been has when who will more no if out so said what up its about into"
    " than them can only other new some could time these two may then do first any my now such like our over man me even"
    " most made after also did many before must through years where much your way well down should because each just"
    " those people how too little state good very make world still own see work long get here between both life being"
    " under never day same another know while last might us great old year off come since against go came right used"
)
BUILT_IN = tuple(f" {word}" for word in _WORDS.split())


@dataclass(frozen=True, slots=True)
class Table:
    """One vocabulary. ``spoken`` are the ids that the toy says of its own accord."""

    data: tuple[bytes, ...]
    spoken: tuple[int, ...]
    unique: bool
    _ids: dict[bytes, int] = field(repr=False)
    _pattern: re.Pattern[bytes] = field(repr=False)

    def __len__(self) -> int:
        return len(self.data)

    def encode(self, text: str, *, special: bool = False) -> tuple[int, ...]:
        """Return the ids of a text; ``special`` recognises special tokens written out."""
        if not special:
            return self._plain(text)
        ids: list[int] = []
        for part in _SPECIAL.split(text):
            if part in SPECIAL:
                ids.append(SPECIAL.index(part))
            else:
                ids += self._plain(part)
        return tuple(ids)

    def _plain(self, text: str) -> tuple[int, ...]:
        return tuple(self._ids[found] for found in self._pattern.findall(text.encode("utf-8", "replace")))

    def bytes_of(self, token: int) -> bytes:
        """Return a token's bytes, none for a special one."""
        return b"" if token < FIRST_BYTE else self.data[token]

    def text_of(self, token: int, *, special: bool = False) -> str:
        """Return a token by itself as text: U+FFFD for a part of a character; special ones written out or empty."""
        if token < FIRST_BYTE and not special:
            return ""
        return self.data[token].decode("utf-8", "replace")

    def decode(self, ids: tuple[int, ...]) -> str:
        """Return the text of ids, special tokens left out."""
        return b"".join(map(self.bytes_of, ids)).decode("utf-8", "replace")

    def find(self, text: str) -> int | None:
        """Return the id of one token: by text, or ``#N``."""
        if text.startswith("#") and text[1:].isascii() and text[1:].isdigit():
            number = int(text[1:])
            return number if number < len(self.data) else None
        return SPECIAL.index(text) if text in SPECIAL else self._ids.get(text.encode("utf-8", "replace"))


_SPECIAL = re.compile("(" + "|".join(map(re.escape, SPECIAL)) + ")")


@lru_cache(64)
def table(vocabulary: Vocabulary) -> Table:
    """Make the table of a vocabulary."""
    words = () if vocabulary.kind == "bytes" else vocabulary.list or BUILT_IN
    encoded = [word.encode("utf-8", "replace") for word in words]
    single = [bytes([code]) for code in range(256)]
    data = (*(text.encode() for text in SPECIAL), *single, *encoded)
    ids = {one: FIRST_BYTE + place for place, one in enumerate((*single, *encoded))}
    longest = sorted(encoded, key=len, reverse=True)
    pattern = re.compile(b"|".join([*map(re.escape, longest), b"."]), re.DOTALL)
    # Bytes alone speak printable ASCII; words speak themselves and end their sentences.
    codes = (*b".,!?",) if words else (10, *range(32, 127))
    spoken = (*(FIRST_BYTE + code for code in codes), *range(FIRST_WORD, len(data)))
    return Table(data, spoken, len(set(encoded)) == len(encoded), ids, pattern)
