"""What lists find records by: a small row for each record (``listed``), its kind as a number, its findings as rows of their own.

A kind is what a record has in common with many: model, endpoint, shadow, mode, outcome, class. There are a few hundred at most, so that any choice among them is a set
of numbers, and records of each are found through one index, newest or oldest first. House rules. Works inside the caller's transaction. Kinds stay few whatever clients send:
past ``MODELS_SEEN`` models a new one is ``other`` here, and its name stands in the row alone.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import NamedTuple

import msgspec
from msgspec import Struct

from proxy.compare.comparison import Flip, TokenRef
from proxy.ledger.labels import MODELS_SEEN, OTHER
from proxy.ledger.query import COLUMNS, gravest_flip
from proxy.ledger.record import Record

#: Steps of the schema; see ``schema.MIGRATIONS``. Rows of records from before have no ``summary``: theirs is read off the record.
TABLES = (
    """CREATE TABLE kinds (
         id INTEGER PRIMARY KEY, model TEXT NOT NULL, endpoint TEXT NOT NULL, shadow TEXT NOT NULL, mode TEXT NOT NULL, outcome TEXT NOT NULL,
         class TEXT NOT NULL, UNIQUE (model, endpoint, shadow, mode, outcome, class)
       )""",
    "CREATE TABLE listed (seq INTEGER PRIMARY KEY, kind INTEGER NOT NULL, time REAL NOT NULL, summary BLOB)",
    "CREATE TABLE found (finding TEXT NOT NULL, kind INTEGER NOT NULL, seq INTEGER NOT NULL, time REAL NOT NULL, PRIMARY KEY (finding, kind, seq)) WITHOUT ROWID",
    "CREATE TABLE details (seq INTEGER PRIMARY KEY, body BLOB NOT NULL)",
    """CREATE TRIGGER records_gone AFTER DELETE ON records BEGIN
         DELETE FROM listed WHERE seq = old.seq; DELETE FROM details WHERE seq = old.seq;
       END""",
    """INSERT INTO kinds (model, endpoint, shadow, mode, outcome, class)
         SELECT DISTINCT model, endpoint, shadow, mode, outcome, class FROM (
           SELECT CASE WHEN model IN (SELECT model FROM records GROUP BY model ORDER BY COUNT(*) DESC, model LIMIT 50) THEN model ELSE 'other' END AS model,
                  endpoint, shadow, mode, outcome, class FROM records)""",
    """INSERT INTO listed (seq, kind, time)
         SELECT r.seq, k.id, r.time FROM records r JOIN kinds k
             ON k.model = CASE WHEN r.model IN (SELECT model FROM kinds) THEN r.model ELSE 'other' END
            AND k.endpoint = r.endpoint AND k.shadow = r.shadow AND k.mode = r.mode AND k.outcome = r.outcome AND k.class = r.class""",
    """INSERT OR IGNORE INTO found
         SELECT word.value, l.kind, r.seq, r.time FROM records r JOIN listed l ON l.seq = r.seq,
                json_each('["' || replace(trim(r.findings), ' ', '","') || '"]') word
          WHERE trim(r.findings) != ''""",
    "CREATE INDEX listed_by_kind ON listed (kind, seq, time)",
    "DROP INDEX records_by_arm",
)  # fmt: skip
_KIND = (
    "SELECT id FROM kinds WHERE model = ? AND endpoint = ? AND shadow = ? AND mode = ? AND outcome = ? AND class = ?"
)
_NEW = "INSERT INTO kinds (model, endpoint, shadow, mode, outcome, class) VALUES (?, ?, ?, ?, ?, ?)"
_MODELS = "SELECT DISTINCT model FROM kinds"
_UNUSED = """DELETE FROM kinds WHERE NOT EXISTS (SELECT 1 FROM listed WHERE kind = kinds.id)
             AND id NOT IN (SELECT kind FROM record_hours)"""


class Kind(NamedTuple):
    """What records of one kind have in common. ``difference``: the gravest class, "" without one."""

    model: str
    endpoint: str
    shadow: str
    mode: str
    outcome: str
    difference: str


class Difference(Struct, frozen=True, array_like=True):
    """A difference in short: in which choice, at which token (from 0), of which class; the gap in nats; both arms' tokens."""

    choice: int
    index: int
    kind: str
    gap: float | None
    primary: TokenRef
    shadow: TokenRef


