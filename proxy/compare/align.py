"""Which tokens of two streams stand at the same place: the common prefix, and where it ends.

House rules. Rows are compared one to one from the start; nothing is shifted, joined or tokenised again. Streams whose rows
are not known to be one per token are not aligned but said to be so: a merged row is not a difference of the engines.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from proxy.compare.columns import Columns
from proxy.compare.comparison import By
from proxy.compare.identity import resolvable, same
from proxy.compare.token_stream import Tokens, TokenStream


class Aligned(Struct, frozen=True):
    """How far two streams are the same.

    ``common`` tokens are the same from the start. At index ``common`` the streams part, unless one of them ends there
    (``parted`` false) or the rows there name no token (``unresolved``).
    """

    by: By
    common: int
    parted: bool = False
    unresolved: bool = False


class Unaligned(Struct, frozen=True):
    """Why two streams cannot be aligned: ``no_tokens``, ``token_count`` or ``unaligned``."""

    reason: str


def countable(stream: TokenStream) -> bool:
    """Say whether a stream's rows are one per token, as far as the engine lets us know."""
    return not stream.rows_missing and (stream.count is None or stream.count == len(stream.tokens))


def align(primary: TokenStream, shadow: TokenStream) -> Aligned | Unaligned:
    """Align two streams: by token id where both have ids, else by exact bytes, else by text."""
    if not primary.tokens or not shadow.tokens:
        return Unaligned("no_tokens")
    if not countable(primary) or not countable(shadow):
        return Unaligned("token_count")
    if isinstance(primary.tokens, Columns) and isinstance(shadow.tokens, Columns):
        agreed = agreement(primary.tokens, shadow.tokens)
        if agreed is not None:
            return _agreed(primary, shadow, *agreed)
    by = _by(primary, shadow)
    common = 0
    for left, right in zip(primary.tokens, shadow.tokens, strict=False):
        match same(left, right):
            case True:
                common += 1
            case None:
                return Aligned(by, common, unresolved=True)
            case False:
                if by is not By.ID and _may_be_merged(primary, shadow, common):
                    return Unaligned("unaligned")
                return Aligned(by, common, parted=True)
    return Aligned(by, common)


def _agreed(primary: TokenStream, shadow: TokenStream, by: By, common: int) -> Aligned | Unaligned:
    if common == min(len(primary.tokens), len(shadow.tokens)):
        return Aligned(by, common)
    if by is not By.ID and _may_be_merged(primary, shadow, common):
        return Unaligned("unaligned")
    return Aligned(by, common, parted=True)


def agreement(primary: Columns, shadow: Columns) -> tuple[By, int] | None:
    """Return how far two streams of columns are the same from the start, and by what; None where that has to be found out token by token."""
    if primary.ids is not None and shadow.ids is not None:
        return By.ID, _prefix(primary.ids, shadow.ids)
    if not primary.labelled and not shadow.labelled:
        return By.BYTES if primary.spelled and shadow.spelled else By.TEXT, _prefix(primary.names, shadow.names)
    return None


def _prefix(left: Sequence[object], right: Sequence[object]) -> int:
    shorter = min(len(left), len(right))
    if left[:shorter] == right[:shorter]:
        return shorter
    return next(at for at in range(shorter) if left[at] != right[at])


def _by(primary: TokenStream, shadow: TokenStream) -> By:
    if primary.has_ids and shadow.has_ids:
        return By.ID
    if all(token.data is not None for stream in (primary, shadow) for token in stream.tokens):
        return By.BYTES
    return By.TEXT


def _may_be_merged(primary: TokenStream, shadow: TokenStream, index: int) -> bool:
    """Say whether a difference of rows may be one and the same output cut into rows differently.

    Only where an engine does not say how many tokens it made: one row is then the beginning of the other, and what follows
    spells the same as far as both go.
    """
    if primary.count is not None and shadow.count is not None:
        return False
    left, right = (_spelled(stream.tokens[index:]) for stream in (primary, shadow))
    first, second = (_spelled(stream.tokens[index : index + 1]) for stream in (primary, shadow))
    one_begins_other = first.startswith(second) or second.startswith(first)
    longest = max(len(first), len(second))
    return one_begins_other and left[:longest] == right[:longest]


def _spelled(tokens: Tokens) -> bytes:
    return b"".join(token.data or (token.text.encode() if resolvable(token.text) else b"") for token in tokens)
