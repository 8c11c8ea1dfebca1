"""Rows of engines' native routes: ``[logprob, id]`` or ``[logprob, id, text]``, and beside them lists of such rows.

House rules. Pure; raises ``DialectError`` where rows are not those of the ids that were asked about, and nothing else. The text may be null.
"""

from __future__ import annotations

from typing import Any

from engines.dialect import DialectError, Scored
from engines.rows import in_order, number, whole
from proxy.compare.token_stream import Alternative, Token


def scored(rows: Any, tops: Any, ids: tuple[int, ...], first: int) -> tuple[Scored, ...]:
    """Return one position for each of ``ids`` from index ``first`` on; ``rows`` and ``tops`` begin there, ``tops`` may be missing."""
    wanted = ids[first:]
    if not isinstance(rows, list) or len(rows) != len(wanted):
        raise DialectError("no_prompt_logprobs", "the answer does not hold one row per token that was to be scored")
    lists = tops if isinstance(tops, list) and len(tops) == len(rows) else [None] * len(rows)
    found: list[Scored] = []
    for index, (row, top, known) in enumerate(zip(rows, lists, wanted, strict=True), first):
        token = pair(row, top)
        if token is None or token.id != known:
            raise DialectError("scored_other_tokens", f"position {index} does not hold the token asked for")
        found.append(Scored(index, token))
    return tuple(found)


def pair(row: Any, top: Any = None) -> Token | None:
    """Read one row and the list beside it; None when it has no id."""
    parts = _parts(row)
    if parts is None:
        return None
    logprob, known, text = parts
    alternatives = [
        Alternative(logprob=its[0], id=its[1], text=its[2] or None)
        for entry in (top if isinstance(top, list) else ())
        if (its := _parts(entry)) is not None and its[0] is not None
    ]
    return Token(text=text, id=known, logprob=logprob, top=in_order(alternatives))


def _parts(row: Any) -> tuple[float | None, int, str] | None:
    if not isinstance(row, list) or len(row) < 2:
        return None
    known, text = whole(row[1]), row[2] if len(row) > 2 else None
    return None if known is None else (number(row[0]), known, text if isinstance(text, str) else "")
