"""What retention deletes: records and the rows of trials, by age and by size. Counts and the sums of the verdicts stay.

House rules. Works inside the caller's transaction, a short one each time: a purge of a million records must not keep the judge from the file.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from proxy.ledger import hours, kinds

_TABLES = ("records", "trials")
#: Rows deleted, and pages given back, in one transaction: tens of milliseconds.
_AT_ONCE, _PAGES_AT_ONCE = 2_000, 2_000


def older_than(connection: sqlite3.Connection, before: float) -> tuple[int, int]:
    """Delete some of what began before a Unix time; return how many records went, and how many rows in all: 0 at the end. Raises sqlite3.Error."""
    return _delete(connection, "SELECT seq FROM {} WHERE time < ? LIMIT ?", lambda _: (before, _AT_ONCE))


def above(connection: sqlite3.Connection, max_bytes: int) -> tuple[int, int]:
    """Delete some of the oldest rows if the file holds more, at least one of each; return the same. Raises sqlite3.Error."""
    used = used_bytes(connection)
    if used <= max_bytes:
        return 0, 0
    share = 1 - max_bytes / used

    def number(table: str) -> tuple[int]:
        total = int(connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0])  # noqa: S608 - constants
        return (min(total, _AT_ONCE, max(1, round(total * share))),)

    return _delete(connection, "SELECT seq FROM {} ORDER BY time, seq LIMIT ?", number)


def _delete(connection: sqlite3.Connection, chosen: str, values: Callable[[str], tuple[float, ...]]) -> tuple[int, int]:
    deleted = [
        connection.execute(f"DELETE FROM {table} WHERE seq IN ({chosen.format(table)})", values(table)).rowcount  # noqa: S608 - constants
        for table in _TABLES
    ]
    return deleted[0], sum(deleted)


def give_back(connection: sqlite3.Connection) -> None:
    """Give the freed pages back to the file system, some at a time; outside of a transaction. Raises sqlite3.Error."""
    left = None
    while (free := int(connection.execute("PRAGMA freelist_count").fetchone()[0])) and free != left:
        # This pragma frees one page a step, and only executescript steps to the end.
        connection.executescript(f"PRAGMA incremental_vacuum({_PAGES_AT_ONCE})")
        left = free
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


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
