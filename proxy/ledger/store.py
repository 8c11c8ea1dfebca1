"""The record store on SQLite: what the judge commits, and what everybody else reads.

House rules. One writer (the judge), any number of readers beside it (WAL). One batch is one transaction: a count and its record are
there together or not at all. What ``settle`` has returned from survives the death of the process (``synchronous=NORMAL`` in WAL mode:
not the loss of power, which may take the last transactions but never the file's consistency). Every failure is a ``StoreError``.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self

import msgspec

from proxy.ledger import detail, events, query, retention, store_file, tallies
from proxy.ledger.batch import write
from proxy.ledger.bounds import bounded_values
from proxy.ledger.detail import Detail
from proxy.ledger.events import Event
from proxy.ledger.keepsake import Keepsake
from proxy.ledger.query import Filter
from proxy.ledger.reconcile import SETTLED, Arm, adopt, ended, reconcile
from proxy.ledger.record import Record, Settlement
from proxy.ledger.store_error import StoreError, translated
from proxy.ledger.store_file import transaction
from proxy.ledger.store_watch import Watch
from proxy.ledger.tallies import Fresh, Numbered, Tallies
from proxy.logs import say

log = logging.getLogger("parhelion.store")

_BATCH = 500  # records read at a time: no reader holds a snapshot (and the WAL) for longer than one batch
_LOOK_EVERY = 1.0  # seconds between two looks at whether the file is still there
_OVER = 1.1  # a file so many times its bound is to be purged at once
_decoder = msgspec.msgpack.Decoder(Record)


class Key(NamedTuple):
    """What is counted: ``outcome`` and ``reason`` as in ``Settlement``."""

    shadow: str
    mode: str
    outcome: str
    reason: str


class Store:
    """An open store; ``open`` for the judge, ``open_read_only`` for everybody else. Its methods may be called from any thread."""

    def __init__(self, path: Path, connection: sqlite3.Connection, *, busy_seconds: float, writes: bool) -> None:
        self.path = path
        self._connected: sqlite3.Connection | None = connection
        self._busy_seconds = busy_seconds
        self._writes = writes
        self._lock = threading.RLock()
        self._reasons: dict[str, set[str]] = {}
        self._kept = Keepsake()
        self._watch: Watch | None = None
        self._look_at = 0.0
        self._lost = ""

    @classmethod
    def open(cls, url: str, *, create: bool = True, busy_seconds: float = 5.0) -> Store:
        """Open for writing. A damaged file is set aside and a new one begun, with a line in the log. Raises StoreError."""
        path = store_file.path_of(url)
        for last in (False, True):
            connection = store_file.connect_or_set_aside(path, create=create or last, busy_seconds=busy_seconds)
            store = cls(path, connection, busy_seconds=busy_seconds, writes=True)
            try:
                store._begin()
            except (ValueError, TypeError) as error:  # damage that SQLite does not see: no number where sums are
                store.close()
                if last:
                    raise
                store_file.set_aside(path, f"its sums cannot be read ({type(error).__name__})")
            except BaseException:
                store.close()
                raise
            else:
                break
        return store

    @classmethod
    def open_read_only(cls, url: str, *, busy_seconds: float = 5.0) -> Store:
        """Open for reading; the file must exist and be of this version. Raises StoreError."""
        path = store_file.path_of(url)
        return cls(path, store_file.connect_read_only(path, busy_seconds), busy_seconds=busy_seconds, writes=False)

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            if self._connected is not None:
                self._connected.close()
            self._connected = None
            if self._watch is not None:  # after the connection: see there
                self._watch.close()
            self._watch = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def settle(self, batch: Sequence[Settlement], *, state: Mapping[str, bytes] | None = None) -> Fresh:
        """Commit a batch: its counts, its records, its trials and the given ``state`` values, all or nothing; return the trials that were not there before.

        A record whose id is already there is left alone and its settlement is not counted again. A file found damaged is set aside
        and the batch goes into a new one. Raises StoreError; then nothing of the batch is kept, and ``shed_of`` gives what to count.
        """
        with self._lock:
            try:
                return self._settle(batch, state or {})
            except StoreError as error:
                self._look_at = 0.0
                if error.reason != "corrupt" or not self._writes:
                    raise
                self._lose("damaged")
                store_file.set_aside(self.path, str(error))  # whatever a check of its structure would say
                self._begin_anew()
                return self._settle(batch, state or {})

    def _settle(self, batch: Sequence[Settlement], state: Mapping[str, bytes]) -> Fresh:
        with self._transaction() as connection:
            written = write(connection, batch, state, self._reasons)
        self._kept.take(written, state)
        return written.fresh

    def reconcile(
        self, handed_over: Mapping[str, int], arms: Collection[Arm], in_flight: Mapping[str, int] | None = None
    ) -> dict[tuple[str, Arm], int]:
        """Count as shed what was handed over and never settled; see ``proxy.ledger.reconcile``. Raises StoreError.

        ``handed_over`` is each incarnation's own count (``totals.handed_over``), ``arms`` the shadows and modes configured now.
        """
        with self._transaction() as connection:
            missing = reconcile(connection, handed_over, arms, in_flight)
            self._kept.load(connection)
            return missing

    def adopt(self, arms: Collection[Arm]) -> None:
        """Account for arms that came under way; see ``proxy.ledger.reconcile``. Raises StoreError."""
        with self._transaction() as connection:
            adopt(connection, arms)
            self._kept.load(connection)

    def settled(self, incarnation: str) -> dict[Arm, int]:
        """How many exchanges of an incarnation have ended for each arm, those a rule declined included. Raises StoreError."""
        statement = "SELECT shadow, mode, outcome, SUM(n) FROM counts WHERE incarnation = ? GROUP BY 1, 2, 3"
        found = ended(self.read(statement, [incarnation]))
        return {arm: n + found.declined for arm, n in found.arms.items()}

    def counts(self) -> dict[Key, int]:
        """Everything ever settled, over all incarnations, by arm and as decided for all of them. Raises StoreError."""
        rows = self.read(
            "SELECT shadow, mode, outcome, reason, SUM(n) FROM counts WHERE outcome != ? GROUP BY 1, 2, 3, 4", [SETTLED]
        )
        return {Key(*row[:4]): row[4] for row in rows}

    def records(self, wanted: Filter | None = None) -> Iterator[Record]:
        """Yield the records that fit, in the order of their settling (or its reverse), read in small batches beside the writer.

        Raises StoreError, and KeyError when the record named by ``after`` is not (or no longer) kept.
        """
        wanted = wanted or Filter()
        terms, values = query.where(wanted)
        sign, order = ("<", "DESC") if wanted.newest_first else (">", "ASC")
        statement = f"SELECT seq, body FROM records WHERE seq {sign} ? AND {terms} ORDER BY seq {order} LIMIT ?"  # noqa: S608 - constants
        at = self._start(wanted)
        left = wanted.limit
        while left is None or left > 0:
            size = _BATCH if left is None else min(left, _BATCH)
            rows = self.read(statement, [at, *values, size])
            for seq, body in rows:
                at = seq
                if (record := self._decode(seq, body)) is not None:
                    yield record
            left = None if left is None else left - len(rows)
            if len(rows) < size:
                return

    def _start(self, wanted: Filter) -> int:
        if wanted.after is None:
            return 2**63 - 1 if wanted.newest_first else 0
        rows = self.read("SELECT seq FROM records WHERE id = ?", [wanted.after])
        if not rows:
            raise KeyError(wanted.after)
        return int(rows[0][0])

    def _decode(self, seq: int, body: bytes) -> Record | None:
        try:
            return _decoder.decode(body)
        except msgspec.MsgspecError:
            say(log, logging.WARNING, "a record cannot be read and is left out", row=seq, file=str(self.path))
            return None

    def record(self, id: str) -> Record | None:  # noqa: A002 - the contract's word
        """One record; None when it is not kept. Raises StoreError."""
        rows = self.read("SELECT seq, body FROM records WHERE id = ?", [id])
        return self._decode(*rows[0]) if rows else None

    def detail(self, id: str) -> Detail | None:  # noqa: A002 - the contract's word
        """What is kept beside one record; None when that is nothing. Raises StoreError."""
        rows = self.read("SELECT d.seq, d.body FROM records r JOIN details d ON d.seq = r.seq WHERE r.id = ?", [id])
        try:
            return detail.unpack(rows[0][1]) if rows else None
        except ValueError:
            say(log, logging.WARNING, "a record's detail cannot be read", row=rows[0][0], file=str(self.path))
            return None

    def spooled(self) -> set[int]:
        """Numbers under which the spool may still hold what is settled. Raises StoreError."""
        return {number for (number,) in self.read("SELECT number FROM spooled")}

    def forget_spooled(self, first: int, last: int) -> None:
        """Drop a range of numbers that the spool holds no more. Raises StoreError."""
        with self._lock:
            with self._transaction() as connection:
                connection.execute("DELETE FROM spooled WHERE number BETWEEN ? AND ?", (first, last))
            self._kept.forget_spooled(first, last)

    def put_footprint(self, id: str, fields: Mapping[str, Any], time: float) -> None:  # noqa: A002 - the contract's word
        """Keep a stack's footprint (plain JSON values) under its id; the first time stays. Raises StoreError."""
        row = (id, time, msgspec.json.encode(bounded_values(fields)).decode())
        with self._lock:
            with self._transaction() as connection:
                connection.execute("INSERT INTO footprints VALUES (?, ?, ?) ON CONFLICT DO NOTHING", row)
            self._kept.take_footprint(row)

    def footprint(self, id: str) -> dict[str, Any] | None:  # noqa: A002 - the contract's word
        """Look a footprint up by its id; None for one that is damaged, too. Raises StoreError."""
        rows = self.read("SELECT body FROM footprints WHERE id = ?", [id])
        with suppress(msgspec.MsgspecError):
            return msgspec.json.decode(rows[0][0], type=dict[str, Any]) if rows else None
        return None

    def tallies(self) -> Tallies:
        """Sums over all conversations ever counted. Raises StoreError."""
        with self._lock, self._sqlite():
            return tallies.load(self._connection)

    def trials(self, after: int) -> list[Numbered]:
        """Trials counted after a number, in their order, as far as they are kept. Raises StoreError."""
        return tallies.numbered(self.read("SELECT seq, scope, result FROM trials WHERE seq > ? ORDER BY seq", [after]))

    def add_event(self, event: Event, state: Mapping[str, bytes] | None = None) -> None:
        """Keep an event, and ``state`` values with it; the newest ten thousand stay. Raises StoreError."""
        with self._lock:
            with self._transaction() as connection:
                events.add(connection, event)
                connection.executemany("INSERT OR REPLACE INTO state VALUES (?, ?)", list((state or {}).items()))
            self._kept.take_state(state or {})

    def events(self, since: float = 0.0) -> list[Event]:
        """Events since a Unix time, oldest first. Raises StoreError."""
        return events.read(self.read(events.SINCE, [since]))

    def get_state(self, key: str) -> bytes | None:
        """Read a value kept for the judge's next life (see ``settle``). Raises StoreError."""
        rows = self.read("SELECT value FROM state WHERE key = ?", [key])
        return rows[0][0] if rows else None

    def purge(self, now: float, keep: float, max_bytes: int, told: Callable[[int], object] = int) -> int:
        """Delete records older than ``keep`` seconds, then the oldest until the file is below ``max_bytes``; counts stay.

        Returns how many records went. The freed pages are given back to the file system. All in short transactions: another process that writes is not kept waiting.
        ``told`` hears of each how many records it took. Raises StoreError.
        """
        gone = 0
        steps = partial(retention.older_than, before=now - keep), partial(retention.above, max_bytes=max_bytes)
        for step in steps:
            rows = 1
            while rows:
                with self._transaction() as connection:
                    records, rows = step(connection)
                gone += records
                told(records)
        with self._transaction() as connection:
            retention.tidy(connection, now)
        with self._lock, self._sqlite():
            retention.give_back(self._connection)
        return gone

    def over(self, max_bytes: int) -> bool:
        """Whether file and journal are more than a tenth over ``max_bytes``: ``purge`` should not wait. Cheap; does ``check`` first. Raises StoreError."""
        self.check()
        journal = self.path.with_name(self.path.name + "-wal")
        try:
            beside = journal.stat().st_size if journal.exists() else 0
            if self.path.stat().st_size + beside <= max_bytes * _OVER:
                return False
        except OSError:  # gone since: for the next ``check`` to deal with
            return False
        return self.used_bytes() + beside > max_bytes * _OVER

    def used_bytes(self) -> int:
        """Bytes of the file that hold something. Raises StoreError."""
        with self._lock, self._sqlite():
            return retention.used_bytes(self._connection)

    def _learn_reasons(self) -> None:
        self._reasons = {}
        for outcome, reason in self.read(
            "SELECT DISTINCT outcome, reason FROM counts WHERE reason NOT IN ('', 'other')"
        ):
            self._reasons.setdefault(outcome, set()).add(reason)

    def check(self) -> None:
        """See that the file is still there and still ours, at most once a second; every writing method does so first.

        A file that was deleted, replaced, truncated or overwritten is let go of, and what is at the path is used or begun anew. Counts,
        state and footprints are put into it from memory; the records of the lost file are lost. Raises StoreError while that cannot be done.
        """
        with self._lock:
            if self._connected is None and self._lost:
                self._begin_anew()
            elif self._watch is not None and time.monotonic() >= self._look_at:
                self._look_at = time.monotonic() + _LOOK_EVERY
                if (what := self._watch.lost()) is not None:
                    self._lose(what)
                    self._begin_anew()

    def _lose(self, what: str) -> None:
        say(log, logging.ERROR, "the record store was lost under way", how=what, file=str(self.path))
        self.close()
        self._lost = what

    def _begin_anew(self) -> None:
        self._connected = store_file.connect_or_set_aside(self.path, create=True, busy_seconds=self._busy_seconds)
        try:
            with self._sqlite(), transaction(self._connection) as connection:
                self._kept.restore(connection)
                events.add(connection, Event(time.time(), "store_lost", {"how": self._lost}))
            self._begin()
        except BaseException:
            self.close()
            raise
        say(log, logging.WARNING, "a record store was begun anew; all counts are kept", file=str(self.path))
        self._lost = ""

    def _begin(self) -> None:
        with self._sqlite():
            self._kept.load(self._connection)
            try:
                self._watch = Watch(self.path, self._connection)
            except OSError as error:
                raise StoreError("cannot_open", self.path, error.strerror or "") from None
        self._learn_reasons()

    @property
    def _connection(self) -> sqlite3.Connection:
        if self._connected is None:
            raise StoreError("cannot_open", self.path, f"it was {self._lost}" if self._lost else "it is closed")
        return self._connected

    def read(self, statement: str, values: Sequence[object] = ()) -> list[Any]:
        """Run a SELECT, for those that ask what no method does. Raises StoreError."""
        with self._lock, self._sqlite():
            return self._connection.execute(statement, tuple(values)).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock, self._sqlite():
            self.check()
            with transaction(self._connection) as connection:
                yield connection

    @contextmanager
    def _sqlite(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise translated(error, self.path) from None
