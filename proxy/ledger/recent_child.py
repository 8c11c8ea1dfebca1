"""The process that makes a report for pages: ``python -m proxy.ledger.recent_child``, a configuration in, the report out, the end.

House rules. It takes what nobody else wants of the processor, holds a bounded part of the store in memory, and ends with whoever started it.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
import time

import msgspec

from proxy.config import Config
from proxy.ledger.query import Filter
from proxy.ledger.recent import BYTES, RECORDS, Recent
from proxy.ledger.report import build_report
from proxy.ledger.sources import open_ledgers
from proxy.ledger.store import Store

_PR_SET_PDEATHSIG = 1  # prctl(2)


def make(config: Config, now: float) -> Recent | None:
    """Make one; None where there is no store. Raises StoreError, OSError."""
    with open_ledgers(config) as found:
        if found.store is None:
            return None
        of = int(found.store.read("SELECT COUNT(*) FROM listed")[0][0])
        wanted = Filter(newest=newest(found.store, RECORDS, BYTES))
        report = build_report(config, found.store, found.terms, command="report", now=now, wanted=wanted)
        return Recent(report, now, report["records"], of)


def newest(store: Store, records: int, size: int) -> int:
    """Return how many of the newest records, at most ``records``, are no more than ``size`` bytes together; 1 at least. Raises StoreError."""
    for number, (length,) in enumerate(
        store.read("SELECT LENGTH(body) FROM records ORDER BY seq DESC LIMIT ?", [records])
    ):
        size -= length
        if size < 0:
            return max(1, number)
    return records


def main() -> None:
    """Make one."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.nice(19)
    gc.disable()  # millions of values and no cycles among them
    config = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=Config)
    made = make(config, time.time())
    sys.stdout.buffer.write(b"" if made is None else msgspec.msgpack.encode(made))


if __name__ == "__main__":
    main()
