"""How much of what there was in each hour: records by kind, conversations by scope and result. Kept when the records are gone.

House rules. Works inside the caller's transaction, so that an hour and what it counts are there together. Hours are of when the exchange began, in Unix hours. Nothing older
than ``KEPT_HOURS`` stays; kinds and reasons are few, so the tables are, too. Of what an earlier version has counted there are the hours of the rows that were left then.
"""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from proxy.compare.trial import Result
from proxy.ledger.kinds import Kind, Placed, number_of
from proxy.ledger.tallies import Cell, Counted, Numbered

HOUR = 3600
#: 92 days.
KEPT_HOURS = 92 * 24
#: Hours that a store's writer holds in memory, too, for a file that is lost.
HELD_HOURS = 7 * 24

#: Steps of the schema; see ``schema.MIGRATIONS``. ``first`` and ``last``: the lowest and highest number of the records counted.
TABLES = (
    """CREATE TABLE record_hours (
         hour INTEGER NOT NULL, kind INTEGER NOT NULL, n INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, PRIMARY KEY (hour, kind)
       ) WITHOUT ROWID""",
    """CREATE TABLE trial_hours (
         hour INTEGER NOT NULL, scope TEXT NOT NULL, result TEXT NOT NULL, reason TEXT NOT NULL, control_reason TEXT NOT NULL, n INTEGER NOT NULL,
         PRIMARY KEY (hour, scope, result, reason, control_reason)
       ) WITHOUT ROWID""",
    "INSERT INTO record_hours SELECT CAST(time / 3600 AS INTEGER), kind, COUNT(*), MIN(seq), MAX(seq) FROM listed GROUP BY 1, 2",
    """INSERT INTO trial_hours SELECT CAST(time / 3600 AS INTEGER), scope, result, reason, control_reason, COUNT(*) FROM trials
       GROUP BY 1, 2, 3, 4, 5""",
)
_RECORDS = (
    "INSERT INTO record_hours VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
    "n = n + excluded.n, first = MIN(first, excluded.first), last = MAX(last, excluded.last)"
)
_TRIALS = "INSERT INTO trial_hours VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET n = n + excluded.n"

#: The numbers of the records that were lost mean nothing in another file: 0, so that one looks from the beginning on.
_RECORDS_HELD = "INSERT INTO record_hours VALUES (?, ?, ?, 0, 0) ON CONFLICT DO UPDATE SET n = MAX(n, excluded.n)"
_TRIALS_HELD = "INSERT INTO trial_hours VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET n = MAX(n, excluded.n)"

_LAST = 1 << 50  # seconds: no clock shows them

_REPLIES = """SELECT hour, SUM(n), SUM(CASE WHEN k.outcome = 'diverged' THEN n ELSE 0 END), SUM(CASE WHEN k.class = 'genuine' THEN n ELSE 0 END)
                FROM record_hours JOIN kinds k ON k.id = kind WHERE hour >= ? AND k.mode = 'free' AND k.outcome != 'incomparable'
               GROUP BY hour ORDER BY hour"""

Read = Callable[[str, Sequence[object]], list[Any]]
#: (hour, scope, result, reason, control_reason)
TrialKey = tuple[int, str, str, str, str]


class Hourly(NamedTuple):
    """Records of one kind whose exchange began in one hour; ``hour`` is its beginning, Unix seconds."""

    hour: int
    kind: Kind
    n: int


class Conversations(NamedTuple):
    """Conversations of one cell of a verdict that began in one hour; ``scope``: the ``key`` of a ``Scope``; ``hour`` as above.

    ``ends``: Unix seconds by which they had all begun, where that is known better than by the hour; else 0.
    """

    hour: int
    scope: str
    cell: Cell
    n: int
    ends: int = 0

    @property
    def until(self) -> int:
        """Unix seconds by which they had all begun."""
        return self.ends or self.hour + HOUR


def put(connection: sqlite3.Connection, placed: Iterable[Placed]) -> None:
    """Count records just put in. Raises sqlite3.Error."""
    by: dict[tuple[int, int], list[int]] = {}
    for one in placed:
        by.setdefault((hour_of(one.time), one.number), []).append(one.seq)
    connection.executemany(_RECORDS, [(*key, len(seqs), min(seqs), max(seqs)) for key, seqs in by.items()])


