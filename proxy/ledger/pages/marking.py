"""Differences marked as known by people: the form on the page of a comparison, the page of all rules.

House rules. A rule is made by ``known``, which says what is wrong with one; here a form becomes its words and back. Nothing is ever counted less for a rule.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from aiohttp import web

from proxy.compare.comparison import FlipClass
from proxy.ledger import known_api, known_file
from proxy.ledger.known import KnownError, Match, Rule, Rules, checked
from proxy.ledger.listing import QueryError
from proxy.ledger.pages.forms import fields
from proxy.ledger.pages.frame import failed, render
from proxy.ledger.query import gravest
from proxy.ledger.record import Record
from proxy.ledger.site import SITE

#: Days that a rule may be given in a form.
DAYS = (1, 7, 14, 30, 90)
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_.-]+")
#: What a rule can match, in the order of the form: by the names of columns, and whether it is chosen at first.
_OFFERED = {
    "class": True,
    "finding": True,
    "shadow": True,
    "model": True,
    "mode": False,
    "endpoint": False,
    "id": False,
}


def offer(record: Record) -> dict[str, Any]:
    """Return what the form offers for a record: a name, and by column its value and whether it is chosen.

    What would hide every genuine difference of a shadow is not chosen for anybody: without a finding or a tie to go by, it is this record alone.
    """
    kind = gravest(record.comparison)
    values = {
        "class": "" if kind is None else kind.value,
        "finding": next(iter(record.comparison.findings), ""),
        "shadow": record.shadow,
        "model": record.model,
        "mode": record.comparison.mode.value,
        "endpoint": record.endpoint,
        "id": record.id,
    }
    shown = {name: value for name, value in values.items() if value and value.isprintable()}
    alone = "finding" not in shown and kind not in (FlipClass.EXACT_TIE, FlipClass.NEAR_TIE)
    parts = [shown[part] for part in ("class", "finding", "shadow") if part in shown]
    name = "-".join([*parts, record.id[:8]] if alone else parts)
    return {
        "name": _NOT_IN_A_NAME.sub("-", name).strip("-.")[:60],
        "match": [
            {"column": column, "value": value, "chosen": column == "id" if alone else _OFFERED[column]}
            for column, value in shown.items()
        ],
    }


def asked(sent: Mapping[str, str], now: float) -> Rule:
    """Make a rule of the form's fields. Raises KnownError."""
    names = {"class": "difference", "id": "record"}
    chosen = {names.get(name, name): sent[name] for name in _OFFERED if sent.get(name)}
    days = sent.get("days", "")
    if not (days.isascii() and days.isdigit() and 1 <= int(days[:4]) <= DAYS[-1]):
        raise KnownError(f"days: give a whole number from 1 to {DAYS[-1]}")
    return checked(sent.get("name", "").strip(), Match(**chosen), f"{days}d", sent.get("reason", "").strip(), now)


def view(rules: Rules, now: float, trouble: str = "") -> dict[str, Any]:
    """Return what the page of all rules shows: those in force first, the next to end on top."""
    rows = [
        {
            "name": rule.name,
            "reason": rule.reason,
            "match": list(rule.match.columns().items()),
            "created": rule.created,
            "expires": rule.expires,
            "in_force": rule.in_force(now),
            "list": f"/divergences?{urlencode({'show': 'all', 'known': rule.name})}",
        }
        for rule in rules.rules
    ]
    rows.sort(key=lambda one: (not one["in_force"], one["expires"]))
    return {"rules": rows, "trouble": trouble}


async def known(request: web.Request) -> web.Response:
    """Show all rules."""
    site = request.app[SITE]
    try:
        rules, trouble = await site.read(known_file.load, site.config), ""
    except KnownError as error:
        rules, trouble = Rules(), str(error)
    return render(request, "known.html", view(rules, site.clock(), trouble))


async def mark(request: web.Request) -> web.Response:
    """Add the rule of a form."""
    site, sent = request.app[SITE], await fields(request)
    try:
        await known_api.add(site, asked(sent, site.clock()))
    except KnownError as error:
        return failed(request, error.status, str(error))
    return web.Response(status=303, headers={"Location": "/known"})


async def unmark(request: web.Request) -> web.Response:
    """Take the rule of a form away."""
    site, sent = request.app[SITE], await fields(request)
    if not sent.get("name"):
        raise QueryError("name: give that of a rule")
    try:
        await known_api.forget(site, sent["name"])
    except KnownError as error:
        return failed(request, error.status, str(error))
    return web.Response(status=303, headers={"Location": "/known"})
