"""The table of all pages: one line each; the router, the guard and the navigation are made of it."""

from __future__ import annotations

from collections.abc import Iterable

from proxy.ledger import schemas
from proxy.ledger.endpoint import Endpoint, Guard
from proxy.ledger.pages.addresses import addresses
from proxy.ledger.pages.assets import static
from proxy.ledger.pages.comparison import comparison
from proxy.ledger.pages.divergences import divergences
from proxy.ledger.pages.engines import engines, engines_json
from proxy.ledger.pages.entrance import enter, leave, login
from proxy.ledger.pages.marking import known, mark, unmark
from proxy.ledger.pages.mirror import turn
from proxy.ledger.pages.overview import overview, overview_json
from proxy.ledger.pages.verdict import verdict, verdict_json


def pages() -> Iterable[Endpoint]:
    """Return the table of all pages."""
    html, get, post = "text/html", "GET", "POST"
    yield Endpoint(get, "/static/{name}", static, "Style, scripts and pictures", guard=Guard.OPEN, media="*/*")
    yield Endpoint(get, "/login", login, "Sign in with the token", guard=Guard.DOOR, media=html)
    yield Endpoint(post, "/login", enter, "Sign in with the token", guard=Guard.DOOR, media=html)
    yield Endpoint(post, "/logout", leave, "Sign out", guard=Guard.DOOR, media=html)
    yield Endpoint(post, "/mirror", turn, "Turn the kill switch", guard=Guard.CHANGE, media=html)
    yield Endpoint(get, "/api", addresses, "What this port answers", "index", media=html)
    yield Endpoint(get, "/", overview, "Overview", "index", media=html)
    yield Endpoint(
        get, "/api/v1/overview", overview_json, "What the first page shows", "index", answer=schemas.OVERVIEW
    )
    yield Endpoint(get, "/divergences", divergences, "The list of divergences", "records", media=html)
    yield Endpoint(get, "/engines", engines, "Engines", "engines", media=html)
    yield Endpoint(
        get, "/api/v1/engines", engines_json, "Engines side by side", "engines",
        parameters=schemas.ONLY, answer=schemas.ENGINES,
    )  # fmt: skip
    yield Endpoint(get, "/divergences/{id}", comparison, "One comparison", "records", media=html)
    yield Endpoint(get, "/known", known, "Rules of what is known", "records", media=html)
    yield Endpoint(post, "/known", mark, "Mark differences as known", guard=Guard.CHANGE, media=html, back="/known")
    yield Endpoint(
        post,
        "/known/forget",
        unmark,
        "Take a rule of what is known away",
        guard=Guard.CHANGE,
        media=html,
        back="/known",
    )
    yield Endpoint(get, "/verdict", verdict, "Verdict", "report", media=html)
    yield Endpoint(
        get,
        "/api/v1/verdict",
        verdict_json,
        "Verdicts and how their evidence has grown",
        "report",
        answer=schemas.VERDICT,
    )