class Summary(Struct, frozen=True, array_like=True):
    """A record in short, beside its kind and time; see ``listing.brief``, which these are the values of."""

    id: str
    exchange: str
    role: str
    model: str
    incomparable: str | None
    findings: tuple[str, ...]
    tokens_compared: int
    flips: int
    conversation: str
    first: Difference | None = None
    gravest: Difference | None = None


class Placed(NamedTuple):
    """A record as it was put in: under which number, of which kind (and that one's number), begun when (Unix seconds)."""

    seq: int
    number: int
    kind: Kind
    time: float


_KIND_OF = itemgetter(*map(COLUMNS.index, ("model", "endpoint", "shadow", "mode", "outcome", "class")))
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Summary)


def kind_of(columns: Sequence[object]) -> Kind:
    """Return the kind of a record with these columns (``query.columns``)."""
    return Kind._make(map(str, _KIND_OF(columns)))


def summary_of(record: Record, *, differing: bool = True) -> Summary:
    """Return a record in short. ``differing``: False where it is known to have no difference of any class."""
    comparison = record.comparison
    first = None
    if differing:
        first = next(((choice.index, choice.first) for choice in comparison.choices if choice.first is not None), None)
    return Summary(
        record.id,
        record.exchange,
        record.role,
        record.model,
        comparison.incomparable,
        comparison.findings,
        sum([choice.compared for choice in comparison.choices]),
        sum([len(choice.flips) for choice in comparison.choices]),
        record.conversation,
        _difference(first),
        _difference(gravest_flip(comparison)) if differing else None,
    )


def _difference(found: tuple[int, Flip] | None) -> Difference | None:
    if found is None:
        return None
    choice, flip = found
    return Difference(choice, flip.index, flip.kind.value, flip.gap, flip.primary, flip.shadow)


def decode(summary: bytes) -> Summary:
    """Read a row's ``summary``. Raises msgspec.MsgspecError."""
    return _decoder.decode(summary)


def put(connection: sqlite3.Connection, records: Iterable[tuple[int, Record, Sequence[object]]]) -> list[Placed]:
    """Add the rows of records just put in, each with its number and its columns. Raises sqlite3.Error."""
    known: dict[Kind, tuple[int, Kind]] = {}
    placed: list[Placed] = []
    rows: list[tuple[object, ...]] = []
    found: list[tuple[object, ...]] = []
    for seq, record, columns in records:
        kind = kind_of(columns)
        if kind not in known:
            known[kind] = number_of(connection, kind)
        number, counted = known[kind]
        placed.append(Placed(seq, number, counted, record.time))
        rows.append((seq, number, record.time, _encoder.encode(summary_of(record, differing=bool(kind.difference)))))
        found += [(finding, number, seq, record.time) for finding in record.comparison.findings]
    connection.executemany("INSERT INTO listed VALUES (?, ?, ?, ?)", rows)
    connection.executemany("INSERT OR IGNORE INTO found VALUES (?, ?, ?, ?)", found)
    return placed


def number_of(connection: sqlite3.Connection, kind: Kind) -> tuple[int, Kind]:
    """Return a kind's number, a new one if need be, and the kind that it is counted as. Raises sqlite3.Error."""
    there = connection.execute(_KIND, kind).fetchone()
    if there is None:
        models = {model for (model,) in connection.execute(_MODELS)}
        if kind.model not in models and len(models - {OTHER}) >= MODELS_SEEN:
            kind = kind._replace(model=OTHER)
            there = connection.execute(_KIND, kind).fetchone()
    if there is None:
        there = (connection.execute(_NEW, kind).lastrowid,)
    return int(there[0]), kind


def forget(connection: sqlite3.Connection) -> None:
    """Drop what of records deleted since is left, and kinds that nothing is of any more. Raises sqlite3.Error."""
    oldest = connection.execute("SELECT MIN(seq) FROM records").fetchone()[0]
    finding = ""
    while (
        after := connection.execute("SELECT MIN(finding) FROM found WHERE finding > ?", (finding,)).fetchone()[0]
    ) is not None:
        finding = after
        for (kind,) in connection.execute("SELECT id FROM kinds").fetchall():
            gone = "DELETE FROM found WHERE finding = ? AND kind = ? AND seq < ?"
            connection.execute(gone, (finding, kind, 2**63 - 1 if oldest is None else oldest))
    connection.execute(_UNUSED)
