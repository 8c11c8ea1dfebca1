"""The list of records as the JSON API gives it: what was asked, checked; what was found, in short; how to go on.

House rules. A question that is not understood is refused with the name of what is wrong, never answered with something else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from proxy.compare.comparison import Comparison
from proxy.ledger.export import derived
from proxy.ledger.query import Filter, gravest_flip
from proxy.ledger.record import Record
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


def listing(store: Store, query: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Return ``records`` in short and ``next``: the id to give as ``after``, null at the end. Raises QueryError, StoreError."""
    asked = wanted(query)
    limit = asked.limit or _DEFAULT
    try:
        found = list(store.records(replace(asked, limit=limit + 1)))
    except KeyError:
        raise QueryError("after: that record is not kept any more; start again without it") from None
    shown = found[:limit]
    return {"records": [brief(one) for one in shown], "next": shown[-1].id if len(found) > limit else None}


def brief(record: Record) -> dict[str, Any]:
    """Return a record without its arrays and content."""
    comparison = record.comparison
    first = next((choice.first for choice in comparison.choices if choice.first is not None), None)
    return derived(record) | {
        "id": record.id,
        "time": record.time,
        "exchange": record.exchange,
        "conversation": record.conversation,
        "model": record.model,
        "endpoint": record.endpoint,
        "shadow": record.shadow,
        "role": record.role,
        "mode": comparison.mode.value,
        "incomparable": comparison.incomparable,
        "findings": list(comparison.findings),
        "tokens_compared": sum(choice.compared for choice in comparison.choices),
        "flips": sum(len(choice.flips) for choice in comparison.choices),
        "first_divergence": None
        if first is None
        else {"index": first.index, "class": first.kind.value, "gap": first.gap},
        "difference": _difference(comparison),
    }


def _difference(comparison: Comparison) -> dict[str, Any] | None:
    """Return the first of the gravest differences, of whichever mode; None without any."""
    if (found := gravest_flip(comparison)) is None:
        return None
    choice, flip = found
    tokens = {
        arm: {"id": one.id, "text": one.text} for arm, one in (("primary", flip.primary), ("shadow", flip.shadow))
    }
    return {"choice": choice, "index": flip.index, "class": flip.kind.value, "gap": flip.gap, **tokens}


def _limit(value: str) -> int:
    if value.isascii() and value.isdigit() and len(value) <= len(str(_MOST)) and 1 <= int(value) <= _MOST:
        return int(value)
    raise QueryError(f"limit: give a number from 1 to {_MOST}")
