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
from proxy.ledger import known_file
from proxy.ledger.facets import Read, facets
from proxy.ledger.known import KnownError, Rule, matches
from proxy.ledger.labels import OTHER
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
FIELDS = ("show", "class", "finding", "model", "shadow", "mode", "endpoint", "since", "until", "exchange", "known")
WORDS = {"genuine": "genuine", "unknown": "unknown", "near_tie": "near tie", "exact_tie": "exact tie"}
KNOWN = ("hide", "show")
#: By field of a filter, that of the form.
FACETS = {
    "model": "model",
    "endpoint": "endpoint",
    "shadow": "shadow",
    "mode": "mode",
    "outcome": "show",
    "difference": "class",
}
SHOWN = {"differing": "differences", "all": "all comparisons", "incomparable": "what could not be compared"}


class Asked(Struct, frozen=True):
    """What was asked for. ``fields``: those of the form that were filled in; ``before``: the id of the record of which newer ones are wanted."""

    filter: Filter
    fields: dict[str, str]
    before: str | None = None


class Found(Struct, frozen=True):
    """One page of the list: rows as ``listing.shown`` gives them, newest first; ids of the records before and after which there are more, None where there are none.

    ``searched_to``: where looking stopped before the page was full (Unix seconds). ``facets``: see there. ``trouble``: why known differences are not told apart.
    """

    rows: tuple[dict[str, Any], ...] = ()
    newer: str | None = None
    older: str | None = None
    gone: bool = False
    empty_store: bool = False
    searched_to: float | None = None
    facets: Mapping[str, Mapping[str, int]] = {}
    rules: tuple[Rule, ...] = ()
    trouble: str = ""


def asked(query: Sequence[tuple[str, str]]) -> Asked:
    """Read the address. Raises QueryError."""
    given = [(name, value.strip()) for name, value in query if value.strip()]
    fields = {name: value for name, value in given if name in FIELDS}
    own = dict(given)
    show = fields.get("show", "differing")
    if show not in SHOWN:
        raise QueryError(f"show: give one of {', '.join(SHOWN)}")
    kept = [(name, value) for name, value in given if name not in ("show", "before", "known")]
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


def read(config: Config, sought: Asked, now: float) -> Found:
    """Look up one page of the list. Raises StoreError."""
    rules, trouble = rules_of(config, now)
    try:
        with Store.open_read_only(config.records.url) as store:
            page = found(store.read, sought, rules)
            return replace(page, facets=facets(store.read, sought.filter), rules=rules, trouble=trouble)
    except StoreError as error:
        if error.reason == "missing":
            return Found(empty_store=True)
        raise


def rules_of(config: Config, now: float) -> tuple[tuple[Rule, ...], str]:
    """Return the rules in force, and why they cannot be read ("" where they can)."""
    try:
        return known_file.load(config).in_force(now), ""
    except KnownError as error:
        return (), str(error)


def found(reads: Read, sought: Asked, rules: Sequence[Rule] = ()) -> Found:
    """Look up one page in an open store. Raises StoreError, QueryError."""
    known = sought.fields.get("known", "hide")
    hidden = [rule.match.columns() for rule in rules] if known == "hide" else []
    rule = None if known in KNOWN else _rule(known, rules)
    wanted_ = sought.filter if rule is None else _of_rule(reads, sought.filter, rule)
    if wanted_ is None:
        return Found()
    try:
        if sought.before is not None:
            page = search(reads, replace(wanted_, after=sought.before, newest_first=False), hidden)
            if page.next is not None or len(page.rows) == ROWS:
                rows = tuple(shown(one) for one in reversed(page.rows))
                older = sought.before if not rows else rows[-1]["id"]
                return Found(rows, page.next, older, searched_to=page.searched_to)
            # so few are newer: they are the beginning
        page = search(reads, wanted_, hidden)
    except KeyError:
        return Found(gone=True)
    rows = tuple(one for one in map(shown, page.rows) if rule is None or _is_known(one, rule))
    newer = None if wanted_.after is None else wanted_.after if not rows else rows[0]["id"]
    return Found(rows, newer, page.next, searched_to=page.searched_to)