def count(connection: sqlite3.Connection, fresh: Iterable[tuple[Numbered, Counted]]) -> Counter[TrialKey]:
    """Count conversations just counted; return how many of which. Raises sqlite3.Error."""
    counted: Counter[TrialKey] = Counter()
    for number, one in fresh:
        counted[hour_of(one.time), number.scope, one.result.value, one.by, one.control_by] += one.n
    connection.executemany(_TRIALS, [(*key, n) for key, n in counted.items()])
    return counted


def forget(connection: sqlite3.Connection, now: float) -> None:
    """Drop hours that are too old. Raises sqlite3.Error."""
    for table in ("record_hours", "trial_hours"):
        connection.execute(f"DELETE FROM {table} WHERE hour < ?", (hour_of(now) - KEPT_HOURS,))  # noqa: S608 - constants


def records(read: Read, since: float = 0.0) -> list[Hourly]:
    """Records by the hour and kind, oldest first, from the hour of ``since`` (Unix seconds) on; retention has taken none away. Raises StoreError."""
    rows = read(
        "SELECT h.hour, k.model, k.endpoint, k.shadow, k.mode, k.outcome, k.class, h.n FROM record_hours h JOIN kinds k ON k.id = h.kind "
        "WHERE h.hour >= ? ORDER BY h.hour",
        [hour_of(since)],
    )
    return [Hourly(row[0] * HOUR, Kind(*row[1:7]), row[7]) for row in rows]


def replies(read: Read, since: float = 0.0) -> list[tuple[int, int, int, int]]:
    """(beginning of the hour in Unix seconds, comparisons of replies of their own, those with a difference, those with a genuine one), oldest first, as ``records``. Raises StoreError."""
    rows = read(_REPLIES, [hour_of(since)])
    return [(row[0] * HOUR, *row[1:]) for row in rows]


def conversations(read: Read, since: float = 0.0) -> list[Conversations]:
    """Conversations towards verdicts by the hour, oldest first, from the hour of ``since`` on; those before are in the sums alone. Raises StoreError."""
    rows = read(
        "SELECT hour, scope, result, reason, control_reason, n FROM trial_hours WHERE hour >= ? ORDER BY hour",
        [hour_of(since)],
    )
    return [Conversations(row[0] * HOUR, row[1], Cell(Result(row[2]), row[3], row[4]), row[5]) for row in rows]


def hour_of(moment: float) -> int:
    """Return the Unix hour of a moment in Unix seconds."""
    return int(moment) // HOUR if 0.0 <= moment < _LAST else 0 if moment < 0.0 else _LAST // HOUR


class Held:
    """What a store's writer keeps in memory of the last ``HELD_HOURS``, for the next file if this one is lost."""

    def __init__(self) -> None:
        self._records: Counter[tuple[int, Kind]] = Counter()
        self._trials: Counter[TrialKey] = Counter()
        self._newest = 0

    def take(self, placed: Iterable[Placed], trials: Mapping[TrialKey, int]) -> None:
        """Add what a batch has added."""
        self._records.update([(hour_of(one.time), one.kind) for one in placed])
        self._trials.update(trials)
        now = hour_of(time.time())
        if now > self._newest:
            self._newest = now
            self._records = Counter({key: n for key, n in self._records.items() if key[0] >= now - HELD_HOURS})
            self._trials = Counter({key: n for key, n in self._trials.items() if key[0] >= now - HELD_HOURS})

    def load(self, connection: sqlite3.Connection) -> None:
        """Take what a file has. Raises sqlite3.Error."""
        since = [hour_of(time.time()) - HELD_HOURS]
        rows = connection.execute(
            "SELECT h.hour, k.model, k.endpoint, k.shadow, k.mode, k.outcome, k.class, h.n FROM record_hours h JOIN kinds k ON k.id = h.kind "
            "WHERE h.hour >= ?",
            since,
        )
        self._records = Counter({(row[0], Kind(*row[1:7])): row[7] for row in rows})
        trials = connection.execute("SELECT * FROM trial_hours WHERE hour >= ?", since)
        self._trials = Counter({tuple(row[:5]): row[5] for row in trials})

    def restore(self, connection: sqlite3.Connection) -> None:
        """Put it into a file that knows less. Raises sqlite3.Error."""
        rows = [(hour, number_of(connection, kind)[0], n) for (hour, kind), n in self._records.items()]
        connection.executemany(_RECORDS_HELD, rows)
        connection.executemany(_TRIALS_HELD, [(*key, n) for key, n in self._trials.items()])
