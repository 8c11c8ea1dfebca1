"""What the admin port takes to answer with a million records in the store: every page and list, through the port as a browser asks."""

from __future__ import annotations

import asyncio
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from statistics import quantiles
from typing import Any

from proxy.config import Config
from proxy.ledger.admin import make_admin
from proxy.ledger.admin_server import listen
from proxy.ledger.hours import HOUR
from proxy.ledger.query import Filter
from proxy.ledger.search import search
from proxy.ledger.store import Store
from tests.bench.full_store import full
from tests.bench.ratio import Verdict
from tests.bench.stand import Stand
from tests.bench.table import Result
from tests.ledger import filled

RECORDS = 1_000_000
_MOST = 0.2  # seconds
_LISTS = {
    "list": "",
    "list: all": "show=all",
    "list: not comparable": "show=incomparable",
    "list: genuine": "class=genuine",
    "list: unknown, forced, a rare model": "class=unknown&mode=forced&model=phi-4",
    "list: a rare finding": "show=all&finding=bos_twice",
    "list: a rare finding of a rare model": "show=all&finding=bos_twice&model=phi-4&mode=free",
    "list: a model nobody has": "show=all&model=nobody",
    "list: the oldest hour": f"show=all&until={filled.NOW - 7 * 86_400 + HOUR}",
    "list: an hour in the middle": f"since={filled.NOW - 3.5 * 86_400}&until={filled.NOW - 3.5 * 86_400 + HOUR}",
    "list: genuine ones of the oldest day": f"class=genuine&until={filled.NOW - 6 * 86_400}",
    "list: one exchange": "show=all&exchange=000007",
}


def answers(stand: Stand) -> Iterator[Result]:
    """Every page and list with a million records in the store, through the admin port."""
    stand.say(f"a store of {RECORDS:,} records: made once, takes minutes")
    config = full(RECORDS)
    for name, taken in asyncio.run(_measured(config, _paths(config), max(20, stand.pairs * 5))).items():
        ordered = quantiles(taken, n=100)
        verdict = Verdict.MET if ordered[98] <= _MOST else Verdict.NOT_MET
        figure = f"p50 {ordered[49] * 1e3:.0f} ms, p99 {ordered[98] * 1e3:.0f} ms"
        yield Result(0, f"page {name}", "p99 <= 200 ms", verdict, figure=figure, note=f"{len(taken)} requests")


def _paths(config: Config) -> dict[str, str]:
    with Store.open_read_only(config.records.url) as store:
        [newest] = search(store.read, Filter(limit=1, newest_first=True, difference="genuine")).rows
        [oldest] = search(store.read, Filter(limit=1)).rows
    lists = {name: f"/divergences?{query}" for name, query in _LISTS.items()}
    return lists | {
        "list: back from the middle": f"/divergences?show=all&after={newest.summary.id}",
        "list: before the oldest": f"/divergences?show=all&before={oldest.summary.id}",
        "overview": "/",
        "engines": "/engines",
        "verdict": "/verdict",
        "one comparison": f"/divergences/{newest.summary.id}",
        "API: 1000 records": "/api/v1/records?limit=1000",
        "API: one record": f"/api/v1/records/{newest.summary.id}",
        "metrics": "/metrics",
    }


async def _measured(config: Config, paths: dict[str, str], times: int) -> dict[str, list[float]]:
    """Seconds of each request, one after the other; those that there is no page for are left out."""
    server = await listen(make_admin(config, ready=lambda: True, clock=lambda: filled.NOW), "127.0.0.1", 0)
    try:
        taken: dict[str, list[float]] = {}
        for name, path in paths.items():
            url = f"http://{server.address}{path}"
            if await asyncio.to_thread(_seconds, url) is not None:
                found: list[Any] = [await asyncio.to_thread(_seconds, url) for _ in range(times)]
                taken[name] = found
        return taken
    finally:
        await server.close()


def _seconds(url: str) -> float | None:
    began = time.perf_counter()
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            answer.read()
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return None
        raise
    return time.perf_counter() - began
