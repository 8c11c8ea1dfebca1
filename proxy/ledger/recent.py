"""The report that pages show: over the newest records, made in the background, kept until it is too old.

A report over all records takes minutes at a million, and nobody waits for a page that long. The counts and the verdict in it are of all conversations nevertheless: they
come from sums. House rules. The event loop never waits for the making: who asks gets the last one, and a newer one is begun when that is too old.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

from msgspec import Struct

from proxy.config import Config
from proxy.ledger.query import Filter
from proxy.ledger.report import build_report
from proxy.ledger.sources import open_ledgers
from proxy.ledger.store_error import StoreError
from proxy.logs import say

log = logging.getLogger("parhelion.admin")

#: Records that it is made of at most.
RECORDS = 20_000
_FRESH = 10.0  # seconds for which one is good enough
_FIRST = 2.0  # seconds that the first who asks may wait


class Recent(Struct, frozen=True):
    """``report``: as in ``build_report``; ``as_of``: Unix seconds; ``records``: of how many it is made, ``of`` how many there are."""

    report: dict[str, Any]
    as_of: float
    records: int
    of: int


class _Kept:
    """One store's last report, and the making of the next."""

    def __init__(self) -> None:
        self.last: Recent | None = None
        self.tried = -1e9  # on the monotonic clock
        self.making: asyncio.Future[None] | None = None

    async def latest(self, config: Config) -> Recent | None:
        if (self.making is None or self.making.done()) and time.monotonic() >= self.tried + _FRESH:
            self.tried = time.monotonic()
            self.making = asyncio.get_running_loop().run_in_executor(None, self._make, config)
        if self.last is None and self.making is not None:
            await asyncio.wait([self.making], timeout=_FIRST)
        return self.last

    def _make(self, config: Config) -> None:
        try:
            self.last = make(config, time.time()) or self.last
        except (StoreError, OSError) as error:
            say(log, logging.WARNING, "the report for pages cannot be made", error=type(error).__name__)


_kept: dict[str, _Kept] = {}


async def latest(config: Config) -> Recent | None:
    """Return the last report there is, and see to it that there will be a newer one; None while there is none. Call on the event loop."""
    return await _kept.setdefault(config.records.url, _Kept()).latest(config)


def make(config: Config, now: float) -> Recent | None:
    """Make one; None where there is no store. Raises StoreError, OSError."""
    with open_ledgers(config) as found:
        if found.store is None:
            return None
        of = int(found.store.read("SELECT COUNT(*) FROM listed")[0][0])
        report = build_report(
            config, found.store, found.terms, command="report", now=now, wanted=Filter(newest=RECORDS)
        )
        return Recent(report, now, report["records"], of)
