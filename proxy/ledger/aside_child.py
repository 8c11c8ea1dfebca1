"""The process that makes a report aside: ``python -m proxy.ledger.aside_child``, an ``Order`` in, the report out, the end.

House rules. It takes what nobody else wants of the processor, is the first to be ended when memory is short, and ends with whoever started it. A report of the newest
records holds a bounded part of the store in memory.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import msgspec
import orjson

from proxy.ledger.aside import Order
from proxy.ledger.query import Filter
from proxy.ledger.recent import BYTES, RECORDS, Recent
from proxy.ledger.report import build_report
from proxy.ledger.sources import open_ledgers
from proxy.ledger.store import Store

_PR_SET_PDEATHSIG = 1  # prctl(2)


def recent(order: Order) -> Recent | None:
    """Make one of the newest; None where there is no store. Raises StoreError, OSError."""
    with open_ledgers(order.config) as found:
        if found.store is None:
            return None
        of = int(found.store.read("SELECT COUNT(*) FROM listed")[0][0])
        wanted = Filter(newest=newest(found.store, RECORDS, BYTES))
        report = build_report(
            order.config, found.store, found.terms, command=order.command, now=order.now, wanted=wanted
        )
        return Recent(report, order.now, report["records"], of)


def whole(order: Order) -> bytes:
    """Make one of all that is wanted, as JSON. Raises StoreError, OSError."""
    with open_ledgers(order.config) as found:
        terms = found.terms if order.wanted is None else None  # those are of all time
        report = build_report(
            order.config, found.store, terms, command=order.command, now=order.now, wanted=order.wanted
        )
        return orjson.dumps(report)


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
    with suppress(OSError):  # where there is no such file nobody is chosen by it
        Path("/proc/self/oom_score_adj").write_text("1000")
    gc.disable()  # millions of values and no cycles among them
    order = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=Order)
    if not order.newest:
        sys.stdout.buffer.write(whole(order))
    elif (made := recent(order)) is not None:
        sys.stdout.buffer.write(msgspec.msgpack.encode(made))


if __name__ == "__main__":
    main()
