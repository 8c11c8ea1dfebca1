"""A replay's report: the same as of live traffic, from the replay's own store.

House rules. Counts nothing itself but lines: what became of each request is the store's to say.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from proxy.config import Config
from proxy.ledger.conservation import ArmTerms, Terms
from proxy.ledger.reconcile import Arm
from proxy.ledger.report import build_report
from proxy.ledger.store import Key, Store

_ENDS = ("compared", "incomparable", "shed")


def terms(received: int, planned: int, counts: Mapping[Key, int], arms: Collection[Arm]) -> Terms:
    """Put together what the law of conservation speaks of: lines of the file, lines chosen, and how they ended."""
    return Terms(received, received - planned, planned, 0, {arm: _arm(planned, counts, arm) for arm in arms})


def _arm(planned: int, counts: Mapping[Key, int], arm: Arm) -> ArmTerms:
    ended: dict[str, dict[str, int]] = {name: {} for name in _ENDS}
    for key, n in counts.items():
        if (key.shadow, key.mode) == arm and key.outcome in ended:
            ended[key.outcome][key.reason] = n
    compared = sum(ended["compared"].values())
    left = planned - compared - sum(ended["incomparable"].values()) - sum(ended["shed"].values())
    return ArmTerms(
        compared, ended["incomparable"], ended["shed"], open=0, queued=0, unsettled=left, held=None, residual=0
    )


def report(
    config: Config, store: Store, *, received: int, planned: int, command: str, now: float, told: Mapping[str, Any]
) -> dict[str, Any]:
    """Build the report (``parhelion.report/1``); ``told`` is what it says of the replay itself, under ``replay``. Raises StoreError."""
    arms = [Arm(shadow.name, mode) for shadow in config.shadows for mode in shadow.modes]
    found = build_report(config, store, terms(received, planned, store.counts(), arms), command=command, now=now)
    return found | {"replay": dict(told)}
