"""The list of divergences: what was asked for in the address bar, what was found, how to go on in both directions.

House rules. The address is the state: every filter is a field of a plain form that is sent with GET. An empty field is one that was not filled in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from aiohttp import web
from msgspec import Struct
from msgspec.structs import replace

from engines.dialect import Endpoint as Route
from proxy.config import Config
from proxy.ledger.listing import QueryError, shown, wanted
from proxy.ledger.pages.frame import render
from proxy.ledger.query import GRAVITY, Filter
from proxy.ledger.remedies import ADVICE
from proxy.ledger.search import search
from proxy.ledger.site import SITE
from proxy.ledger.store import Store
from proxy.ledger.store_error import StoreError

ROWS = 50
#: In the order of the form.
FIELDS = ("show", "class", "finding", "model", "shadow", "mode", "endpoint", "since", "until", "exchange")
WORDS = {"genuine": "genuine", "unknown": "unknown", "near_tie": "near tie", "exact_tie": "exact tie"}
SHOWN = {"differing": "differences", "all": "all comparisons", "incomparable": "what could not be compared"}


class Asked(Struct, frozen=True):
    """What was asked for. ``fields``: those of the form that were filled in; ``before``: the id of the record of which newer ones are wanted."""

    filter: Filter
    fields: dict[str, str]
    before: str | None = None


class Found(Struct, frozen=True):
    """One page of the list: rows as ``listing.brief`` gives them, newest first; ids of the records before and after which there are more, None where there are none.

    ``searched_to``: where looking stopped before there were enough, Unix seconds.
    """

    rows: tuple[dict[str, Any], ...] = ()
    newer: str | None = None
    older: str | None = None
    searched_to: float | None = None
    gone: bool = False
    empty_store: bool = False


def asked(query: Sequence[tuple[str, str]]) -> Asked:
    """Read the address. Raises QueryError."""
    given = [(name, value.strip()) for name, value in query if value.strip()]
    fields = {name: value for name, value in given if name in FIELDS}
    own = dict(given)
    show = fields.get("show", "differing")
    if show not in SHOWN:
        raise QueryError(f"show: give one of {', '.join(SHOWN)}")
    kept = [(name, value) for name, value in given if name not in ("show", "before")]
    found = replace(wanted(kept), limit=ROWS)
    match show:
        case "differing":
            found = replace(found, differing=True)
        case "incomparable":
            found = replace(found, outcome="incomparable")
        case _:
            pass
    if "before" in own and found.after is not None:
        raise QueryError("after and before: give one of them")
    return Asked(found, fields, own.get("before"))


def read(config: Config, sought: Asked) -> Found:
    """Look up one page of the list. Raises StoreError."""
    try:
        with Store.open_read_only(config.records.url) as store:
            return found(store, sought)
    except StoreError as error:
        if error.reason == "missing":
            return Found(empty_store=True)
        raise


def found(store: Store, sought: Asked) -> Found:
    """Look up one page in an open store. Raises StoreError."""
    try:
        if sought.before is not None:
            turned = replace(sought.filter, after=sought.before, newest_first=False)
            page = search(store.read, turned)
            if page.next is not None or len(page.rows) == ROWS:
                rows = tuple(shown(one) for one in reversed(page.rows))
                return Found(rows, page.next, sought.before if not rows else rows[-1]["id"], page.searched_to)
            sought = Asked(sought.filter, sought.fields)  # so few are newer: they are the beginning
        page = search(store.read, sought.filter)
    except KeyError:
        return Found(gone=True)
    rows = tuple(shown(one) for one in page.rows)
    newer = sought.filter.after if not rows else rows[0]["id"]
    return Found(rows, None if sought.filter.after is None else newer, page.next, page.searched_to)


def view(sought: Asked, page: Found, config: Config) -> dict[str, Any]:
    """Return what the page shows."""
    rows = page.rows
    return {
        "fields": {name: sought.fields.get(name, "") for name in FIELDS},
        "choices": choices(config, sought.fields),
        "filtered": any(name != "show" for name in sought.fields),
        "shown": SHOWN[sought.fields.get("show", "differing")],
        "shows": list(SHOWN.items()),
        "words": WORDS,
        "rows": [_row(one) for one in rows],
        "newer": address(sought.fields, before=page.newer) if page.newer is not None else None,
        "older": address(sought.fields, after=page.older) if page.older is not None else None,
        "searched_to": page.searched_to,
        "newest": address(sought.fields),
        "api": _api(sought),
        "gone": page.gone,
        "empty_store": page.empty_store,
        "shadows": [one.name for one in config.shadows],
    }


def choices(config: Config, fields: Mapping[str, str]) -> dict[str, list[str]]:
    """Return what each field of the form offers; what was asked for is always among it."""
    offered = {
        "class": [kind.value for kind in GRAVITY],
        "finding": sorted(ADVICE),
        "shadow": [one.name for one in config.shadows],
        "mode": ["free", "forced"],
        "endpoint": [one.value for one in Route],
    }
    for name, values in offered.items():
        if (value := fields.get(name)) is not None and value not in values:
            values.append(value)
    return offered


def address(fields: Mapping[str, str], **more: str) -> str:
    """Return the address of the list with such fields."""
    pairs = [(name, fields[name]) for name in FIELDS if name in fields] + list(more.items())
    return f"/divergences?{urlencode(pairs)}" if pairs else "/divergences"


def _api(sought: Asked) -> str:
    """Return the address of the same records as JSON."""
    pairs = [(name, value) for name, value in sought.fields.items() if name != "show"]
    if sought.filter.differing:
        pairs.append(("differing", "yes"))
    elif sought.filter.outcome is not None:
        pairs.append(("outcome", sought.filter.outcome))
    return f"/api/v1/records?{urlencode(pairs)}" if pairs else "/api/v1/records"


def _row(one: Mapping[str, Any]) -> dict[str, Any]:
    return dict(one) | {"href": f"/divergences/{one['id']}"}


async def divergences(request: web.Request) -> web.Response:
    """Show the page."""
    site = request.app[SITE]
    sought = asked(list(request.query.items()))
    page = await site.read(read, site.config, sought)
    return render(request, "divergences.html", view(sought, page, site.config))
