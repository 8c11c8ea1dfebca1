"""llama.cpp's rows put back to one per token.

House rules. Pure. What the server does (seen on 2026.10 builds): a token's text is held back until it is valid UTF-8, and then ONE row is
written for all the tokens of that character: ``bytes`` of them all, ``id`` and logprob of the last. A token still held back at the end, and
the tokens of a matched stop string, get no row. Text that may yet become a stop string is held back too, and shows up in a later
row's ``token`` and ``bytes``; the row's id and values stay its own. So a token's own bytes are taken from the alternatives, where its id is
listed with them. Given the ids of all tokens (``return_tokens`` with ``verbose``), merged rows are told apart again; the parts before a
row's last get no value, since none was given.
"""

from __future__ import annotations

from collections.abc import Mapping

from proxy.compare.token_stream import Token, Tokens

#: The longest run of tokens one row may stand for. A character has four bytes, and a token may end one character and begin the next.
_LONGEST = 16


def own_bytes(rows: Tokens) -> dict[int, bytes]:
    """Collect the bytes of every id the rows' alternatives show (empty for a special token)."""
    return {one.id: one.data or b"" for row in rows for one in row.top if one.id is not None}


def alone(row: Token, known: Mapping[int, bytes]) -> bool | None:
    """Tell whether a row stands for one token only: its own bytes are text by themselves. None when they are not known."""
    if row.id is not None and row.id in known:
        try:
            known[row.id].decode()
        except UnicodeDecodeError:
            return False
        return True
    return True if row.data is not None and row.data.isascii() else None


def spelled(row: Token, known: Mapping[int, bytes]) -> Token:
    """Return the row with its own token's bytes and text instead of those the server happened to send with it."""
    if row.id is None or row.id not in known:
        return row
    data = known[row.id]
    text = row.text if alone(row, known) is False else data.decode()
    return Token(text=text, id=row.id, data=data or None, logprob=row.logprob, top=row.top, channel=row.channel)


def rejoin(rows: Tokens, ids: tuple[int, ...]) -> tuple[Token, ...] | None:
    """Make one token per id, or None when the rows do not fit the ids, or fit them in more than one way."""
    known = own_bytes(rows)
    ends = _ends([_span(row, known) for row in rows], [row.id for row in rows], ids)
    if ends is None:
        return None
    tokens: list[Token] = []
    for row, end in zip(rows, ends, strict=True):
        parts = ids[len(tokens) : end - 1]
        tokens += [Token(text="", id=part, data=known.get(part), channel=row.channel) for part in parts]
        tokens.append(spelled(row, known))
    tokens += [Token(text="", id=part, data=known.get(part)) for part in ids[len(tokens) :]]
    return tuple(tokens)


def _span(row: Token, known: Mapping[int, bytes]) -> tuple[int, int]:
    """Tell how few and how many tokens a row can stand for."""
    match alone(row, known):
        case True:
            return 1, 1
        case False:
            return 2, _LONGEST
        case None:
            return 1, _LONGEST


def _ends(spans: list[tuple[int, int]], last: list[int | None], ids: tuple[int, ...]) -> list[int] | None:
    """Find where each row ends in ``ids``, if there is exactly one way for every row to end at its own id.

    The ends reachable row by row are walked forward, then back from the last: at each row exactly one must remain.
    """
    reachable: list[set[int]] = [{0}]
    for (fewest, most), wanted in zip(spans, last, strict=True):
        after = {
            end
            for start in reachable[-1]
            for end in range(start + fewest, min(start + most, len(ids)) + 1)
            if ids[end - 1] == wanted
        }
        reachable.append(after)
    ends: list[int] = []
    allowed = reachable[-1]
    for place in range(len(spans) - 1, -1, -1):
        if len(allowed) != 1:
            return None
        (end,) = allowed
        ends.append(end)
        fewest, most = spans[place]
        allowed = {start for start in reachable[place] if fewest <= end - start <= most}
    return ends[::-1] if allowed == {0} else None
