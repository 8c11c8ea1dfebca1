"""What of a store its writer also holds in memory, so that a file lost under way costs its records and nothing else.

The sum of all counts is what conservation rests on; a judge that forgot it with the file would show everything ever settled as in flight.
House rules. Kept up only with what has been committed. A count only grows and has one writer: of two numbers for one key the higher is right.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from proxy.ledger import tallies
from proxy.ledger.batch import Count, Written
from proxy.ledger.hours import Held
from proxy.ledger.tallies import Tallies

_HIGHER = (
    "INSERT INTO counts (incarnation, shadow, mode, outcome, reason, n) VALUES (?, ?, ?, ?, ?, ?) "
    "ON CONFLICT DO UPDATE SET n = MAX(n, excluded.n)"
)


class Keepsake:
    """Counts by (incarnation, shadow, mode, outcome, reason), the ``state`` values, the footprints, what of the spool is settled, the sums of the verdicts, the last hours."""

    def __init__(self) -> None:
        self.counts: dict[Count, int] = {}
        self._state: dict[str, bytes] = {}
        self._footprints: dict[str, tuple[str, float, str]] = {}
        self._spooled: set[int] = set()
        self._tallies: Tallies = {}
        self._hours = Held()

    def take(self, written: Written, state: Mapping[str, bytes]) -> None:
        """Add what a batch has added."""
        tallies.add(self._tallies, written.fresh)
        self._hours.take(written.placed, written.trial_hours)
        self._spooled.update(written.spooled)
        for key, n in written.counted.items():
            self.counts[key] = self.counts.get(key, 0) + n
        self.take_state(state)

    def take_state(self, state: Mapping[str, bytes]) -> None:
        """Add ``state`` values."""
        self._state |= state

    def forget_spooled(self, first: int, last: int) -> None:
        """Drop numbers that no file of the spool holds any more."""
        self._spooled = {number for number in self._spooled if not first <= number <= last}

    def take_footprint(self, row: tuple[str, float, str]) -> None:
        """Add a footprint, as stored; the first stays."""
        self._footprints.setdefault(row[0], row)

    def load(self, connection: sqlite3.Connection) -> None:
        """Take everything from a file. Raises sqlite3.Error."""
        self.counts = {tuple(row[:5]): row[5] for row in connection.execute("SELECT * FROM counts")}
        self._state = dict(connection.execute("SELECT key, value FROM state"))
        self._spooled = {row[0] for row in connection.execute("SELECT number FROM spooled")}
        self._tallies = tallies.load(connection)
        self._hours.load(connection)
        self._footprints = {row[0]: row for row in connection.execute("SELECT id, first_seen, body FROM footprints")}

    def restore(self, connection: sqlite3.Connection) -> None:
        """Put everything into a file that knows less, inside the caller's transaction. Raises sqlite3.Error."""
        connection.executemany(_HIGHER, [(*key, n) for key, n in self.counts.items()])
        connection.executemany("INSERT OR REPLACE INTO state VALUES (?, ?)", list(self._state.items()))
        connection.executemany("INSERT OR IGNORE INTO footprints VALUES (?, ?, ?)", list(self._footprints.values()))
        connection.executemany("INSERT OR IGNORE INTO spooled VALUES (?)", [(number,) for number in self._spooled])
        tallies.restore(connection, self._tallies)
        self._hours.restore(connection)
        self.load(connection)
