"""Which records are wanted, and the columns by which the store can tell.

House rules. Pure: values in, SQL text and parameters out. A value never becomes part of SQL text.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from proxy.compare.comparison import Comparison, Flip, FlipClass
from proxy.ledger.bounds import MODEL, short
from proxy.ledger.record import Record

#: Worst first: a record is listed under the gravest of its differences.
GRAVITY = (FlipClass.GENUINE, FlipClass.UNKNOWN, FlipClass.NEAR_TIE, FlipClass.EXACT_TIE)


class Filter(Struct, frozen=True, kw_only=True):
    """Which records: every field that is set must fit.

    ``since`` (inclusive) and ``until`` (exclusive) are Unix seconds; ``difference`` is a class of ``FlipClass`` (the gravest of the
    record), ``differing`` those with one, or whose texts alone differ; ``after`` is the id of the last record already had, in the order asked for (oldest first, or
    ``newest_first``); ``newest``: of the newest so many records only, whether they fit or not.
    """

    since: float | None = None
    until: float | None = None
    shadow: str | None = None
    mode: str | None = None
    model: str | None = None
    endpoint: str | None = None
    outcome: str | None = None
    difference: str | None = None
    differing: bool = False
    finding: str | None = None
    exchange: str | None = None
    limit: Annotated[int, Meta(ge=1)] | None = None
    after: str | None = None
    newest_first: bool = False
    newest: Annotated[int, Meta(ge=1)] | None = None


#: Word for word the condition of any index that is to be used for it.
DIFFERING = "(class <> '' OR outcome = 'diverged')"
_EQUALS = {
    "shadow": "shadow",
    "mode": "mode",
    "model": "model",
    "endpoint": "endpoint",
    "outcome": "outcome",
    "difference": "class",
    "exchange": "exchange",
}


def where(wanted: Filter) -> tuple[str, list[object]]:
    """Return the condition in SQL (without ``after``) and its parameters; "1" when everything is wanted."""
    terms: list[str] = []
    values: list[object] = []
    for field, column in _EQUALS.items():
        value = getattr(wanted, field)
        if value is not None:
            terms.append(f"{column} = ?")
            values.append(short(value, MODEL) if field == "model" else value)
    if wanted.differing:
        terms.append(DIFFERING)
    if wanted.since is not None:
        terms.append("time >= ?")
        values.append(wanted.since)
    if wanted.until is not None:
        terms.append("time < ?")
        values.append(wanted.until)
    if wanted.newest is not None:
        terms.append("seq > COALESCE((SELECT seq FROM listed ORDER BY seq DESC LIMIT 1 OFFSET ?), 0)")
        values.append(wanted.newest)
    if wanted.finding is not None:
        terms.append("instr(findings, ?) > 0")
        values.append(f" {wanted.finding} ")
    return " AND ".join(terms) or "1", values


def gravest(comparison: Comparison) -> FlipClass | None:
    """Find the gravest class among a comparison's differences: its first difference (``free``), its flips (``forced``); None without any."""
    kinds = {flip.kind for choice in comparison.choices for flip in (choice.first, *choice.flips) if flip is not None}
    return next((kind for kind in GRAVITY if kind in kinds), None)


def gravest_flip(comparison: Comparison) -> tuple[int, Flip] | None:
    """Find the first of the gravest differences; return its choice's index and itself."""
    kind = gravest(comparison)
    found = (
        (choice.index, flip)
        for choice in comparison.choices
        for flip in (choice.first, *choice.flips)
        if flip is not None
    )
    return next(((index, flip) for index, flip in found if flip.kind is kind), None)


def columns(record: Record) -> tuple[object, ...]:
    """Project what is filtered on, in the order of ``COLUMNS``."""
    comparison = record.comparison
    kind = gravest(comparison)
    return (
        record.id,
        record.time,
        record.exchange,
        record.shadow,
        record.role,
        comparison.mode.value,
        record.model,
        record.endpoint,
        comparison.outcome,
        comparison.incomparable or "",
        "" if kind is None else kind.value,
        f" {' '.join(comparison.findings)} ",
    )


COLUMNS = (
    "id", "time", "exchange", "shadow", "role", "mode", "model", "endpoint", "outcome", "reason", "class", "findings",
)  # fmt: skip
