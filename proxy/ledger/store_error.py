"""What can go wrong with the store, said once: a bounded reason, and what to do about it.

House rules. Every ``sqlite3.Error`` that leaves the store is a ``StoreError``; its text names the file and the remedy and never a value
that was being written.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

#: reason -> what to do. The reasons are labels: add, never rename.
REMEDIES = {
    "locked": "another process holds its lock: let one judge write it, and end what else has it open for writing",
    "full": "the disk or its quota is full: free space, or lower records.max_bytes or records.keep",
    "read_only": "it cannot be written: give this user write permission on the file and its directory",
    "io": "reading or writing failed: look at the disk and the kernel log",
    "cannot_open": "it cannot be opened: check records.url, and that its directory exists and belongs to this user",
    "corrupt": "its content is damaged: the judge sets such a file aside and starts anew; restore it from a backup if need be",
    "newer": "it was written by a later version of parhelion: install that version, or point records.url to another file",
    "older": "it was written by an earlier version of parhelion: `parhelion serve` brings it up to date when it starts",
    "missing": "there is none yet: start `parhelion serve` first, or correct records.url",
    "url": "records.url must look like sqlite:///relative.db or sqlite:////absolute/path.db",
    "failed": "SQLite refused; the reason is above",
}

_REASONS = {
    sqlite3.SQLITE_BUSY: "locked",
    sqlite3.SQLITE_LOCKED: "locked",
    sqlite3.SQLITE_FULL: "full",
    sqlite3.SQLITE_READONLY: "read_only",
    sqlite3.SQLITE_PERM: "read_only",
    sqlite3.SQLITE_IOERR: "io",
    sqlite3.SQLITE_CANTOPEN: "cannot_open",
    sqlite3.SQLITE_CORRUPT: "corrupt",
    sqlite3.SQLITE_NOTADB: "corrupt",
}


class StoreError(Exception):
    """The store cannot do what was asked; ``reason`` is a key of ``REMEDIES``."""

    def __init__(self, reason: str, where: str | Path, detail: str = "") -> None:
        said = f" ({detail})" if detail else ""
        super().__init__(f"record store {where}{said}: {REMEDIES[reason]}")
        self.reason = reason


def translated(error: sqlite3.Error, path: Path) -> StoreError:
    """Make the ``StoreError`` that says what SQLite said."""
    code = getattr(error, "sqlite_errorcode", None)
    reason = "failed" if code is None else _REASONS.get(code & 0xFF, "failed")
    return StoreError(reason, path, str(error))
