"""The page of one comparison: what came of it in a sentence, both outputs token by token, what each engine believed at one place, what was asked, what else there is of the exchange.

House rules. Everything is in the address (``choice``, ``from``, ``token``), so that a link to a token is a link. What is not kept is said together with the setting that would keep it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aiohttp import web
from msgspec import Struct

from proxy.config import Config
from proxy.ledger import known
from proxy.ledger.detail import Detail
from proxy.ledger.listing import QueryError, brief
from proxy.ledger.pages import outputs
from proxy.ledger.pages.asking import asking
from proxy.ledger.pages.divergences import WORDS, rules_of
from proxy.ledger.pages.facts import arm_of, facts, findings
from proxy.ledger.pages.frame import render
from proxy.ledger.pages.marking import DAYS, offer
from proxy.ledger.pages.panel import panel
from proxy.ledger.pages.saying import sentence
from proxy.ledger.pages.strands import Choice, start
from proxy.ledger.query import Filter, gravest
from proxy.ledger.record import Record
from proxy.ledger.repeat import RepeatError, shell
from proxy.ledger.site import SITE
from proxy.ledger.stack import stack_differences
from proxy.ledger.store import Store

SIBLINGS = 40
#: Characters of commands that a page shows.
LONGEST = 60_000


class Seen(Struct, frozen=True):
    """Everything the page is made of."""

    record: Record
    detail: Detail | None
    footprints: tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]
    siblings: tuple[dict[str, Any], ...]
    rules: tuple[known.Rule, ...]
    trouble: str = ""


class Place(Struct, frozen=True):
    """What of it is looked at: which choice, from which token on, and the token whose panel is open; None where the address does not say."""

    choice: int = 0
    begin: int | None = None
    token: int | None = None


def place(query: Sequence[tuple[str, str]]) -> Place:
    """Read the address. Raises QueryError."""
    found: dict[str, int] = {}
    for name, value in query:
        if name not in ("choice", "from", "token", "part"):
            raise QueryError(f"{name}: unknown parameter; known are choice, from, token")
        if name != "part" and value:
            if not (value.isascii() and value.isdigit() and len(value) <= 8):
                raise QueryError(f"{name}: give a whole number")
            found[name] = int(value)
    return Place(found.get("choice", 0), found.get("from"), found.get("token"))


def read(config: Config, id: str, now: float) -> Seen | None:  # noqa: A002 - the contract's word
    """Read everything of a record; None when it is not kept. Raises StoreError."""
    with Store.open_read_only(config.records.url) as store:
        record = store.record(id)
        if record is None:
            return None
        beside = [one for one in store.records(Filter(exchange=record.exchange, limit=SIBLINGS)) if one.id != id]
        footprints = (store.footprint(record.primary_footprint), store.footprint(record.shadow_footprint))
        kept = store.detail(id)
    rules, trouble = rules_of(config, now)
    return Seen(record, kept, footprints, tuple(brief(one) for one in beside), rules, trouble)


def view(seen: Seen, at: Place, config: Config) -> dict[str, Any]:
    """Return what the page shows."""
    record, comparison = seen.record, seen.record.comparison
    kind = gravest(comparison)
    chosen = choice(record, seen.detail, at.choice)
    kept = _kept(seen)
    shown = (
        None
        if chosen is None
        else outputs.shown(chosen, start(chosen, at.begin if at.begin is not None else at.token), record.id)
    )
    token = at.token if at.token is not None else (None if chosen is None else chosen.at)
    return {
        "record": record,
        "sentence": sentence(record),
        "kind": "" if kind is None else kind.value,
        "words": WORDS,
        "facts": facts(record),
        "arms": [
            arm_of(record, arm, stack or {}) for arm, stack in zip(("primary", "shadow"), seen.footprints, strict=True)
        ],
        "stack_differences": len(stack_differences(seen.footprints[0] or {}, seen.footprints[1] or {})),
        "choices": [one.index for one in comparison.choices],
        "choice": at.choice,
        "outputs": shown,
        "texts": outputs.texts(record, at.choice) if kept == "text" and (shown is None or not shown["texts"]) else None,
        "panel": None if chosen is None or token is None else panel(chosen, token),
        "content": kept,
        "setting": config.records.content,
        "asking": asking(record.content.request) if record.content is not None and kept == "text" else None,
        "findings": findings(record, seen.footprints),
        "siblings": seen.siblings,
        "known": known.names(seen.rules, record),
        "trouble": seen.trouble,
        "offer": offer(record),
        "days": DAYS,
        "repeat": _repeat(seen, config),
    }


def choice(record: Record, detail: Detail | None, index: int) -> Choice | None:
    """Return one choice with what is kept beside it; None where nothing was compared by token."""
    compared = next((one for one in record.comparison.choices if one.index == index), None)
    if compared is None:
        return None
    beside = None if detail is None else next((one for one in detail.choices if one.index == index), None)
    made = Choice(record.comparison.mode, compared, beside)
    return made if max(made.length("primary"), made.length("shadow")) else None


def _kept(seen: Seen) -> str:
    """Say what of the texts is kept of this record: ``text``, ``hash`` or ``none``."""
    sides = [side for one in (() if seen.detail is None else seen.detail.choices) for side in (one.primary, one.shadow)]
    if any(side.texts is not None for side in sides):
        return "text"
    content = seen.record.content
    if content is None:
        return "none"
    hashed = len(content.request) == 64 and not set(content.request) - set("0123456789abcdef")
    return "hash" if hashed else "text"


def _repeat(seen: Seen, config: Config) -> dict[str, Any]:
    """Return the commands that repeat it, or why there are none, or how long they are where that is too long for a page."""
    try:
        found = shell(seen.record, seen.detail, config)
    except RepeatError as error:
        return {"shell": None, "why": str(error), "size": None}
    return {"shell": found if len(found) <= LONGEST else None, "why": None, "size": len(found)}


def _panel_alone(config: Config, id: str, at: Place) -> dict[str, Any] | None:  # noqa: A002 - the contract's word
    """Return what the panel of a token needs, and no more: a pointer that moves asks for many."""
    with Store.open_read_only(config.records.url) as store:
        record = store.record(id)
        kept = None if record is None else store.detail(id)
    if record is None:
        return None
    chosen = choice(record, kept, at.choice)
    token = None if chosen is None else at.token if at.token is not None else chosen.at
    shown = None if chosen is None or token is None else panel(chosen, token)
    return {"record": record, "words": WORDS, "panel": shown, "standalone": True}


def _whole(config: Config, id: str, at: Place, now: float) -> dict[str, Any] | None:  # noqa: A002 - the contract's word
    seen = read(config, id, now)
    return None if seen is None else view(seen, at, config) | {"standalone": False}


async def comparison(request: web.Request) -> web.Response:
    """Show the page, or (``part=panel``) the panel of a token alone."""
    site, query, wanted = request.app[SITE], list(request.query.items()), request.match_info["id"]
    at = place(query)
    if ("part", "panel") in query:
        values, template = await site.read(_panel_alone, site.config, wanted, at), "panel.html"
    else:
        values, template = await site.read(_whole, site.config, wanted, at, site.clock()), "comparison.html"
    if values is None:
        raise web.HTTPNotFound
    return render(request, template, values)
