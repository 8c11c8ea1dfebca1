"""The first page: whether the primary is untouched, the engines agree and the mirror keeps up."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from proxy.ledger.pages.frame import render


def view() -> dict[str, Any]:
    """Return what the page shows."""
    return {}


async def overview(request: web.Request) -> web.Response:
    """Show the page."""
    return render(request, "overview.html", view())
