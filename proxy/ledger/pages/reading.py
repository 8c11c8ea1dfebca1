"""What the Overview is made of, read once: counters, counts, the judge's snapshot, tallies, events, the newest grave records.

House rules. The only part of these pages that touches the disk; cheap at any number of records (indexes, sums, a few rows), and values when it returns.
What cannot be read is None, with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from proxy.config import Config
from proxy.counters import ENDPOINTS, Slot
from proxy.ledger import hours, known_file, series, verdicts
from proxy.ledger.conservation import Terms
from proxy.ledger.events import Event
from proxy.ledger.known import KnownError
from proxy.ledger.metrics import BY_NAME, PREFIX
from proxy.ledger.pages.hourly import HOURS, Bar, bars
from proxy.ledger.pages.quantiles import Spread, spread, together
from proxy.ledger.query import Filter
from proxy.ledger.search import search
from proxy.ledger.sources import Ledgers, open_ledgers
from proxy.ledger.store import Store
from proxy.ledger.store_error import StoreError

_GRAVEST = 6
_LOOKS = 2000
_EVENTS = 12
_EVENTS_SINCE = 30 * 86_400.0
_SINGLE = {
    "unreachable": Slot.PRIMARY_UNREACHABLE,
    "disconnects": Slot.CLIENT_DISCONNECTS,
    "refused": Slot.REFUSED_HEADS,
    "open_streams": Slot.OPEN_STREAMS,
    "connections": Slot.CLIENT_CONNECTIONS,
    "waiting_bytes": Slot.QUEUED_BYTES,
}


class Judge(Struct, frozen=True):
    """The judge's last word, and how old it is (seconds). ``first_token`` by arm; ``circuits``: shadows that are left alone now; ``errors`` by shadow and kind."""

    age: float
    first_token: dict[str, Spread]
    lag: Spread
    circuits: tuple[str, ...]
    errors: dict[str, dict[str, int]]
    spool_bytes: float | None
    spool_exchanges: float | None


class Stored(Struct, frozen=True):
    """What the store tells. ``verdicts`` by candidate, as in the report; ``events`` newest first; ``gravest``: newest genuine ones that nobody knows of, in short; ``hours``: the last ones."""

    used_bytes: int
    verdicts: dict[str, dict[str, Any]]
    events: list[Event]
    gravest: list[dict[str, Any]]
    hours: list[Bar] = []


class Seen(Struct, frozen=True):
    """Everything. ``store_error``: why ``stored`` is None. ``codes``: answers by status; ``duration`` and ``overhead`` in seconds."""

    config: Config
    terms: Terms
    codes: dict[int, int]
    single: dict[str, int]
    overhead: Spread
    duration: Spread
    judge: Judge | None
    stored: Stored | None
    store_error: str = ""
    store_reason: str = ""


def read(config: Config, now: float) -> Seen:
    """Read all of it. Raises OSError when the state directory cannot be read."""
    with open_ledgers(config) as found:
        stored, error = None, found.store_error
        if found.store is not None:
            try:
                stored = _stored(config, found.store, now)
            except StoreError as failed:
                error = failed
        counters = found.totals.counters
        codes: dict[int, int] = {}
        for _, code, n in counters.requests():
            codes[code] = codes.get(code, 0) + n
        duration = together(counters.duration_buckets(number) for number in range(len(ENDPOINTS)))
        return Seen(
            config,
            found.terms,
            codes,
            {name: found.totals[slot] for name, slot in _SINGLE.items()},
            spread(BY_NAME[PREFIX + "overhead_seconds"].buckets, *counters.overhead_buckets()),
            spread(BY_NAME[PREFIX + "request_duration_seconds"].buckets, *duration),
            _judge(found, now),
            stored,
            "" if error is None else str(error),
            "" if error is None else error.reason,
        )


def _stored(config: Config, store: Store, now: float) -> Stored:
    tallies = store.tallies()
    candidates = [one.name for one in config.shadows if one.role == "candidate"]
    return Stored(
        store.used_bytes(),
        {name: verdicts.shown(tallies, name, config) for name in candidates},
        store.events(now - _EVENTS_SINCE)[: -_EVENTS - 1 : -1],
        _gravest(config, store, now),
        bars(hours.replies(store.read, now - HOURS * hours.HOUR), now),
    )


def _gravest(config: Config, store: Store, now: float) -> list[dict[str, Any]]:
    """Return the newest records with a genuine difference that nobody has marked as known, newest first."""
    try:
        hidden = [rule.match.columns() for rule in known_file.load(config).in_force(now)]
    except KnownError:  # the list of divergences says so
        hidden = []
    wanted = Filter(difference="genuine", limit=_GRAVEST, newest_first=True)
    return [
        {
            "id": row.summary.id,
            "time": row.time,
            "shadow": row.kind.shadow,
            "role": row.summary.role,
            "mode": row.kind.mode,
            "model": row.summary.model,
            "endpoint": row.kind.endpoint,
            "class": row.kind.difference,
            "tokens": None if (parted := row.summary.gravest) is None else (parted.primary.text, parted.shadow.text),
        }
        for row in search(store.read, wanted, hidden, looks=_LOOKS).rows
    ]


def _judge(found: Ledgers, now: float) -> Judge | None:
    snapshot = found.snapshot
    if snapshot is None:
        return None
    circuits = _points(snapshot, "shadow_circuit_open")
    errors: dict[str, dict[str, int]] = {}
    for (shadow, kind), value in _points(snapshot, "shadow_errors_total").items():
        errors.setdefault(shadow, {})[kind] = int(value)
    lag = _spreads(snapshot, "mirror_lag_seconds")
    return Judge(
        max(0.0, now - snapshot.time),
        {arm: one for (arm,), one in _spreads(snapshot, "time_to_first_token_seconds").items()},
        lag.get((), Spread(0)),
        tuple(sorted(shadow for (shadow,), value in circuits.items() if value)),
        errors,
        _points(snapshot, "spool_bytes").get(()),
        _points(snapshot, "spool_exchanges").get(()),
    )


def _points(snapshot: series.Snapshot, name: str) -> Mapping[series.Labels, float]:
    return {labels: point.value for labels, point in snapshot.points.get(PREFIX + name, {}).items()}


def _spreads(snapshot: series.Snapshot, name: str) -> dict[series.Labels, Spread]:
    edges = BY_NAME[PREFIX + name].buckets
    kept = snapshot.histograms.get(PREFIX + name, {})
    return {
        labels: spread(edges, one.counts, one.sum) for labels, one in kept.items() if len(one.counts) == len(edges) + 1
    }
