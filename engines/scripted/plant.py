"""Differences planted in the rows of logprobs that a client gets, not in the numbers behind them.

House rules. Pure. Each is a public fault of a real engine: rows shifted by one in a stream, the first token's alternatives repeated, duplicated or missing ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from engines.scripted.generate import Row, Step
from engines.scripted.script import Differences


def planted(steps: Iterator[Step], differences: Differences, *, stream: bool) -> Iterator[Step]:
    """Pass steps on with their rows as this engine reports them."""
    first: Row | None = None
    before: Row | None = None
    for step in steps:
        row = step.row
        first = first or row
        shown = _listed(row, differences)
        if stream and differences.shifted_rows and before is not None:
            shown = replace(before, id=row.id)
        if stream and differences.alternatives == "first_repeated":
            shown = replace(shown, top=first.top)
        before = row
        yield step if shown is row else replace(step, row=shown)


def _listed(row: Row, differences: Differences) -> Row:
    if len(row.top) < 2:
        return row
    match differences.alternatives:
        case "duplicated":
            return replace(row, top=(row.top[0], row.top[0], *row.top[2:]))
        case "missing":
            return replace(row, top=(row.top[0], *row.top[2:]))
        case _:
            return row
