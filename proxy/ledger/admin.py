"""The admin port: metrics, health, the report and the records as JSON, pages for people.

House rules. Read-only, but for what ``Guard.CHANGE`` marks. It lives in the supervisor and needs neither judge nor shadow: what cannot be read is said and never waited
for. What is answered is in two tables (``api.answers``, ``pages.routes.pages``); here they become a router with a guard before it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from aiohttp import web

from proxy.config import Config
from proxy.ledger import api
from proxy.ledger.admin_gate import gate
from proxy.ledger.admin_guard import Known, guard, wants_page
from proxy.ledger.endpoint import ENDPOINTS, Handler
from proxy.ledger.listing import QueryError
from proxy.ledger.mirror_api import MAX_BODY
from proxy.ledger.operation import Operation
from proxy.ledger.pages import frame, routes
from proxy.ledger.site import SITE, Site
from proxy.ledger.store_error import StoreError

log = logging.getLogger("parhelion.admin")

#: On every answer of this port; a page has a policy of its own for its content, a static file may be kept.
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_OWN = frozenset({"Content-Security-Policy", "Cache-Control", "Referrer-Policy"})


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
    endpoints = (*api.answers(), *routes.pages())
    known: Known = {(one.method, one.path): one for one in endpoints}
    application = web.Application(middlewares=[gate, _errors(known), guard(known)], client_max_size=MAX_BODY)
    application[SITE] = Site(config, ready, command, clock, operation)
    application[ENDPOINTS] = endpoints
    application.on_response_prepare.append(_finish)
    for one in endpoints:
        application.router.add_route(one.method, one.path, one.handler)
        if one.method == "GET":
            application.router.add_route("HEAD", one.path, one.handler)
    return application


def _errors(known: Known) -> Any:
    @web.middleware
    async def errors(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except QueryError as error:
            status, text = 400, str(error)
        except StoreError as error:
            status, text = 404 if error.reason == "missing" else 503, str(error)
        except web.HTTPNotFound:
            status, text = 404, "there is nothing here; /api lists the addresses"
        except web.HTTPMethodNotAllowed:
            status, text = 405, "this is not answered here; /api lists the addresses"
        except web.HTTPRequestEntityTooLarge:
            status, text = 413, "a change is one short JSON object"
        except web.HTTPException:
            raise
        except Exception:  # a fault of ours, or damage that SQLite does not see
            log.exception("answer_failed")  # the formatter writes where and what kind
            status, text = (
                500,
                "this cannot be shown: something on disk is damaged, or this is a fault of ours; the log says where",
            )
        if wants_page(request, known):
            return frame.failed(request, status, text)
        return api.refused(status, text)

    return errors


async def _finish(_: web.Request, response: web.StreamResponse) -> None:
    for name, value in HEADERS.items():
        if name not in _OWN or name not in response.headers:
            response.headers[name] = value
    response.headers.pop("Server", None)  # no banner: versions are nobody's business
    if isinstance(response, web.HTTPExpectationFailed):  # aiohttp's own text quotes the header
        response.text = "the only expectation met here is 100-continue\n"
