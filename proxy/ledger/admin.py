"""The admin port: metrics, health, the report and the records as JSON.

House rules. Read-only, but for the kill switch. It lives in the supervisor and needs neither judge nor shadow: what cannot be read is said and never waited for. Disk
is read in threads, a few at a time. Output of models leaves this port as JSON only, never as markup.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import orjson
from aiohttp import web

from proxy.config import Config
from proxy.config_load import address
from proxy.ledger import exposition
from proxy.ledger.access import Rules, change_refusal, is_loopback, refusal
from proxy.ledger.admin_gate import Handler, gate
from proxy.ledger.export import line
from proxy.ledger.listing import QueryError, listing, period
from proxy.ledger.mirror_api import MAX_BODY, ChangeError, change, position
from proxy.ledger.operation import Operation, Standing
from proxy.ledger.report import build_report
from proxy.ledger.sources import open_ledgers
from proxy.ledger.store import Store
from proxy.ledger.store_error import StoreError

_READS_AT_ONCE = 4
#: On every answer of this port.
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_INDEX = """parhelion {version}

/metrics               Prometheus and OpenMetrics
/healthz               200 while this process runs
/readyz                200 while clients are served, 503 while starting or draining
/api/v1/report         the report (schema parhelion.report/1); since, until
/api/v1/records        comparisons, newest first; since, until, shadow, mode, model, endpoint, outcome, class, finding, exchange, order, limit, after
/api/v1/records/<id>   one comparison, token by token
/api/v1/mirror         what is mirrored; POST {{"enabled": false, "shadow": "NAME"}} stops it, of all shadows without "shadow" (needs admin_token)
"""


def make_admin(
    config: Config,
    *,
    ready: Callable[[], bool],
    command: str = "serve",
    clock: Callable[[], float] = time.time,
    operation: Operation | None = None,
) -> web.Application:
    """Make the application. ``ready``: whether clients can be served now; ``command`` is named in the report.

    ``operation``: the replica it serves, whose configuration may change under way; without one ``config`` stands, and nothing can be changed.
    """
    reads = asyncio.Semaphore(_READS_AT_ONCE)
    building, changing = asyncio.Lock(), asyncio.Lock()

    def now() -> Config:
        return config if operation is None else operation.config

    def rules() -> Rules:
        current = now()
        host, _ = address(current.admin, "admin")
        return Rules(is_loopback(host), current.admin_token, frozenset(current.admin_public))

    async def index(_: web.Request) -> web.Response:
        return web.Response(text=_INDEX.format(version=exposition.build()))

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        return web.Response(text="ready\n") if ready() else web.Response(status=503, text="not ready\n")

    async def metrics(request: web.Request) -> web.Response:
        accept = request.headers.get("Accept", "")
        async with reads:
            body, kind = await asyncio.to_thread(
                _metrics, now(), accept, clock(), None if operation is None else operation.standing()
            )
        return web.Response(body=body, headers={"Content-Type": kind})

    async def report(request: web.Request) -> web.Response:
        async with building:  # it reads every record: one at a time
            return _json(await asyncio.to_thread(_report, now(), command, clock(), list(request.query.items())))

    async def records(request: web.Request) -> web.Response:
        async with reads:
            return _json(await asyncio.to_thread(_records, now(), list(request.query.items())))

    async def record(request: web.Request) -> web.Response:
        async with reads:
            body = await asyncio.to_thread(_record, now(), request.match_info["id"])
        if body is None:
            return _error(404, "no such record is kept")
        return web.Response(body=body, content_type="application/json")

    async def mirror(request: web.Request) -> web.Response:
        if operation is None:
            return _error(404, "no replica is running here")
        if request.method != "POST":
            return _json(position(operation.config, operation.switch))
        try:
            return _json(await change(operation, await request.read(), changing))
        except ChangeError as error:
            return _error(400, str(error))

    application = web.Application(middlewares=[gate, _guard(rules), _errors], client_max_size=MAX_BODY)
    application.on_response_prepare.append(_finish)
    for path, name, handler in (
        ("/", "index", index),
        ("/healthz", "healthz", healthz),
        ("/readyz", "readyz", readyz),
        ("/metrics", "metrics", metrics),
        ("/api/v1/report", "report", report),
        ("/api/v1/records", "records", records),
        ("/api/v1/records/{id}", "record", record),
    ):
        application.router.add_get(path, handler, name=name)
    application.router.add_get("/api/v1/mirror", mirror, name="mirror")
    application.router.add_post("/api/v1/mirror", mirror, name="mirror")
    return application


def _metrics(config: Config, accept: str, now: float, standing: Standing | None) -> tuple[bytes, str]:
    with open_ledgers(config) as found:
        up = found.store is not None
        merged = list(
            exposition.families(found.terms, found.totals, found.snapshot, now=now, store_up=up, standing=standing)
        )
    return exposition.render(merged, accept)


def _report(config: Config, command: str, now: float, query: list[tuple[str, str]]) -> dict[str, Any]:
    wanted = period(query)
    with open_ledgers(config) as found:
        if found.store_error is not None and found.store_error.reason != "missing":
            raise found.store_error
        terms = found.terms if wanted is None else None  # those are of all time
        return build_report(config, found.store, terms, command=command, now=now, wanted=wanted)


def _records(config: Config, query: list[tuple[str, str]]) -> dict[str, Any]:
    with Store.open_read_only(config.records.url) as store:
        return listing(store, query)


def _record(config: Config, id: str) -> bytes | None:  # noqa: A002 - the contract's word
    with Store.open_read_only(config.records.url) as store:
        found = store.record(id)
    return None if found is None else line(found)


def _guard(rules: Callable[[], Rules]) -> Any:
    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        given = request.headers
        host, authorization = given.get("Host", ""), given.get("Authorization")
        page = request.match_info.route.name or ""
        if request.method == "POST" and page == "mirror":
            refused = change_refusal(rules(), host, given.get("Origin"), authorization)
        else:
            refused = refusal(rules(), "records" if page == "record" else page, host, authorization)
        if refused is None:
            return await handler(request)
        response = _error(refused.status, refused.text)
        if refused.status == 401:
            response.headers["WWW-Authenticate"] = "Bearer"
        return response

    return guard


@web.middleware
async def _errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except QueryError as error:
        return _error(400, str(error))
    except StoreError as error:
        return _error(404 if error.reason == "missing" else 503, str(error))
    except web.HTTPNotFound:
        return _error(404, "there is nothing here; / lists the addresses")
    except web.HTTPMethodNotAllowed:
        return _error(405, "only GET is answered here; / lists the addresses")
    except web.HTTPRequestEntityTooLarge:
        return _error(413, "a change is one short JSON object")


async def _finish(_: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(HEADERS)
    response.headers.pop("Server", None)  # no banner: versions are nobody's business
    if isinstance(response, web.HTTPExpectationFailed):  # aiohttp's own text quotes the header
        response.text = "the only expectation met here is 100-continue\n"


def _json(value: dict[str, Any]) -> web.Response:
    return web.Response(body=orjson.dumps(value), content_type="application/json")


def _error(status: int, text: str) -> web.Response:
    return web.Response(status=status, body=orjson.dumps({"error": text}), content_type="application/json")
