"""What retention deletes: records and the rows of trials, by age and by size. Counts and the sums of the verdicts stay.

House rules. Works inside the caller's transaction.
"""

from __future__ import annotations

import sqlite3

from proxy.ledger import hours, kinds

_TABLES = ("records", "trials")


def older_than(connection: sqlite3.Connection, before: float) -> int:
    """Delete what began before a Unix time; return how many records went. Raises sqlite3.Error."""
    deleted = [
        connection.execute(f"DELETE FROM {table} WHERE time < ?", (before,)).rowcount  # noqa: S608 - constants
        for table in _TABLES
    ]
    return deleted[0]


def oldest(connection: sqlite3.Connection, share: float) -> tuple[int, int]:
    """Delete a share of the rows, the oldest, at least one of each; return how many records went, and how many rows in all. Raises sqlite3.Error."""
    deleted: list[int] = []
    for table in _TABLES:
        total = int(connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0])  # noqa: S608 - constants
        number = min(total, max(1, round(total * share)))
        chosen = f"DELETE FROM {table} WHERE seq IN (SELECT seq FROM {table} ORDER BY time, seq LIMIT ?)"  # noqa: S608 - constants
        deleted.append(connection.execute(chosen, (number,)).rowcount)
    return deleted[0], sum(deleted)


def tidy(connection: sqlite3.Connection, now: float) -> None:
    """Drop what is left of records that went, and hours that are too old. Raises sqlite3.Error."""
    hours.forget(connection, now)
    kinds.forget(connection)


def used_bytes(connection: sqlite3.Connection) -> int:
    """Bytes of the file that hold something. Raises sqlite3.Error."""
    pages, free, size = (
        int(connection.execute(f"PRAGMA {name}").fetchone()[0])
        for name in ("page_count", "freelist_count", "page_size")
    )
    return (pages - free) * size
