"""Conversations that count towards a verdict: each once, as a row of ``trials``, and the sums over them, ``tallies``, that outlive the rows.

House rules. Works inside the caller's transaction. Whether a conversation was counted before is decided by the table and nowhere else: its two keys are unique within
a scope, a sum grows only with a row. Sums are never purged; they are of one pair of stacks and one control each, and add up over replicas.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from msgspec import Struct

from proxy.compare.confidence_sequence import Shares
from proxy.compare.trial import UNKNOWN_FLIP, Result, names_a_fault
from proxy.compare.verdict import Tally

#: Steps of the schema; see ``schema.MIGRATIONS``.
TABLES = (
    """CREATE TABLE trials (
         seq INTEGER PRIMARY KEY AUTOINCREMENT, scope TEXT NOT NULL, unit TEXT NOT NULL, prompt TEXT NOT NULL, time REAL NOT NULL,
         result TEXT NOT NULL, reason TEXT NOT NULL, control_reason TEXT NOT NULL,
         UNIQUE (scope, unit), UNIQUE (scope, prompt)
       )""",
    "CREATE INDEX trials_by_time ON trials (time)",
    """CREATE TABLE tallies (
         candidate TEXT NOT NULL, primary_footprint TEXT NOT NULL, candidate_footprint TEXT NOT NULL, control TEXT NOT NULL,
         control_footprint TEXT NOT NULL, result TEXT NOT NULL, reason TEXT NOT NULL, control_reason TEXT NOT NULL,
         n INTEGER NOT NULL, first REAL NOT NULL, last REAL NOT NULL,
         PRIMARY KEY (candidate, primary_footprint, candidate_footprint, control, control_footprint, result, reason, control_reason)
       ) WITHOUT ROWID""",
    """CREATE TABLE variations (
         candidate TEXT NOT NULL, primary_footprint TEXT NOT NULL, candidate_footprint TEXT NOT NULL, control TEXT NOT NULL,
         control_footprint TEXT NOT NULL, bin INTEGER NOT NULL, n INTEGER NOT NULL, downs INTEGER NOT NULL, ups INTEGER NOT NULL,
         PRIMARY KEY (candidate, primary_footprint, candidate_footprint, control, control_footprint, bin)
       ) WITHOUT ROWID""",
)
_DAY = 86400.0
#: A clock that is ahead by less is not taken for wrong: what was counted as lost carries its day alone, and may have waited for the store.
_AHEAD = 7 * _DAY
_BEFORE = 1.0  # seconds; less than any two stacks are apart
_TRIAL = "INSERT OR IGNORE INTO trials (scope, unit, prompt, time, result, reason, control_reason) VALUES (?, ?, ?, ?, ?, ?, ?)"
AFTER = "SELECT seq, scope, result FROM trials WHERE seq > ? ORDER BY seq"
_PLACES = ", ".join("?" * 11)
_ADD = (
    f"INSERT INTO tallies VALUES ({_PLACES}) ON CONFLICT DO UPDATE SET "  # noqa: S608 - constants
    "n = n + excluded.n, first = MIN(first, excluded.first), last = MAX(last, excluded.last)"
)
_HIGHER = _ADD.replace("n + excluded.n", "MAX(n, excluded.n)")
_RETIME = "UPDATE tallies SET last = ? WHERE candidate = ? AND last > ?"
_VARY = (
    "INSERT INTO variations VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
    "n = n + excluded.n, downs = downs + excluded.downs, ups = ups + excluded.ups"
)
_VARIED = "INSERT OR REPLACE INTO variations VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"


class Scope(NamedTuple):
    """Of whom a tally is: a candidate, the footprint ids of the primary and its own, and the control ("" without one) with its footprint id."""

    candidate: str
    primary: str
    shadow: str
    control: str = ""
    control_footprint: str = ""

    @property
    def key(self) -> str:
        """A short name for all five."""
        return _key(self)


@lru_cache(64)
def _key(scope: Scope) -> str:
    return hashlib.blake2b("\0".join(scope).encode(), digest_size=12).hexdigest()


class Counted(Struct, frozen=True):
    """One conversation's result on its way into the store.

    ``variation``: see ``trial.variation``; counted with the rest, where there is one.
    ``unit`` and ``prompt``: keyed hashes, with the day in them where a day counts; ``time``: when the exchange began, Unix seconds. ``by``, ``control_by``: see ``Trial``.
    Without a ``unit`` nobody knows which conversations they were: ``n`` are added to the sum, and there is no row.
    """

    scope: Scope
    unit: str
    prompt: str
    time: float
    result: Result
    by: str = ""
    control_by: str = ""
    n: int = 1
    variation: float | None = None


class Numbered(NamedTuple):
    """A trial as it was counted: in which order (0 without a row), for which scope (its ``key``)."""

    seq: int
    scope: str
    result: Result


#: Trials that were not there before, in their order.
Fresh = list[tuple[Numbered, Counted]]


class Cell(NamedTuple):
    """What is counted apart within a scope."""

    result: Result
    by: str
    control_by: str


class Sum(NamedTuple):
    """How many conversations, and when the first and the last of them began (Unix seconds)."""

    n: int
    first: float
    last: float

    def and_(self, other: Sum) -> Sum:
        """Return both together."""
        return Sum(self.n + other.n, min(self.first, other.first), max(self.last, other.last))


class Tallied(Struct):
    """Everything counted in one scope. ``variations``: how those of ``trial.variation`` are distributed."""

    cells: dict[Cell, Sum]
    variations: Shares = Shares()

    def retime(self, now: float) -> None:
        """Take back what a clock that was ahead has said of the last conversation: it was before this moment, Unix seconds."""
        for cell, one in self.cells.items():
            if one.last > now + _AHEAD:
                self.cells[cell] = one._replace(last=now - _BEFORE)

    def add(self, cell: Cell, more: Sum) -> None:
        """Count more of a kind."""
        self.cells[cell] = self.cells[cell].and_(more) if cell in self.cells else more

    @property
    def first(self) -> float:
        """When the first conversation began."""
        return min(one.first for one in self.cells.values())

    @property
    def last(self) -> float:
        """When the last one began."""
        return max(one.last for one in self.cells.values())

    def tally(self, *, controlled: bool) -> Tally:
        """The counts that a verdict rests on."""
        by = dict.fromkeys(Result, 0)
        for cell, one in self.cells.items():
            by[cell.result] += one.n
        worse, better, both, neither, missing = (by[result] for result in Result)
        apart = [0, 0]  # by whether the candidate was bad
        for cell, one in self.cells.items():
            if cell.result is Result.MISSING and cell.control_by == UNKNOWN_FLIP:
                apart[names_a_fault(cell.by)] += one.n
        return Tally(worse, better, both, neither, missing, controlled, *apart)


Tallies = dict[Scope, Tallied]


def lost(trials: Iterable[Counted], why: str) -> tuple[Counted, ...]:
    """Return what to count of trials that cannot be kept: as many missing ones, by the day and without keys, so that any number of them is one value."""
    return tuple(
        Counted(one.scope, "", "", one.time // _DAY * _DAY, Result.MISSING, why, n=one.n) if one.unit else one
        for one in trials
    )


def count(connection: sqlite3.Connection, trials: Iterable[Counted]) -> Fresh:
    """Count those that have not been counted; return them in their order. Raises sqlite3.Error."""
    fresh: Fresh = []
    for one in trials:
        key = one.scope.key
        seq = 0
        if one.unit:
            row = (key, one.unit, one.prompt, one.time, one.result.value, one.by, one.control_by)
            done = connection.execute(_TRIAL, row)
            if done.rowcount <= 0 or done.lastrowid is None:
                continue
            seq = done.lastrowid
        fresh.append((Numbered(seq, key, one.result), one))
    more = _summed(fresh)  # a batch has many of a kind, and a statement for each would cost more than its row
    # What comes now was counted last: stacks that were there a week later were so by a clock that was ahead, and would be the latest until then.
    connection.executemany(_RETIME, [(now - _BEFORE, name, now + _AHEAD) for name, now in _latest(more).items()])
    connection.executemany(_ADD, list(_rows(more)))
    for scope, tallied in more.items():
        connection.executemany(_VARY, _bins(scope, tallied.variations))
    return fresh


def add(tallies: Tallies, counted: Iterable[tuple[Numbered, Counted]]) -> None:
    """Add to sums in memory what ``count`` has added to the table."""
    found = _summed(counted)
    latest = _latest(found)
    for scope, tallied in tallies.items():
        if scope.candidate in latest:
            tallied.retime(latest[scope.candidate])
    for scope, more in found.items():
        tallied = tallies.setdefault(scope, Tallied({}))
        for cell, one in more.cells.items():
            tallied.add(cell, one)
        if more.variations.total:
            tallied.variations += more.variations


def _latest(tallies: Tallies) -> dict[str, float]:
    """When each candidate's last conversation began."""
    found: dict[str, float] = {}
    for scope, tallied in tallies.items():
        found[scope.candidate] = max(tallied.last, found.get(scope.candidate, tallied.last))
    return found


