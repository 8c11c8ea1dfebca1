"""What happened to the stacks or to us, in the order it happened; the newest ten thousand stay.

House rules. Works inside the caller's transaction. What comes from outside is bounded before it is kept.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from proxy.ledger.bounds import bounded_values

_KEPT = 10_000
SINCE = "SELECT time, kind, detail FROM events WHERE time >= ? ORDER BY seq"


class Event(NamedTuple):
    """Something that happened to the stack or to us; ``time`` is Unix seconds, ``detail`` plain JSON values."""

    time: float
    kind: str
    detail: dict[str, Any]


def add(connection: sqlite3.Connection, event: Event) -> None:
    """Keep an event. Raises sqlite3.Error."""
    row = (event.time, event.kind, msgspec.json.encode(bounded_values(event.detail)).decode())
    connection.execute("INSERT INTO events (time, kind, detail) VALUES (?, ?, ?)", row)
    connection.execute("DELETE FROM events WHERE seq <= (SELECT MAX(seq) FROM events) - ?", (_KEPT,))


def read(rows: Iterable[tuple[float, str, str]]) -> list[Event]:
    """Read the rows of ``SINCE``; one that is damaged is left out."""
    return [event for row in rows if (event := _event(*row)) is not None]


def _event(time: object, kind: str, detail: str) -> Event | None:
    if not isinstance(time, float):
        return None
    try:
        return Event(time, kind, msgspec.json.decode(detail, type=dict[str, Any]))
    except msgspec.MsgspecError:
        return None
