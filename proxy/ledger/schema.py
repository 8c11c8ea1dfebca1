"""The tables of the SQLite store and the steps that bring an older file up to date.

House rules. A step, once released, never changes: a new shape is a new step at the end. Each step and the version it leads to are
committed together, so a killed migration is simply run again. Nothing here knows what the rows mean.
"""

from __future__ import annotations

import sqlite3

from proxy.ledger import hours, kinds, tallies

#: Each entry leads from version ``index`` to ``index + 1``.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE counts (
             incarnation TEXT NOT NULL, shadow TEXT NOT NULL, mode TEXT NOT NULL, outcome TEXT NOT NULL, reason TEXT NOT NULL,
             n INTEGER NOT NULL,
             PRIMARY KEY (incarnation, shadow, mode, outcome, reason)
           ) WITHOUT ROWID""",
        """CREATE TABLE records (
             seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, time REAL NOT NULL, exchange TEXT NOT NULL,
             shadow TEXT NOT NULL, role TEXT NOT NULL, mode TEXT NOT NULL, model TEXT NOT NULL, endpoint TEXT NOT NULL,
             outcome TEXT NOT NULL, reason TEXT NOT NULL, class TEXT NOT NULL, findings TEXT NOT NULL, body BLOB NOT NULL
           )""",
        "CREATE INDEX records_by_time ON records (time)",
        "CREATE INDEX records_by_arm ON records (shadow, mode, class, seq)",
        "CREATE INDEX records_by_exchange ON records (exchange)",
        "CREATE TABLE footprints (id TEXT PRIMARY KEY, first_seen REAL NOT NULL, body TEXT NOT NULL) WITHOUT ROWID",
        """CREATE TABLE events (
             seq INTEGER PRIMARY KEY AUTOINCREMENT, time REAL NOT NULL, kind TEXT NOT NULL, detail TEXT NOT NULL
           )""",
        "CREATE TABLE state (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
    ),
    ("CREATE TABLE spooled (number INTEGER PRIMARY KEY)",),
    tallies.TABLES,
    (*kinds.TABLES, *hours.TABLES),
)
VERSION = len(MIGRATIONS)


def version(connection: sqlite3.Connection) -> int:
    """Read the version of an open file; 0 for an empty one. Raises sqlite3.Error."""
    known = connection.execute(
        "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'schema_version'"
    ).fetchone()
    if known is None:
        return 0
    row = connection.execute("SELECT * FROM schema_version").fetchone()
    if row is None or not isinstance(row[0], int) or row[0] < 1:
        raise sqlite3.DatabaseError("its table schema_version holds no version of ours: is this a record store?")
    return row[0]


def migrate(connection: sqlite3.Connection) -> int:
    """Bring an open file (autocommit mode) to ``VERSION``; return the version it had. Raises sqlite3.Error.

    A file of a later version is left as it is: the caller refuses it.
    """
    found = version(connection)
    for number in range(found, VERSION):
        connection.execute("BEGIN IMMEDIATE")
        try:
            if version(connection) != number:  # another process was faster while we waited for its lock
                connection.execute("COMMIT")
                continue
            if number == 0:
                connection.execute("CREATE TABLE schema_version (version INTEGER NOT NULL)")
                connection.execute("INSERT INTO schema_version VALUES (0)")
            for statement in MIGRATIONS[number]:
                connection.execute(statement)
            connection.execute("UPDATE schema_version SET version = ?", (number + 1,))
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
    return found