def _rule(name: str, rules: Sequence[Rule]) -> Rule:
    found = next((one for one in rules if one.name == name), None)
    if found is None:
        names = ", ".join(one.name for one in rules) or "there is none"
        raise QueryError(f"known: give hide, show, or the name of a rule that is in force: {names}")
    return found


def _of_rule(reads: Read, sought: Filter, rule: Rule) -> Filter | None:
    """Narrow a filter to what a rule marks (where that is one record, to its exchange); None where nothing can be both."""
    changes = {"difference" if name == "class" else name: value for name, value in rule.match.columns().items()}
    if "id" in changes:
        of = reads("SELECT exchange FROM records WHERE id = ?", [changes.pop("id")])
        changes["exchange"] = of[0][0] if of else ""
    if any(getattr(sought, name) not in (None, value) for name, value in changes.items()):
        return None
    return replace(sought, **changes)


def view(sought: Asked, page: Found, config: Config) -> dict[str, Any]:
    """Return what the page shows."""
    rows = page.rows
    return {
        "fields": {name: sought.fields.get(name, "") for name in FIELDS},
        "choices": choices(config, sought.fields, page.facets),
        "filtered": any(name not in ("show", "known") for name in sought.fields),
        "shown": SHOWN[sought.fields.get("show", "differing")],
        "shows": list(SHOWN.items()),
        "words": WORDS,
        "rows": [_row(one, page.rules) for one in rows],
        "newer": address(sought.fields, before=page.newer) if page.newer is not None else None,
        "older": address(sought.fields, after=page.older) if page.older is not None else None,
        "searched_to": page.searched_to,
        "counts": {FACETS[name]: values for name, values in page.facets.items()},
        "rules": [one.name for one in page.rules],
        "trouble": page.trouble,
        "newest": address(sought.fields),
        "api": _api(sought, hides=bool(page.rules)),
        "gone": page.gone,
        "empty_store": page.empty_store,
        "shadows": [one.name for one in config.shadows],
    }


def choices(config: Config, fields: Mapping[str, str], counts: Mapping[str, Mapping[str, int]]) -> dict[str, list[str]]:
    """Return what each field of the form offers; what was asked for, and what there are records of, is always among it."""
    offered = {
        "class": [kind.value for kind in GRAVITY],
        "finding": sorted(ADVICE),
        "shadow": [one.name for one in config.shadows],
        "mode": ["free", "forced"],
        "endpoint": [one.value for one in Route],
    }
    offered["model"] = [name for name in counts.get("model", {}) if name != OTHER]
    offered["shadow"] += [name for name in counts.get("shadow", {}) if name not in offered["shadow"]]
    for name, values in offered.items():
        if (value := fields.get(name)) is not None and value not in values:
            values.append(value)
    return offered


def address(fields: Mapping[str, str], **more: str) -> str:
    """Return the address of the list with such fields."""
    pairs = [(name, fields[name]) for name in FIELDS if name in fields] + list(more.items())
    return f"/divergences?{urlencode(pairs)}" if pairs else "/divergences"


def _api(sought: Asked, *, hides: bool) -> str:
    """Return the address of the same records as JSON."""
    pairs = [(name, value) for name, value in sought.fields.items() if name not in ("show", "known")]
    if sought.filter.differing:
        pairs.append(("differing", "yes"))
    elif sought.filter.outcome is not None:
        pairs.append(("outcome", sought.filter.outcome))
    if hides and sought.fields.get("known", "hide") == "hide":
        pairs.append(("known", "hide"))
    return f"/api/v1/records?{urlencode(pairs)}" if pairs else "/api/v1/records"


def _row(one: Mapping[str, Any], rules: Sequence[Rule]) -> dict[str, Any]:
    known = [rule.name for rule in rules if _is_known(one, rule)]
    return {**one, "href": f"/divergences/{one['id']}", "known": known}


def _is_known(one: Mapping[str, Any], rule: Rule) -> bool:
    return matches(rule, {**one, "findings": f" {' '.join(one['findings'])} "})


async def divergences(request: web.Request) -> web.Response:
    """Show the page."""
    site = request.app[SITE]
    sought = asked(list(request.query.items()))
    page = await site.read(read, site.config, sought, site.clock())
    return render(request, "divergences.html", view(sought, page, site.config))