def _summed(counted: Iterable[tuple[Numbered, Counted]]) -> Tallies:
    kinds: dict[tuple[str, Result, str, str], list[Counted]] = {}
    for number, one in counted:
        kinds.setdefault((number.scope, one.result, one.by, one.control_by), []).append(one)
    found: Tallies = {}
    for (_, result, by, control_by), alike in kinds.items():
        tallied = found.setdefault(alike[0].scope, Tallied({}))
        times = [one.time for one in alike]
        tallied.cells[Cell(result, by, control_by)] = Sum(sum([one.n for one in alike]), min(times), max(times))
        if varied := [one.variation for one in alike if one.variation is not None]:
            tallied.variations += Shares.of(varied)
    return found


def results(tallies: Tallies, candidate: str) -> dict[Result, int]:
    """How often each result came for a candidate, over all its stacks."""
    found = dict.fromkeys(Result, 0)
    for scope, tallied in tallies.items():
        if scope.candidate == candidate:
            for cell, one in tallied.cells.items():
                found[cell.result] += one.n
    return found


def load(connection: sqlite3.Connection) -> Tallies:
    """Read all sums. Raises sqlite3.Error."""
    found = _read(connection.execute("SELECT * FROM tallies"))
    for row in connection.execute("SELECT * FROM variations"):
        if (tallied := found.get(Scope(*row[:5]))) is not None:
            tallied.variations += Shares.placed(*row[5:])
    return found


