"""When are two reported tokens the same token: by id, else by exact bytes, else by text, else nobody can say.

House rules. Nothing is guessed and nothing is tokenised again: an empty text, empty bytes (what engines report for a
part of a character, and some for the end token) and a text with U+FFFD identify nothing. Ids are of one tokenizer: whether
both arms share it is settled before (prompt ids, footprints), not here.
"""

from __future__ import annotations

from typing import TypeGuard

from proxy.compare.comparison import By
from proxy.compare.token_stream import Alternative, Token

#: What decoders put in the place of bytes that are not a whole character.
REPLACEMENT = "\ufffd"

Named = Token | Alternative
Key = int | bytes | str


def resolvable(text: str | None) -> TypeGuard[str]:
    """Say whether a text can stand for the token that it came from."""
    return text is not None and text != "" and REPLACEMENT not in text


def key(token: Named, by: By) -> Key | None:
    """Return what the token is known by, None where that cannot tell it from other tokens."""
    match by:
        case By.ID:
            return token.id
        case By.BYTES:
            return token.data or None
        case By.TEXT:
            return token.text if resolvable(token.text) else None


def same(left: Named, right: Named) -> bool | None:
    """Say whether two reports mean the same token; None when the best that both give cannot tell."""
    if left.id is not None and right.id is not None:
        return left.id == right.id
    if left.data and right.data:
        return left.data == right.data
    if resolvable(left.text) and resolvable(right.text):
        return left.text == right.text
    return None
