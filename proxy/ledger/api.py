"""The admin port's answers to programs: metrics, health, the report and the records as JSON, the kill switch.

House rules. Handlers alone, one a question; the table at the end is all there is, and says of each who may ask. Disk is read in threads, a few at a time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson
from aiohttp import web

from proxy.config import Config
from proxy.ledger import detail_api, exposition, known_file, schemas
from proxy.ledger.aside import AsideError, Order, made
from proxy.ledger.endpoint import ENDPOINTS, Endpoint, Guard
from proxy.ledger.export import line
from proxy.ledger.known import KnownError
from proxy.ledger.known_api import known
from proxy.ledger.listing import QueryError, listing, period
from proxy.ledger.mirror_api import ChangeError, change, position
from proxy.ledger.openapi import document
from proxy.ledger.operation import Standing
from proxy.ledger.site import SITE
from proxy.ledger.sources import open_ledgers
from proxy.ledger.store import Store

_DEADLINE = 3600.0  # seconds for a report; a million records take a quarter of that


async def healthz(_: web.Request) -> web.Response:
    """Say that this process runs."""
    return web.Response(text="ok\n")


async def readyz(request: web.Request) -> web.Response:
    """Say whether clients are served."""
    ready = request.app[SITE].ready()
    return web.Response(text="ready\n") if ready else web.Response(status=503, text="not ready\n")


async def metrics(request: web.Request) -> web.Response:
    """Give everything to Prometheus."""
    site = request.app[SITE]
    standing = None if site.operation is None else site.operation.standing()
    accept = request.headers.get("Accept", "")
    body, kind = await site.read(_metrics, site.config, accept, site.clock(), standing)
    return web.Response(body=body, headers={"Content-Type": kind})


async def report(request: web.Request) -> web.Response:
    """Give the report of all records, or of a part of them."""
    site = request.app[SITE]
    wanted = period(list(request.query.items()))
    async with site.building:
        await site.read(_readable, site.config)
        order = Order(site.config, site.command, site.clock(), wanted)
        try:
            return web.Response(body=await made(order, deadline=_DEADLINE), content_type="application/json")
        except AsideError as error:
            return refused(503, str(error))


async def records(request: web.Request) -> web.Response:
    """List records."""
    site = request.app[SITE]
    try:
        return as_json(await site.read(_records, site.config, list(request.query.items()), site.clock()))
    except KnownError as error:
        return refused(error.status, str(error))


async def record(request: web.Request) -> web.Response:
    """Give one record."""
    site = request.app[SITE]
    body = await site.read(_record, site.config, request.match_info["id"])
    if body is None:
        return refused(404, "no such record is kept")
    return web.Response(body=body, content_type="application/json")


async def mirror(request: web.Request) -> web.Response:
    """Say what is mirrored, or change it."""
    site = request.app[SITE]
    if site.operation is None:
        return refused(404, "no replica is running here")
    if request.method != "POST":
        return as_json(position(site.operation.config, site.operation.switch))
    try:
        return as_json(await change(site.operation, await request.read(), site.changing))
    except ChangeError as error:
        return refused(400, str(error))


async def description(request: web.Request) -> web.Response:
    """Describe all this to programs."""
    return as_json(document(request.app[ENDPOINTS], exposition.build()))


def as_json(value: dict[str, Any]) -> web.Response:
    """Answer with a JSON object."""
    return web.Response(body=orjson.dumps(value), content_type="application/json")


def refused(status: int, text: str) -> web.Response:
    """Answer with the reason why not."""
    return web.Response(status=status, body=orjson.dumps({"error": text}), content_type="application/json")


def _metrics(config: Config, accept: str, now: float, standing: Standing | None) -> tuple[bytes, str]:
    with open_ledgers(config) as found:
        up = found.store is not None
        merged = list(
            exposition.families(found.terms, found.totals, found.snapshot, now=now, store_up=up, standing=standing)
        )
    return exposition.render(merged, accept)


def _readable(config: Config) -> None:
    with open_ledgers(config) as found:
        if found.store_error is not None and found.store_error.reason != "missing":
            raise found.store_error


def _records(config: Config, query: list[tuple[str, str]], now: float) -> dict[str, Any]:
    marked = [value for name, value in query if name == "known"]
    if marked not in ([], ["hide"], ["show"]):
        raise QueryError("known: give hide or show")
    rules = known_file.load(config).in_force(now) if marked == ["hide"] else ()
    rest = [(name, value) for name, value in query if name != "known"]
    with Store.open_read_only(config.records.url) as store:
        return listing(store, rest, [rule.match.columns() for rule in rules])


def _record(config: Config, id: str) -> bytes | None:  # noqa: A002 - the contract's word
    with Store.open_read_only(config.records.url) as store:
        found = store.record(id)
    return None if found is None else line(found)


_MISSING = {404: "there is no record store yet, or no such record", 503: "the record store cannot be read"}


def answers() -> Iterable[Endpoint]:
    """Return the table of all that is not a page."""
    text, get = "text/plain", "GET"
    yield Endpoint(get, "/healthz", healthz, "200 while this process runs", "healthz", Guard.OPEN, media=text)
    yield Endpoint(
        get, "/readyz", readyz, "200 while clients are served", "readyz", Guard.OPEN,
        media=text, also={503: "starting or draining"},
    )  # fmt: skip
    yield Endpoint(
        get, "/metrics", metrics, "Prometheus text, or OpenMetrics where it is accepted", "metrics", media=text
    )
    yield Endpoint(
        get, "/api/v1/report", report, "The report (schema parhelion.report/1)", "report",
        parameters=schemas.PERIOD, answer=schemas.REPORT, also={503: "the record store cannot be read"},
    )  # fmt: skip
    yield Endpoint(
        get, "/api/v1/records", records, "Comparisons, newest first", "records",
        parameters=schemas.FILTER, answer=schemas.LISTING, also=_MISSING,
    )  # fmt: skip
    yield Endpoint(
        get, "/api/v1/records/{id}", record, "One comparison, token by token", "records",
        parameters=(schemas.ID,), answer=schemas.RECORD, also=_MISSING,
    )  # fmt: skip
    yield Endpoint(
        get, "/api/v1/records/{id}/detail", detail_api.detail, "Both arms' tokens, alternatives and bodies", "records",
        parameters=(schemas.ID,), answer=schemas.DETAIL, also=_MISSING,
    )  # fmt: skip
    yield Endpoint(
        get, "/api/v1/records/{id}/repeat", detail_api.repeat, "Commands (bash, curl) that repeat it", "records",
        parameters=(schemas.ID,), answer=schemas.REPEAT, also=_MISSING,
    )  # fmt: skip
    gone = {404: "no replica is running here"}
    yield Endpoint(get, "/api/v1/mirror", mirror, "What is mirrored", "mirror", answer=schemas.MIRROR, also=gone)
    yield Endpoint(
        "POST", "/api/v1/mirror", mirror, "Stop or start mirroring, of one shadow or of all", "mirror", Guard.CHANGE,
        answer=schemas.MIRROR, body=schemas.CHANGE, also=gone,
    )  # fmt: skip
    kept = {503: "the rules' file cannot be read or written"}
    yield Endpoint(
        get, "/api/v1/known", known, "Rules that mark differences as known", "records", answer=schemas.KNOWN, also=kept
    )
    yield Endpoint(
        "POST", "/api/v1/known", known, "Mark differences as known, or renew a rule of that name", "records",
        Guard.CHANGE, answer=schemas.KNOWN, body=schemas.NEW_RULE, also=kept,
    )  # fmt: skip
    yield Endpoint(
        "DELETE", "/api/v1/known/{name}", known, "Take a rule away", "records",
        Guard.CHANGE, parameters=(schemas.NAME,), answer=schemas.KNOWN, also={404: "no rule has that name", **kept},
    )  # fmt: skip
    yield Endpoint(
        get, "/api/v1/openapi.json", description, "This description (OpenAPI 3.1)", "openapi", answer=schemas.ANY
    )
