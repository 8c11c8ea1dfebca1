"""The list of records as the JSON API gives it: what was asked, checked; what was found, in short; how to go on.

House rules. A question that is not understood is refused with the name of what is wrong, never answered with something else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from proxy.ledger.kinds import Difference, kind_of, summary_of
from proxy.ledger.query import Filter, columns
from proxy.ledger.record import Record
from proxy.ledger.search import Hidden, Row, search
from proxy.ledger.store import Store

_WORDS = {
    "shadow": "shadow",
    "mode": "mode",
    "model": "model",
    "endpoint": "endpoint",
    "outcome": "outcome",
    "class": "difference",
    "finding": "finding",
    "exchange": "exchange",
    "after": "after",
}
_KNOWN = frozenset({*_WORDS, "since", "until", "limit", "order", "differing"})
_MOST = 1000
_DEFAULT = 100


class QueryError(Exception):
    """A parameter is not understood; the text names it and what would be."""


def wanted(query: Sequence[tuple[str, str]]) -> Filter:
    """Turn query parameters, as they came, into a filter; newest first unless ``order=oldest``. Raises QueryError."""
    fields: dict[str, Any] = {"limit": _DEFAULT, "newest_first": True}
    names = [name for name, _ in query]
    for name, value in query:
        if name in _KNOWN and names.count(name) > 1:
            raise QueryError(f"{name}: given more than once; give it once")
        if name in _WORDS:
            fields[_WORDS[name]] = value
        elif name in {"since", "until"}:
            fields[name] = moment(name, value)
        elif name == "limit":
            fields[name] = _limit(value)
        elif name == "differing":
            if value not in {"yes", "no"}:
                raise QueryError("differing: give yes or no")
            fields[name] = value == "yes"
        elif name == "order":
            if value not in {"newest", "oldest"}:
                raise QueryError("order: give newest or oldest")
            fields["newest_first"] = value == "newest"
        else:
            raise QueryError(f"unknown parameter; known are {', '.join(sorted(_KNOWN))}")
    return Filter(**fields)


def period(query: Sequence[tuple[str, str]]) -> Filter | None:
    """Turn the report's parameters, ``since`` and ``until``, into a filter; None for all of time. Raises QueryError."""
    if unknown := [name for name, _ in query if name not in {"since", "until"}]:
        raise QueryError(f"{unknown[0]}: unknown parameter; known are since, until")
    found = wanted(query)
    return Filter(since=found.since, until=found.until) if query else None


def moment(name: str, value: str) -> float:
    """Read Unix seconds or an ISO 8601 time (with an offset, else UTC is meant). Raises QueryError."""
    try:
        seconds = float(value)
    except ValueError:
        seconds = math.nan
    if math.isfinite(seconds):
        return seconds
    try:
        parsed = datetime.fromisoformat(value)
        return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise QueryError(f"{name}: give Unix seconds or a time such as 2026-01-31T12:00:00Z") from None


def listing(store: Store, query: Sequence[tuple[str, str]], hidden: Sequence[Hidden] = ()) -> dict[str, Any]:
    """Return ``records`` in short and ``next``: the id to give as ``after``, null at the end. Raises QueryError, StoreError.

    ``searched_to`` is there where the search stopped early: up to which moment (Unix seconds) it has looked; ``next`` goes on from there.
    """
    try:
        found = search(store.read, wanted(query), hidden)
    except KeyError:
        raise QueryError("after: that record is not kept any more; start again without it") from None
    stopped = {} if found.searched_to is None else {"searched_to": found.searched_to}
    return {"records": [shown(one) for one in found.rows], "next": found.next} | stopped


def brief(record: Record) -> dict[str, Any]:
    """Return a record without its arrays and content."""
    return shown(Row(0, record.time, kind_of(columns(record)), summary_of(record)))


def shown(row: Row) -> dict[str, Any]:
    """Return a row of a list, JSON-ready."""
    kind, summary = row.kind, row.summary
    first = summary.first
    return {
        "outcome": kind.outcome,
        "class": kind.difference,
        "id": summary.id,
        "time": row.time,
        "exchange": summary.exchange,
        "conversation": summary.conversation,
        "model": summary.model,
        "endpoint": kind.endpoint,
        "shadow": kind.shadow,
        "role": summary.role,
        "mode": kind.mode,
        "incomparable": summary.incomparable,
        "findings": list(summary.findings),
        "tokens_compared": summary.tokens_compared,
        "flips": summary.flips,
        "first_divergence": None if first is None else {"index": first.index, "class": first.kind, "gap": first.gap},
        "difference": None if summary.gravest is None else _difference(summary.gravest),
    }


def _difference(one: Difference) -> dict[str, Any]:
    """Return the first of the gravest differences, of whichever mode."""
    tokens = {
        arm: {"id": token.id, "text": token.text} for arm, token in (("primary", one.primary), ("shadow", one.shadow))
    }
    return {"choice": one.choice, "index": one.index, "class": one.kind, "gap": one.gap, **tokens}


def _limit(value: str) -> int:
    if value.isascii() and value.isdigit() and len(value) <= len(str(_MOST)) and 1 <= int(value) <= _MOST:
        return int(value)
    raise QueryError(f"limit: give a number from 1 to {_MOST}")
