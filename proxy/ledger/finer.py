"""Conversations towards verdicts by the minute, where the hours alone would show too little: a verdict's first day is seen as it grows.

House rules. Rows of ``trials`` are split, never counted again: an hour whose rows are not all there (retention has taken some, or they never were rows) stays one step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from proxy.compare.trial import Result
from proxy.ledger.hours import HOUR, Conversations, Read, conversations
from proxy.ledger.tallies import Cell

#: Steps in seconds, finest first, each for as many hours as make no more than ``_STEPS``.
_WIDTHS = (60, 120, 300, 600, 900, 1800)
_STEPS = 120
#: Rows that are read for it at most: some 30 ms of a page.
_ROWS = 20_000

_SPLIT = "SELECT scope, result, reason, control_reason, CAST(time / ? AS INTEGER) * ?, COUNT(*) FROM trials WHERE time >= ? GROUP BY 1, 2, 3, 4, 5"


def growth(read: Read) -> list[Conversations]:
    """Return what ``hours.conversations`` gives, oldest first, its hours split where they are few enough. Raises StoreError."""
    hourly = conversations(read)
    hours = sorted({one.hour for one in hourly})
    width = next((one for one in _WIDTHS if len(hours) * HOUR <= _STEPS * one), HOUR)
    if width == HOUR or sum(one.n for one in hourly) > _ROWS:
        return hourly
    parts: dict[tuple[int, str, Cell], Counter[int]] = {}
    for scope, result, reason, control_reason, begins, n in read(
        _SPLIT, [width, width, hours[0]] if hours else [1, 1, 0]
    ):
        key = (begins // HOUR * HOUR, scope, Cell(Result(result), reason, control_reason))
        parts.setdefault(key, Counter())[begins] += n
    return _in_order(
        [part for one in hourly for part in _split(one, parts.get((one.hour, one.scope, one.cell), {}), width)]
    )


def _split(one: Conversations, parts: Mapping[int, int], width: int) -> list[Conversations]:
    if sum(parts.values()) != one.n:
        return [one]
    return [Conversations(one.hour, one.scope, one.cell, n, begins + width) for begins, n in parts.items()]


def _in_order(made: Sequence[Conversations]) -> list[Conversations]:
    return sorted(made, key=lambda one: one.until)
