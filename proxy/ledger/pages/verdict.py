"""The page of the verdict: each candidate's sentence and what to do, how the evidence has grown, what it rests on, and the numbers of the newest records.

House rules. The verdict and its evidence are of every conversation, read at once from sums; all else is of the report over the newest records, and says so. The page shows the same parts
as the HTML report.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
from aiohttp import web
from msgspec import Struct

from proxy.config import Config
from proxy.ledger import verdicts
from proxy.ledger.api import as_json
from proxy.ledger.finer import growth
from proxy.ledger.pages.frame import render
from proxy.ledger.pages.newest import at_once
from proxy.ledger.parts import judged, measured, replies, stacks
from proxy.ledger.parts.part import At, Part
from proxy.ledger.recent import Recent
from proxy.ledger.site import SITE, Site
from proxy.ledger.sources import open_ledgers
from proxy.ledger.store_error import StoreError
from proxy.ledger.verdict_lines import verdict_lines


class Judged(Struct, frozen=True):
    """What is known of every conversation: the verdicts of the configured candidates; ``controls``: names of controls."""

    verdicts: dict[str, dict[str, Any]]
    controls: tuple[str, ...]
    store_error: str = ""


def read(config: Config) -> Judged:
    """Read the sums of all conversations, and what there was by the hour. Raises OSError when the state directory cannot be read."""
    candidates = [one.name for one in config.shadows if one.role == "candidate"]
    controls = tuple(one.name for one in config.shadows if one.role == "control")
    with open_ledgers(config) as found:
        if found.store is None:
            none = {name: verdicts.shown({}, name, config) for name in candidates}
            return Judged(none, controls, "" if found.store_error is None else str(found.store_error))
        try:
            tallies, hourly = found.store.tallies(), growth(found.store.read)
        except StoreError as error:
            return Judged({name: verdicts.shown({}, name, config) for name in candidates}, controls, str(error))
    return Judged({name: verdicts.shown(tallies, name, config, hourly) for name in candidates}, controls)


def facts(found: Judged, recent: Recent | None) -> dict[str, Any]:
    """Return what the page says, JSON-ready: verdicts, their sentences, what to do, and of what all other numbers are."""
    return {
        "schema": "parhelion.verdict/1",
        "store_error": found.store_error,
        "controls": list(found.controls),
        "newest": None if recent is None else {"as_of": recent.as_of, "records": recent.records, "of": recent.of},
        "candidates": [_facts(name, verdict, recent) for name, verdict in found.verdicts.items()],
    }


def _facts(name: str, verdict: Mapping[str, Any], recent: Recent | None) -> dict[str, Any]:
    shadow = _shadow(name, verdict, recent)
    [said] = verdict_lines({"command": "", "shadows": [shadow]})
    return {"name": name, "said": said.partition(": ")[2], "to_do": judged.to_do(shadow), "verdict": verdict}


def view(found: Judged, recent: Recent | None) -> dict[str, Any]:
    """Return what the template gets: ``facts``, and for each candidate its tone and parts."""
    shown = facts(found, recent)
    for one in shown["candidates"]:
        one["tone"] = judged.TONES.get(one["verdict"]["state"], "warn")
        one["parts"] = _parts(one["name"], one["verdict"], recent)
    return shown


def _shadow(name: str, verdict: Mapping[str, Any], recent: Recent | None) -> dict[str, Any]:
    """A candidate of the report with the verdict of now; bare where there is no report of it yet."""
    known = None if recent is None else next((one for one in recent.report["shadows"] if one["name"] == name), None)
    return {"name": name, "role": "candidate", "modes": {}, "findings": []} | (known or {}) | {"verdict": verdict}


def _parts(name: str, verdict: Mapping[str, Any], recent: Recent | None) -> list[Part]:
    shadow = At(_shadow(name, verdict, recent), "")
    if recent is None or "slices" not in shadow.value:
        return [judged.evidence(shadow)]
    report = At(recent.report, "")
    control = next((one for one in report["shadows"] if one["role"].value == "control"), None)
    return [
        judged.evidence(shadow),
        measured.floor_and_excess(shadow),
        measured.survival(shadow),
        measured.places(shadow),
        measured.values(shadow, control),
        stacks.findings(shadow),
        replies.ties(shadow, report),
        replies.latency(shadow),
    ]


async def verdict(request: web.Request) -> web.Response:
    """Show the page."""
    site = request.app[SITE]
    shown = await site.read(
        view, *await _values(site)
    )  # charts are tens of milliseconds, which others need not wait for
    return render(request, "verdict.html", shown)


async def verdict_json(request: web.Request) -> web.Response:
    """Give verdicts, their evidence over time and their sentences to programs."""
    return as_json(msgspec.to_builtins(facts(*await _values(request.app[SITE]))))


async def _values(site: Site) -> tuple[Judged, Recent | None]:
    found, recent = await asyncio.gather(site.read(read, site.config), at_once(site.config))
    return found, recent
