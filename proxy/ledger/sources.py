"""One replica's ledgers, opened together for reading: counters, counts and the judge's last snapshot.

House rules. Read-only, and in an order in which a thing settled meanwhile shows as in flight and never as negative: the store first, then
the counters. What cannot be read is None, with the reason; nothing here waits for a judge.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from proxy.config import Config
from proxy.ledger import series, totals
from proxy.ledger.conservation import Terms, conservation
from proxy.ledger.judge_metrics import SNAPSHOT
from proxy.ledger.metrics import PREFIX
from proxy.ledger.reconcile import Arm
from proxy.ledger.series import Snapshot
from proxy.ledger.store import Key, Store
from proxy.ledger.store_error import StoreError
from proxy.ledger.totals import Totals


class Ledgers(Struct):
    """What there is. ``store_error``: why ``store`` is None. ``terms`` take the counts of a missing store as 0."""

    terms: Terms
    totals: Totals
    snapshot: Snapshot | None
    store: Store | None
    store_error: StoreError | None


@contextmanager
def open_ledgers(config: Config) -> Iterator[Ledgers]:
    """Open everything that ``config`` names; valid inside the ``with``. Raises OSError when the state directory cannot be read."""
    state = Path(config.state)
    store, counts, error = _store(config.records.url)
    try:
        snapshot = _snapshot(state / SNAPSHOT)
        arms = [Arm(shadow.name, mode) for shadow in config.shadows for mode in shadow.modes]
        with totals.read(state / "counters") as summed:
            terms = conservation(summed, counts, arms, _held(snapshot))
            yield Ledgers(terms, summed, snapshot, store, error)
    finally:
        if store is not None:
            store.close()


def _store(url: str) -> tuple[Store | None, dict[Key, int], StoreError | None]:
    try:
        store = Store.open_read_only(url)
    except StoreError as error:
        return None, {}, error
    try:
        return store, store.counts(), None
    except StoreError as error:
        store.close()
        return None, {}, error


def _snapshot(path: Path) -> Snapshot | None:
    try:
        return series.decode(path.read_bytes())
    except (OSError, msgspec.MsgspecError):
        return None


def _held(snapshot: Snapshot | None) -> dict[Arm, int] | None:
    if snapshot is None:
        return None
    points = snapshot.points.get(PREFIX + "judge_in_flight", {})
    return {Arm(*labels): int(point.value) for labels, point in points.items()}
