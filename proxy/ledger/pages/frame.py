"""What all pages have in common: the templates' environment, the base of their context, the policy that browsers keep them to.

House rules. Everything that a template prints is made visible (``visible``) and escaped; there is no way round but markup of our own making (``Markup``). No script and no
style stands in a page: both come from ``static``, so that nothing a model says can be either.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from aiohttp import web
from jinja2 import Environment, PackageLoader, StrictUndefined

from proxy.ledger import exposition
from proxy.ledger.pages.assets import asset
from proxy.ledger.pages.outputs import own
from proxy.ledger.pages.token_text import raw, token
from proxy.ledger.pages.visible import FILTERS, printed
from proxy.ledger.site import SITE

#: ``style-src 'self'`` without 'unsafe-inline' refuses style attributes, too.
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
#: A browser that may say nothing of where it comes from calls its origin "null" in a form, which is refused: within this port it may.
HEADERS = {"Content-Security-Policy": POLICY, "Referrer-Policy": "same-origin"}
#: In the order of the navigation: address, word.
PLACES = (("/", "Overview"), ("/divergences", "Divergences"), ("/engines", "Engines"), ("/verdict", "Verdict"))
_TITLES = {
    400: "That was not understood",
    403: "Not allowed",
    404: "There is nothing here",
    405: "Not answered here",
    413: "Too large",
    421: "Not under this name",
    429: "Too many tries",
    500: "This cannot be shown",
    503: "Not available now",
}


@cache
def environment() -> Environment:
    """Return the templates' environment."""
    made = Environment(
        loader=PackageLoader("proxy.ledger.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=printed,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters |= FILTERS | {"token": token, "own": own, "hexbytes": raw}
    made.globals |= {"asset": asset}
    return made


def render(request: web.Request, template: str, values: Mapping[str, Any], *, status: int = 200) -> web.Response:
    """Answer with a page: ``template`` with ``values`` (of a ``view``) and what ``base.html`` needs."""
    text = environment().get_template(template).render({**base(request), **values})
    return web.Response(text=text, status=status, content_type="text/html", charset="utf-8", headers=HEADERS)


def base(request: web.Request) -> dict[str, Any]:
    """Return what ``base.html`` needs."""
    site = request.app[SITE]
    return {
        "places": _places(request),
        "path": request.path,
        "version": exposition.build(),
        "now": site.clock(),
        "may_sign_in": bool(site.config.admin_token),
        "signed_in": site.sessions.good(
            request.cookies.get(site.sessions.COOKIE, ""), site.config.admin_token, site.clock()
        ),
    }


def failed(request: web.Request, status: int, text: str) -> web.Response:
    """Answer with a page that says why there is none."""
    return render(request, "failed.html", {"title": _TITLES.get(status, "Refused"), "text": text}, status=status)


def _places(request: web.Request) -> list[dict[str, Any]]:
    """Return the navigation: of the places, those that are there."""
    there = {route.resource.canonical for route in request.app.router.routes() if route.resource is not None}
    return [
        {
            "address": address,
            "word": word,
            "here": request.path == address or (address != "/" and request.path.startswith(f"{address}/")),
        }
        for address, word in PLACES
        if address in there
    ]
