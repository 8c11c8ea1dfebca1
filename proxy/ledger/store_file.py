"""Opening the store's file: address to path, connection settings, and what is done with a damaged file.

House rules. A damaged file is never deleted at once: it is renamed beside the new one, and only the newest few such files stay (disk is
bounded). A reader never renames anything. Every failure is a ``StoreError``.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from proxy.ledger import schema, store_watch
from proxy.ledger.store_error import StoreError, translated
from proxy.logs import say

log = logging.getLogger("parhelion.store")

#: Files up to this size are checked whole when opened (about a second); damage in a larger one is found when a page is touched.
CHECKED_BYTES = 256 << 20
#: The journal is cut back to this after a checkpoint (SQLite makes one every 1000 pages, 4 MB, unless a reader holds an older state).
JOURNAL_BYTES = 8 << 20
#: What a connection keeps of the file in memory. SQLite's own 2 MB fill over half an hour where little is recorded, which looks like a leak; what is
#: not kept here the system's page cache has.
CACHE_BYTES = 512 << 10
#: How many damaged files are kept.
SET_ASIDE_KEPT = 2

_SQLITE = "sqlite:///"


def path_of(url: str) -> Path:
    """``sqlite:///relative.db`` or ``sqlite:////absolute/path.db`` as a path. Raises StoreError."""
    path = url.removeprefix(_SQLITE)
    if path == url or not path or path.endswith("/"):
        raise StoreError("url", url)
    return Path(path)


def connect(path: Path, *, create: bool, busy_seconds: float) -> sqlite3.Connection:
    """Open for writing and bring the schema up to date. Raises StoreError."""
    if not path.exists():
        if not create:
            raise StoreError("missing", path)
        _create_private(path)
    try:
        connection = _open(path, "rw", busy_seconds)
    except sqlite3.Error as error:
        raise translated(error, path) from None
    try:
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # takes effect in a new file only
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(
            "PRAGMA secure_delete = ON"
        )  # what was purged is gone: some builds leave it in the file's free space
        connection.execute(f"PRAGMA journal_size_limit = {JOURNAL_BYTES}")
        _bound(connection)
        _check(connection, path)
        found = schema.version(connection)
        if found > schema.VERSION:
            raise StoreError("newer", path)
        if 0 < found < schema.VERSION:  # half a minute for a million records
            say(
                log,
                logging.WARNING,
                "the record store is of an earlier version and is brought up to date",
                file=str(path),
            )
        schema.migrate(connection)
        store_watch.set_mark(connection)
    except sqlite3.Error as error:
        connection.close()
        raise translated(error, path) from None
    except BaseException:
        connection.close()
        raise
    return connection


def connect_or_set_aside(path: Path, *, create: bool, busy_seconds: float) -> sqlite3.Connection:
    """``connect``; a damaged file is set aside first and a new one begun. Raises StoreError."""
    try:
        return connect(path, create=create, busy_seconds=busy_seconds)
    except StoreError as error:
        if error.reason != "corrupt":
            raise
        set_aside(path, str(error))
    return connect(path, create=True, busy_seconds=busy_seconds)


def connect_read_only(path: Path, busy_seconds: float) -> sqlite3.Connection:
    """Open for reading. Raises StoreError: missing, older, newer, or what SQLite says."""
    if not path.exists():
        raise StoreError("missing", path)
    try:
        connection = _open(path, "ro", busy_seconds)
    except sqlite3.Error as error:
        raise translated(error, path) from None
    try:
        _bound(connection)
        found = schema.version(connection)
        if found > schema.VERSION:
            raise StoreError("newer", path)
        if found < schema.VERSION:  # the judge has yet to make its tables
            raise StoreError("older" if found else "missing", path)
    except sqlite3.Error as error:
        connection.close()
        raise translated(error, path) from None
    except BaseException:
        connection.close()
        raise
    return connection


def set_aside(path: Path, why: str) -> Path:
    """Rename a damaged file and its journal; return the new name. Raises StoreError when that cannot be done."""
    moved = path.with_name(f"{path.name}.corrupt-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}")
    number = 0
    while moved.exists():  # two in one second
        number += 1
        moved = moved.with_name(f"{moved.name.split('~')[0]}~{number}")
    try:
        for suffix in ("-wal", "-shm"):
            if (beside := path.with_name(path.name + suffix)).exists():
                beside.rename(moved.with_name(moved.name + suffix))
        path.rename(moved)
    except OSError as error:
        raise StoreError("corrupt", path, f"and it cannot be renamed: {error.strerror}") from None
    say(log, logging.ERROR, "the record store was damaged: set aside, and a new one begun", why=why, now=str(moved))
    _drop_oldest(path)
    return moved


def _drop_oldest(path: Path) -> None:
    kept = sorted(p for p in path.parent.glob(f"{path.name}.corrupt-*") if not p.name.endswith(("-wal", "-shm")))
    for old in kept[:-SET_ASIDE_KEPT]:
        for name in (old.name, old.name + "-wal", old.name + "-shm"):
            old.with_name(name).unlink(missing_ok=True)


def _create_private(path: Path) -> None:
    # Records may hold text: the file is the owner's alone from its first moment, and SQLite gives its journals the same mode.
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except FileNotFoundError:
        raise StoreError("cannot_open", path, "no such directory") from None
    except PermissionError:
        raise StoreError("read_only", path) from None
    except OSError as error:
        raise StoreError("cannot_open", path, error.strerror or "") from None


def _open(path: Path, mode: str, busy_seconds: float) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    # Transactions are ours to begin and end; the store's own lock keeps threads apart.
    return sqlite3.connect(uri, uri=True, timeout=busy_seconds, isolation_level=None, check_same_thread=False)


def _bound(connection: sqlite3.Connection) -> None:
    connection.execute(f"PRAGMA cache_size = {-(CACHE_BYTES >> 10)}")  # negative: in KiB and not in pages


def _check(connection: sqlite3.Connection, path: Path) -> None:
    if path.stat().st_size <= CHECKED_BYTES:
        said = connection.execute("PRAGMA quick_check(1)").fetchone()
        if said is None or said[0] != "ok":
            raise StoreError("corrupt", path, "the check of its structure failed")


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Run statements all or not at all. Raises sqlite3.Error."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
