"""Stacks that were found to be other ones under way: read from the store's events, shown in the report.

House rules. Pure. The judge writes such an event once for each change (``footprint_changed``); here it becomes a value, a finding, and plain JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from proxy.compare.layers import LAYER_OF, Evidence
from proxy.ledger.events import Event
from proxy.ledger.remedies import advice

CHANGED = "footprint_changed"


class Change(NamedTuple):
    """A stack that was found to be another one at ``time``, and at ``confirmed`` was still the old one (Unix seconds). ``fields``: [before, after] by field."""

    time: float
    arm: str
    confirmed: float
    was: str
    now: str
    fields: dict[str, list[Any]]


def changes_of(events: Iterable[Event]) -> list[Change]:
    """Return the changes among the store's events, oldest first."""
    return [
        Change(
            one.time,
            str(one.detail.get("arm", "")),
            float(one.detail.get("confirmed", one.time)),
            str(one.detail.get("was", "")),
            str(one.detail.get("now", "")),
            dict(one.detail.get("fields", {})),
        )
        for one in events
        if one.kind == CHANGED
    ]


def shown(one: Change) -> dict[str, Any]:
    """Return a change as the report has it."""
    return {
        "time": moment(one.time),
        "arm": one.arm,
        "last_confirmed": moment(one.confirmed),
        "footprint_ids": {"before": one.was, "after": one.now},
        "fields": {name: {"before": values[0], "after": values[1]} for name, values in one.fields.items()},
    }


def finding(changes: Sequence[Change]) -> list[dict[str, Any]]:
    """Return the finding that stacks have changed, with the latest change as its evidence; none when none has."""
    if not changes:
        return []
    last, told = changes[-1], advice(CHANGED)
    evidence: Evidence = {"arm": last.arm}
    evidence |= {name: f"{_said(values[0])} → {_said(values[1])}" for name, values in last.fields.items()}
    return [
        {
            "finding": CHANGED,
            "layer": LAYER_OF[CHANGED].value,
            "severity": told.severity,
            "count": len(changes),
            "evidence": evidence,
            "remedy": told.remedy,
        }
    ]


def moment(seconds: float) -> str:
    """Return Unix seconds as ISO 8601 in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def _said(value: object) -> str:
    return "unknown" if value is None else str(value)