def _read(rows: Iterable[tuple[str | float, ...]]) -> Tallies:
    found: Tallies = {}
    for row in rows:
        cell = Cell(Result(str(row[5])), str(row[6]), str(row[7]))
        found.setdefault(Scope(*map(str, row[:5])), Tallied({})).add(
            cell, Sum(int(row[8]), float(row[9]), float(row[10]))
        )
    return found


def numbered(rows: Iterable[tuple[int, str, str]]) -> list[Numbered]:
    """Read (seq, scope, result) of ``trials``."""
    return [Numbered(seq, scope, Result(result)) for seq, scope, result in rows]


def restore(connection: sqlite3.Connection, tallies: Tallies) -> None:
    """Put sums into a file that knows less. Raises sqlite3.Error."""
    connection.executemany(_HIGHER, list(_rows(tallies)))
    for scope, tallied in tallies.items():
        connection.executemany(_VARIED, _bins(scope, tallied.variations))


def _rows(tallies: Tallies) -> Iterator[tuple[str | float, ...]]:
    for scope, tallied in tallies.items():
        for cell, one in tallied.cells.items():
            yield (*scope, cell.result.value, cell.by, cell.control_by, *one)


def _bins(scope: Scope, shares: Shares) -> list[tuple[str | int, ...]]:
    columns = zip(shares.counts, shares.downs, shares.ups, strict=True)
    return [(*scope, place, *one) for place, one in enumerate(columns) if one[0]]
