"""Records found for a list: whatever is asked, by an index, in a bounded number of looks, newest or oldest first.

House rules. Most of a question is about kinds, of which there are few: it is answered in memory, and the records of those kinds are merged in the order of their settling. What only a
row can say (a time within an hour, a finding that hides it) is looked at row by row, ``LOOKS`` at most; where that is not enough the answer says how far it came, and how to go on.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from proxy.ledger.bounds import MODEL, short
from proxy.ledger.hours import hour_of
from proxy.ledger.kinds import Kind, Summary, decode, summary_of
from proxy.ledger.labels import OTHER
from proxy.ledger.query import Filter
from proxy.ledger.record import Record

#: Rows that one search looks at, at most.
LOOKS = 20_000
_PIECES = (32, 512)  # rows asked for at a time: at first, and at most
_LAST = 2**63 - 1
_record = msgspec.msgpack.Decoder(Record)

Read = Callable[[str, Sequence[object]], list[Any]]
#: What hides a record: values by the name of a column (``kinds``', ``finding``, ``id``), all of which it has.
Hidden = Mapping[str, str]


class Row(NamedTuple):
    """A record in a list. ``time``: when its exchange began, Unix seconds."""

    seq: int
    time: float
    kind: Kind
    summary: Summary


class Page(Struct, frozen=True):
    """``next``: the id to go on after, None at the end. ``searched_to``: where the search stopped before there were enough: the time of the last record looked at, Unix seconds."""

    rows: tuple[Row, ...] = ()
    next: str | None = None
    searched_to: float | None = None


_FINDING = "EXISTS (SELECT 1 FROM found f WHERE f.finding = ? AND f.kind = l.kind AND f.seq = l.seq)"
_MODEL = "EXISTS (SELECT 1 FROM records r WHERE r.seq = l.seq AND r.model = ?)"
#: What a kind does not say, as SQL on the row ``l``.
_ON_ROW = {"finding": _FINDING, "model": _MODEL, "id": "l.seq = (SELECT seq FROM records WHERE id = ?)"}


class _Bounds(NamedTuple):
    """Numbers between which records are looked for, both excluded."""

    low: int
    high: int


class _Looked(NamedTuple):
    """A row that was looked at; ``fits``: whether it is wanted."""

    seq: int
    kind: int
    fits: bool


def search(read: Read, wanted: Filter, hidden: Sequence[Hidden] = (), *, looks: int = LOOKS) -> Page:
    """Find records that fit and that nothing hides, at most ``wanted.limit`` (default 100). ``read`` is that of a ``Store``.

    Raises StoreError, and KeyError when the record named by ``after`` is not (or no longer) kept.
    """
    limit = wanted.limit or 100
    kinds = {
        row[0]: Kind(*row[1:])
        for row in read("SELECT id, model, endpoint, shadow, mode, outcome, class FROM kinds", [])
    }
    bounds = _bounds(read, wanted)
    rows = _Rows(read, wanted, hidden)
    if wanted.exchange is not None:
        found = rows.of_exchange(kinds, bounds, wanted.exchange)
    else:
        places = _places(read, wanted, {number for number, kind in kinds.items() if rows.may_be(kind)}, bounds)
        streams = [rows.of_kind(number, kinds[number], place) for number, place in places.items()]
        found = heapq.merge(*streams, key=lambda one: one.seq, reverse=wanted.newest_first)
    fitting: list[_Looked] = []
    last: _Looked | None = None
    for last in islice(found, looks // rows.costs(kinds.values())):
        if last.fits:
            fitting.append(last)
            if len(fitting) > limit:
                return _page(read, kinds, fitting[:limit], fitting[limit - 1])
    if last is not None and next(found, None) is not None:
        page = _page(read, kinds, fitting, last)
        at = read("SELECT time FROM listed WHERE seq = ?", [last.seq])
        return msgspec.structs.replace(page, searched_to=at[0][0] if at else None)
    return _page(read, kinds, fitting, None)


def _bounds(read: Read, wanted: Filter) -> _Bounds:
    low, high = 0, _LAST
    if wanted.newest is not None:
        oldest = read("SELECT seq FROM listed ORDER BY seq DESC LIMIT 1 OFFSET ?", [wanted.newest])
        low = oldest[0][0] if oldest else 0
    if wanted.after is None:
        return _Bounds(low, high)
    at = read("SELECT seq FROM records WHERE id = ?", [wanted.after])
    if not at:
        raise KeyError(wanted.after)
    return _Bounds(low, min(high, at[0][0])) if wanted.newest_first else _Bounds(max(low, at[0][0]), high)


def _places(read: Read, wanted: Filter, kinds: set[int], bounds: _Bounds) -> dict[int, _Bounds]:
    """Return by kind where its records of the wanted time are: what settled in the order of its beginning lies close together."""
    if wanted.since is None and wanted.until is None:
        return dict.fromkeys(kinds, bounds)
    hours = [
        0 if wanted.since is None else hour_of(wanted.since),
        _LAST if wanted.until is None else hour_of(wanted.until),
    ]
    rows = read("SELECT kind, MIN(first), MAX(last) FROM record_hours WHERE hour BETWEEN ? AND ? GROUP BY kind", hours)
    return {
        kind: _Bounds(max(bounds.low, first - 1), min(bounds.high, last + 1))
        for kind, first, last in rows
        if kind in kinds
    }


class _Rows:
    """Reads rows in pieces and says of each whether it is wanted."""

    def __init__(self, read: Read, wanted: Filter, hidden: Sequence[Hidden]) -> None:
        self._read, self._wanted, self._hidden = read, wanted, hidden
        self._model = None if wanted.model is None else short(wanted.model, MODEL)

    def may_be(self, kind: Kind) -> bool:
        """Whether records of a kind can be wanted."""
        wanted = self._wanted
        asked = (
            (wanted.endpoint, kind.endpoint),
            (wanted.shadow, kind.shadow),
            (wanted.mode, kind.mode),
            (wanted.outcome, kind.outcome),
            (wanted.difference, kind.difference),
        )
        if any(value is not None and value != own for value, own in asked):
            return False
        if self._model is not None and kind.model not in (self._model, OTHER):
            return False
        if wanted.differing and not (kind.difference or kind.outcome == "diverged"):
            return False
        return all(_on_row(one, kind) != [] for one in self._hidden)

    def of_kind(self, number: int, kind: Kind, place: _Bounds) -> Iterator[_Looked]:
        """Yield the rows of a kind in the wanted order."""
        finding, newest_first = self._wanted.finding, self._wanted.newest_first
        source, by = ("listed", "kind = ?") if finding is None else ("found", "finding = ? AND kind = ?")
        fits, values = self._condition(kind)
        values += [number] if finding is None else [finding, number]
        order = "DESC" if newest_first else "ASC"
        statement = (
            f"SELECT seq, {fits} FROM {source} l WHERE {by} AND seq > ? AND seq < ? ORDER BY seq {order} LIMIT ?"  # noqa: S608 - constants
        )
        size = _PIECES[0]
        low, high = place
        while low < high:
            rows = self._read(statement, [*values, low, high, size])
            yield from (_Looked(seq, number, bool(fit)) for seq, fit in rows)
            if len(rows) < size:
                return
            low, high = (low, rows[-1][0]) if newest_first else (rows[-1][0], high)
            size = min(size * 2, _PIECES[1])

    def of_exchange(self, kinds: Mapping[int, Kind], place: _Bounds, exchange: str) -> Iterator[_Looked]:
        """Yield the rows of one exchange: a few, one for each shadow and mode."""
        statement = "SELECT l.seq, l.kind FROM records r JOIN listed l USING (seq) WHERE r.exchange = ? AND l.seq > ? AND l.seq < ?"
        for seq, number in sorted(self._read(statement, [exchange, *place]), reverse=self._wanted.newest_first):
            fits, values = self._condition(kinds[number])
            if self._wanted.finding is not None:
                fits, values = f"({fits}) AND {_FINDING}", [*values, self._wanted.finding]
            look = f"SELECT {fits} FROM listed l WHERE seq = ?"  # noqa: S608 - constants
            fit = self.may_be(kinds[number]) and any(row[0] for row in self._read(look, [*values, seq]))
            yield _Looked(seq, number, fit)

    def _condition(self, kind: Kind) -> tuple[str, list[object]]:
        """Return what only a row can say, as SQL on the row ``l``, and its parameters."""
        terms: list[str] = []
        values: list[object] = []
        wanted = self._wanted
        if wanted.since is not None:
            terms.append("l.time >= ?")
            values.append(wanted.since)
        if wanted.until is not None:
            terms.append("l.time < ?")
            values.append(wanted.until)
        if self._model is not None and kind.model == OTHER:
            terms.append(_MODEL)
            values.append(self._model)
        for one in self._hidden:
            if (by_row := _on_row(one, kind)) is not None:
                terms.append(f"NOT ({' AND '.join(_ON_ROW[name] for name, _ in by_row)})")
                values += [value for _, value in by_row]
        return " AND ".join(terms) or "1", values

    def costs(self, kinds: Iterable[Kind]) -> int:
        """Return how many indexes are asked for one look, at most."""
        return 1 + max((sum(_on_row(one, kind) is not None for one in self._hidden) for kind in kinds), default=0)


def _on_row(hidden: Hidden, kind: Kind) -> list[tuple[str, str]] | None:
    """Return what a row of a kind must have to be hidden, [] where all of them are; None where none is."""
    own = {
        "shadow": kind.shadow,
        "mode": kind.mode,
        "endpoint": kind.endpoint,
        "outcome": kind.outcome,
        "class": kind.difference,
    }
    left = [(name, value) for name, value in hidden.items() if name not in own]
    if any(hidden[name] != value for name, value in own.items() if name in hidden):
        return None
    if "model" in hidden and kind.model != OTHER:
        if hidden["model"] != kind.model:
            return None
        left = [(name, value) for name, value in left if name != "model"]
    return left


def _page(read: Read, kinds: Mapping[int, Kind], found: Sequence[_Looked], last: _Looked | None) -> Page:
    """Read what is shown. ``last``: after which to go on; None: there is no more."""
    statement = f"SELECT seq, time, summary FROM listed WHERE seq IN ({', '.join('?' * len(found))})"  # noqa: S608 - constants
    there = read(statement, [one.seq for one in found]) if found else []
    by_seq = {seq: (time, summary) for seq, time, summary in there}
    rows = []
    for one in found:
        time, packed = by_seq.get(one.seq, (0.0, b""))
        summary = _in_short(read, one.seq, packed)
        if summary is not None:  # else purged meanwhile
            rows.append(Row(one.seq, time, kinds[one.kind]._replace(model=summary.model), summary))
    if last is None:
        return Page(tuple(rows))
    at = read("SELECT id FROM records WHERE seq = ?", [last.seq])
    return Page(tuple(rows), at[0][0] if at else None)


def _in_short(read: Read, seq: int, packed: bytes | None) -> Summary | None:
    """Return a row's summary, from the record itself where there is none or it is damaged; None where the record is gone or cannot be read either."""
    if packed is not None:
        with suppress(msgspec.MsgspecError, TypeError, ValueError):
            return decode(packed)
    return _summary(read, seq)


def _summary(read: Read, seq: int) -> Summary | None:
    """Read what a record from an earlier version would have in its row; None where it cannot be read."""
    try:
        return next(
            (summary_of(_record.decode(body)) for (body,) in read("SELECT body FROM records WHERE seq = ?", [seq])),
            None,
        )
    except msgspec.MsgspecError:
        return None
