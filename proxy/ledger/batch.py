"""A batch of settlements into the tables: counts, records and what lists find them by, conversations towards verdicts.

House rules. Works inside the caller's transaction; what it returns is true once that is committed. A record whose id is already there is left alone, and its settlement
counts nowhere a second time.
"""

from __future__ import annotations

import logging
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from proxy.ledger import hours, kinds, query, tallies
from proxy.ledger.bounds import bounded
from proxy.ledger.detail import Detail, pack
from proxy.ledger.hours import TrialKey
from proxy.ledger.kinds import Placed
from proxy.ledger.labels import reason as bounded_reason
from proxy.ledger.reconcile import COUNT
from proxy.ledger.record import Record, Settlement
from proxy.ledger.tallies import Fresh
from proxy.logs import say

log = logging.getLogger("parhelion.store")

_encoder = msgspec.msgpack.Encoder()
_INSERT = (
    f"INSERT INTO records ({', '.join(query.COLUMNS)}, body) VALUES ({', '.join('?' * len(query.COLUMNS))}, ?) "  # noqa: S608 - constants
    "ON CONFLICT (id) DO NOTHING"
)

Count = tuple[str, str, str, str, str]


class Written(NamedTuple):
    """What a batch has added: counts by (incarnation, shadow, mode, outcome, reason), records, numbers of the spool, trials."""

    counted: Mapping[Count, int]
    placed: Sequence[Placed]
    spooled: Sequence[int]
    fresh: Fresh
    trial_hours: Mapping[TrialKey, int]


def write(
    connection: sqlite3.Connection,
    batch: Sequence[Settlement],
    state: Mapping[str, bytes],
    reasons: dict[str, set[str]],
) -> Written:
    """Write a batch and ``state`` values; ``reasons``: those known, by outcome, which it adds to. Raises sqlite3.Error."""
    counted: Counter[Count] = Counter()
    put: list[tuple[int, Record, Sequence[object]]] = []
    for one in batch:
        if one.record is not None and not _insert(connection, one, one.record, put):
            continue
        if not one.outcome:
            continue
        reason = bounded_reason(reasons.setdefault(one.outcome, set()), one.reason)
        counted[one.incarnation, one.shadow, one.mode, one.outcome, reason] += 1
    placed = kinds.put(connection, put)
    hours.put(connection, placed)
    connection.executemany(COUNT, [(*key, n) for key, n in counted.items()])
    connection.executemany("INSERT OR REPLACE INTO state VALUES (?, ?)", list(state.items()))
    spooled = [one.spooled for one in batch if one.spooled is not None]
    connection.executemany("INSERT OR IGNORE INTO spooled VALUES (?)", [(number,) for number in spooled])
    fresh = tallies.count(connection, [trial for one in batch for trial in one.trials])
    return Written(counted, placed, spooled, fresh, hours.count(connection, fresh))


def _insert(
    connection: sqlite3.Connection, one: Settlement, record: Record, put: list[tuple[int, Record, Sequence[object]]]
) -> bool:
    """Insert a record and its detail, with its number into ``put``; whether its settlement is to be counted: not when the record was there before."""
    try:
        record = bounded(record)
        columns = query.columns(record)
        done = connection.execute(_INSERT, (*columns, _encoder.encode(record)))
    except (UnicodeEncodeError, OverflowError, sqlite3.DataError) as error:
        if isinstance(error, sqlite3.DatabaseError) and error.sqlite_errorcode != sqlite3.SQLITE_TOOBIG:
            raise
        say(log, logging.WARNING, "a record cannot be stored and is counted only", error=type(error).__name__)
        return True
    if done.rowcount <= 0 or done.lastrowid is None:
        return False
    put.append((done.lastrowid, record, columns))
    if one.detail is not None:
        _insert_detail(connection, done.lastrowid, one.detail)
    return True


def _insert_detail(connection: sqlite3.Connection, seq: int, detail: Detail) -> None:
    try:
        connection.execute("INSERT OR REPLACE INTO details VALUES (?, ?)", (seq, pack(detail)))
    except (UnicodeEncodeError, OverflowError, sqlite3.DataError) as error:
        if isinstance(error, sqlite3.DatabaseError) and error.sqlite_errorcode != sqlite3.SQLITE_TOOBIG:
            raise
        say(log, logging.WARNING, "a record is stored without its detail", error=type(error).__name__)
