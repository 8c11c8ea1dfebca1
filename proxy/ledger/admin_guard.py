"""The guard before every address: who is asked for, by whom, and what they are told who may not.

House rules. What may be is decided by ``access``; here a request becomes its arguments. A browser that lacks the token is led to the sign-in, a program is told. Too many
wrong tokens from one address, and none from there is looked at for a while, right or wrong.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from aiohttp import web

from proxy.ledger import access
from proxy.ledger.endpoint import Endpoint, Guard, Handler
from proxy.ledger.pages import frame
from proxy.ledger.site import SITE, Site

#: By method and path as in the table.
Known = Mapping[tuple[str, str], Endpoint]


def guard(known: Known) -> Any:
    """Make the middleware for a table."""

    @web.middleware
    async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
        endpoint = asked_for(request, known)
        refused = _refusal(request, endpoint)
        if refused is None:
            return await handler(request)
        if refused.status == 401 and endpoint is not None and endpoint.markup:
            back = endpoint.back if request.method == "POST" else request.path_qs
            return web.Response(status=303, headers={"Location": f"/login?next={quote(back, safe='')}"})
        if wants_page(request, known):
            response = frame.failed(request, refused.status, refused.text)
        else:
            response = web.json_response({"error": refused.text}, status=refused.status)
        if refused.status == 401:
            response.headers["WWW-Authenticate"] = "Bearer"
        if refused.status == 429:
            response.headers["Retry-After"] = str(math.ceil(_wait(request)))
        return response

    return guarded


def asked_for(request: web.Request, known: Known) -> Endpoint | None:
    """Return the entry of the table that a request is for."""
    resource = request.match_info.route.resource
    method = "GET" if request.method == "HEAD" else request.method
    return None if resource is None else known.get((method, resource.canonical))


def wants_page(request: web.Request, known: Known) -> bool:
    """Whether the answer is for a person's eyes."""
    endpoint = asked_for(request, known)
    if endpoint is not None:
        return endpoint.markup
    return not request.path.startswith("/api/") and "text/html" in request.headers.get("Accept", "")


def signed_in(request: web.Request) -> bool:
    """Whether a browser has shown the token that is in force."""
    site = request.app[SITE]
    return site.sessions.good(request.cookies.get(site.sessions.COOKIE, ""), site.config.admin_token, site.clock())


def tries_refusal(site: Site, remote: str | None) -> access.Refusal | None:
    """None while tokens from an address are looked at."""
    if not site.tries.wait(remote or "", site.clock()):
        return None
    return access.Refusal(429, "too many wrong tokens from this address: wait a minute, then try again")


def _refusal(request: web.Request, endpoint: Endpoint | None) -> access.Refusal | None:
    site, rules, given = request.app[SITE], request.app[SITE].rules(), request.headers
    host, authorization = given.get("Host", ""), given.get("Authorization")
    kind = Guard.READ if endpoint is None else endpoint.guard
    if kind is Guard.OPEN:
        return None
    if kind is Guard.DOOR:
        origin = None if request.method in ("GET", "HEAD") else given.get("Origin")
        return access.door_refusal(rules, host) or access.origin_refusal(host, origin)
    if authorization is not None and (refused := tries_refusal(site, request.remote)) is not None:
        return refused
    if kind is Guard.CHANGE:
        refused = access.change_refusal(rules, host, given.get("Origin"), authorization, signed_in=signed_in(request))
    else:
        page = "" if endpoint is None else endpoint.page
        refused = access.refusal(rules, page, host, authorization, signed_in=signed_in(request))
    if refused is not None and refused.status == 401 and authorization is not None:
        site.tries.wrong(request.remote or "", site.clock())
    return refused


def _wait(request: web.Request) -> float:
    site = request.app[SITE]
    return site.tries.wait(request.remote or "", site.clock())
