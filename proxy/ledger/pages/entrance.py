"""Signing in and out: the token, shown once, becomes a session in a cookie that no script can read and no other site can use.

House rules. The token is never in an answer, an address, a cookie or a log. Wrong tries are counted by address. Where one goes afterwards is an address on this port.
"""

from __future__ import annotations

import math
from urllib.parse import quote

from aiohttp import web

from proxy.ledger.access import is_token
from proxy.ledger.pages.forms import fields, local
from proxy.ledger.pages.frame import render
from proxy.ledger.sessions import LIFETIME
from proxy.ledger.site import SITE

_NO_TOKEN = (
    "no admin_token is configured: export PARHELION_ADMIN_TOKEN, set admin_token: ${PARHELION_ADMIN_TOKEN}, and restart"  # noqa: S105 - a sentence
)
_WRONG = "that is not the token in force"
_WAIT = "too many wrong tokens from this address: wait a minute, then try again"


def view(after: str, *, configured: bool, wrong: str = "") -> dict[str, object]:
    """Return what the page shows. ``after``: where one goes then."""
    return {"after": after, "configured": configured, "wrong": wrong, "no_token": _NO_TOKEN}


async def login(request: web.Request) -> web.Response:
    """Ask for the token; somebody who is signed in goes on at once."""
    site, after = request.app[SITE], local(request.query.get("next", "/"))
    if request.headers.get("Sec-Fetch-Site") == "cross-site":
        # A link from elsewhere (an alert, a dashboard) comes without the cookie. Asked again by this page, it comes with it.
        again = f"/login?next={quote(after, safe='')}"
        return render(request, "onward.html", {"again": again, "after": after})
    if site.sessions.good(request.cookies.get(site.sessions.COOKIE, ""), site.config.admin_token, site.clock()):
        return _to(after)
    return render(request, "login.html", view(after, configured=bool(site.config.admin_token)))


async def enter(request: web.Request) -> web.Response:
    """Take the token and open a session."""
    site, sent = request.app[SITE], await fields(request)
    token, after, remote = site.config.admin_token, local(sent.get("next", "/")), request.remote or ""
    if not token:
        return render(request, "login.html", view(after, configured=False), status=403)
    wait = site.tries.wait(remote, site.clock())
    if wait:
        response = render(request, "login.html", view(after, configured=True, wrong=_WAIT), status=429)
        response.headers["Retry-After"] = str(math.ceil(wait))
        return response
    if not is_token(token, sent.get("token", "")):
        site.tries.wrong(remote, site.clock())
        return render(request, "login.html", view(after, configured=True, wrong=_WRONG), status=401)
    response = _to(after)
    response.set_cookie(
        site.sessions.COOKIE,
        site.sessions.begin(token, site.clock()),
        max_age=int(LIFETIME),
        path="/",
        httponly=True,
        samesite="Strict",
        secure=request.headers.get("Origin", "").startswith("https://"),  # a proxy before this port speaks TLS
    )
    return response


async def leave(request: web.Request) -> web.Response:
    """End the session, here and in the browser."""
    site = request.app[SITE]
    site.sessions.end(request.cookies.get(site.sessions.COOKIE, ""), site.config.admin_token, site.clock())
    response = _to("/")
    response.del_cookie(site.sessions.COOKIE, path="/", httponly=True, samesite="Strict")
    return response


def _to(address: str) -> web.Response:
    return web.Response(status=303, headers={"Location": address})
