"""Whether the file that a store has open is still the one at its path, and still a store.

SQLite does not notice: it goes on in a file that was deleted, and reads what it has cached of one that was truncated. House rules. A look is a few
``stat`` calls and one read of 100 bytes. The file is opened once and closed after the connection: POSIX drops all locks of a process on a file
with the first descriptor that it closes ("How To Corrupt An SQLite Database File", section 2.2).
"""

from __future__ import annotations

import os
import secrets
import sqlite3
from pathlib import Path

_MAGIC = b"SQLite format 3\x00"
_HEADER = 100  # bytes; https://www.sqlite.org/fileformat2.html#the_database_header
_BESIDE = ("-wal", "-shm")


def set_mark(connection: sqlite3.Connection) -> None:
    """Give a new file a number of its own (``user_version``), so that another store copied over it is noticed. Raises sqlite3.Error."""
    if connection.execute("PRAGMA user_version").fetchone()[0] == 0:
        connection.execute(f"PRAGMA user_version = {1 + secrets.randbelow(2**31 - 1)}")
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()


class Watch:
    """Watches the file of an open connection; ``close`` after the connection."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        """Begin. Raises OSError and sqlite3.Error."""
        self._path = path
        self._file = os.open(path, os.O_RDONLY)
        try:
            mark = int(connection.execute("PRAGMA user_version").fetchone()[0])
            # A mark that is still in the journal alone is in the file later.
            self._marks = {mark, _mark(os.pread(self._file, _HEADER, 0))}
            self._beside = {suffix: _inode(path.with_name(path.name + suffix)) for suffix in _BESIDE}
        except BaseException:
            os.close(self._file)
            raise

    def lost(self) -> str | None:
        """Say what has become of the file: deleted, replaced, truncated, overwritten, journal (one of SQLite's two beside it). None: nothing."""
        try:
            there = _inode(self._path)
            own = os.fstat(self._file)
            header = os.pread(self._file, _HEADER, 0)
            beside = {suffix: _inode(self._path.with_name(self._path.name + suffix)) for suffix in _BESIDE}
        except OSError:  # for the store to say, when it next reads or writes
            return None
        if there is None:
            return "deleted"
        if there != (own.st_dev, own.st_ino):
            return "replaced"
        if len(header) < _HEADER or _bytes_promised(header) > own.st_size:
            return "truncated"
        if not header.startswith(_MAGIC) or _mark(header) not in self._marks:
            return "overwritten"
        return None if beside == self._beside else "journal"

    def close(self) -> None:
        """Let go."""
        os.close(self._file)


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino


def _mark(header: bytes) -> int:
    return int.from_bytes(header[60:64], "big", signed=True)


def _bytes_promised(header: bytes) -> int:
    """The size that a header speaks of; 0 where it does not (the page count holds only if it is as old as the last change)."""
    if not header.startswith(_MAGIC) or header[24:28] != header[92:96]:
        return 0
    size = int.from_bytes(header[16:18], "big")
    return int.from_bytes(header[28:32], "big") * (1 << 16 if size == 1 else size)
