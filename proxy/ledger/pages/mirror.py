"""The kill switch as a form of the Overview."""

from __future__ import annotations

import msgspec
from aiohttp import web

from proxy.ledger.listing import QueryError
from proxy.ledger.mirror_api import Change, ChangeError, change
from proxy.ledger.pages.forms import fields
from proxy.ledger.site import SITE


async def turn(request: web.Request) -> web.Response:
    """Turn it as the form says, and go back."""
    site, sent = request.app[SITE], await fields(request)
    if site.operation is None:
        raise QueryError("no replica is running here")
    if sent.get("enabled") not in ("yes", "no"):
        raise QueryError("enabled: give yes or no")
    wanted = Change(enabled=sent["enabled"] == "yes", shadow=sent.get("shadow") or None)
    try:
        await change(site.operation, msgspec.json.encode(wanted), site.changing)
    except ChangeError as error:
        raise QueryError(str(error)) from None
    return web.Response(status=303, headers={"Location": "/"})
