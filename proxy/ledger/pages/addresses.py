"""The list of everything that this port answers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from aiohttp import web

from proxy.ledger.endpoint import ENDPOINTS, Endpoint, Guard
from proxy.ledger.openapi import described
from proxy.ledger.pages.frame import render

_WHO = {
    Guard.OPEN: "everybody",
    Guard.DOOR: "everybody",
    Guard.READ: "loopback, else the token",
    Guard.CHANGE: "the token",
}


def view(endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    """Return what the page shows."""
    return {
        "rows": [
            {
                "method": one.method,
                "path": one.path,
                "summary": one.summary,
                "who": _WHO[one.guard],
                "parameters": [each.name for each in one.parameters],
                "link": one.method == "GET" and "{" not in one.path,
            }
            for one in endpoints
            if described(one)
        ]
    }


async def addresses(request: web.Request) -> web.Response:
    """Show the list."""
    return render(request, "addresses.html", view(request.app[ENDPOINTS]))
