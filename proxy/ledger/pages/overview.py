"""The first page: whether the primary is untouched, the engines agree and the mirror keeps up.

House rules. The three answers are made by ``untouched``, ``agreement`` and ``keeping_up`` from what ``reading`` has read; the page and the JSON are the same dict.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
from aiohttp import web

from proxy.ledger.api import as_json
from proxy.ledger.mirror_api import position
from proxy.ledger.operation import Operation
from proxy.ledger.pages import agreement, happenings, hourly, keeping_up, untouched
from proxy.ledger.pages.frame import render
from proxy.ledger.pages.newest import at_once
from proxy.ledger.pages.reading import Seen, read
from proxy.ledger.recent import Recent
from proxy.ledger.site import SITE, Site


def view(seen: Seen, switch: Mapping[str, Any] | None, newest: Recent | None = None) -> dict[str, Any]:
    """Return what the page shows.

    ``switch``: the kill switch's position (``mirror_api.position``), None where no replica runs; ``newest``: the report over the newest records, None while it is being made.
    """
    return {
        "schema": "parhelion.overview/1",
        "shadows": [{"name": one.name, "role": one.role} for one in seen.config.shadows],
        "store_error": seen.store_error,
        "store_reason": seen.store_reason,
        "primary": untouched.view(seen),
        "agreement": agreement.view(seen, None if newest is None else newest.report),
        "mirror": keeping_up.view(seen),
        "events": [] if seen.stored is None else happenings.view(seen.stored.events),
        "hours": None if seen.stored is None else seen.stored.hours,
        "newest": None if newest is None else {"as_of": newest.as_of, "records": newest.records, "of": newest.of},
        "switch": switch,
    }


async def overview(request: web.Request) -> web.Response:
    """Show the page."""
    site = request.app[SITE]
    values = await _values(site)
    shown = {
        "may_change": site.config.admin_token is not None,
        "hourly": values["hours"] and hourly.view(values["hours"]),
    }
    return render(request, "overview.html", {**values, **shown})


async def overview_json(request: web.Request) -> web.Response:
    """Give the same to programs."""
    return as_json(msgspec.to_builtins(await _values(request.app[SITE])))


async def _values(site: Site) -> dict[str, Any]:
    seen, newest = await asyncio.gather(site.read(read, site.config, site.clock()), at_once(site.config))
    return view(seen, _switch(site.operation), newest)


def _switch(operation: Operation | None) -> dict[str, Any] | None:
    return None if operation is None else position(operation.config, operation.switch)
