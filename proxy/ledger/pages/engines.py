"""The engines side by side: what each one's stack is, how that is known, what differs from the primary's, what has changed, what was found.

House rules. Which differences count is decided by ``stack``, what a finding means by ``remedies``. A fact that nobody knows is said to be unknown, and a difference to it is
marked as one that only may be.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from aiohttp import web
from msgspec import Struct

from engines.capabilities import Level
from engines.footprint import FIELDS
from proxy.compare.layers import Evidence, place
from proxy.config import Config
from proxy.ledger import changes, engine_state
from proxy.ledger.api import as_json
from proxy.ledger.changes import Change
from proxy.ledger.engine_state import EngineState
from proxy.ledger.listing import QueryError
from proxy.ledger.metrics import PREFIX
from proxy.ledger.pages.frame import render
from proxy.ledger.pages.newest import at_once
from proxy.ledger.remedies import Engine, advice, evidence_line
from proxy.ledger.site import SITE, Site
from proxy.ledger.sources import open_ledgers
from proxy.ledger.stack import stack_differences

_CHANGES = 30
_LETTERS = {"probed": "P", "declared": "D", "inferred": "I"}


class Known(Struct, frozen=True):
    """What is read for this page. ``arms``: name and role, the primary first; ``findings``: how often, by shadow and finding; None where no judge has said."""

    arms: list[tuple[str, str]]
    states: dict[str, EngineState]
    footprints: dict[str, dict[str, Any]]
    changes: list[Change]
    findings: dict[str, dict[str, int]] | None
    store_error: str = ""


def view(known: Known, *, only_differences: bool = False, recent: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return what the page shows. ``recent``: the report over the newest records, which has what was seen of each finding; None while there is none."""
    stacks = {name: known.footprints.get(name, {}) for name, _ in known.arms}
    differing = {
        name: {one["field"]: bool(one["sure"]) for one in stack_differences(stacks["primary"], stack)}
        for name, stack in stacks.items()
        if name != "primary"
    }
    rows = [_row(field, known, stacks, differing) for field in FIELDS]
    told = [row for row in rows if any(cell["value"] is not None for cell in row["cells"])]
    return {
        "schema": "parhelion.engines/1",
        "store_error": known.store_error,
        "arms": [_arm(name, role, known.states.get(name), differing.get(name)) for name, role in known.arms],
        "only_differences": only_differences,
        "rows": [row for row in told if row["differs"] or not only_differences],
        "untold": [row["field"] for row in rows if row not in told],
        "changes": [_change(one) for one in reversed(known.changes[-_CHANGES:])],
        "findings": None if known.findings is None else _findings(known.findings, stacks, _seen(recent)),
    }


def _row(
    field: str, known: Known, stacks: Mapping[str, Mapping[str, Any]], differing: Mapping[str, Mapping[str, bool]]
) -> dict[str, Any]:
    cells = []
    for name, _ in known.arms:
        value, state = stacks[name].get(field), known.states.get(name)
        origin = "unknown" if state is None else state.origins.get(field, "unknown")
        cells.append({
            "arm": name,
            "value": value,
            "origin": origin if value is not None else "unknown",
            "letter": _LETTERS.get(origin, "") if value is not None else "",
            "differs": differing.get(name, {}).get(field) is True,
            "may_differ": differing.get(name, {}).get(field) is False,
        })  # fmt: skip
    return {"field": field, "cells": cells, "differs": any(cell["differs"] for cell in cells)}


def _arm(name: str, role: str, state: EngineState | None, differing: Mapping[str, bool] | None) -> dict[str, Any]:
    told: dict[str, Any] = {"name": name, "role": role, "known": state is not None}
    if state is None:
        return told
    level = Level(state.level) if state.level in set(Level) else None
    return told | {
        "url": state.url,
        "footprint": state.footprint,
        "looked": state.looked,
        "level": state.level,
        "meaning": "" if level is None else level.meaning,
        "modes": [] if level is None else [mode.value for mode in level.modes],
        "differences": None if differing is None else sum(differing.values()),
        "perhaps": None if differing is None else sum(not sure for sure in differing.values()),
    }


def _change(one: Change) -> dict[str, Any]:
    return {
        "time": one.time,
        "confirmed": one.confirmed,
        "arm": one.arm,
        "fields": [{"field": name, "before": pair[0], "after": pair[1]} for name, pair in one.fields.items()],
    }


def _seen(recent: Mapping[str, Any] | None) -> dict[tuple[str, str], Evidence]:
    """Return what was seen of each finding, by shadow and finding."""
    shadows = [] if recent is None else recent["shadows"]
    return {(one["name"], found["finding"]): found["evidence"] for one in shadows for found in one["findings"]}


def _findings(
    counted: Mapping[str, Mapping[str, int]],
    stacks: Mapping[str, Mapping[str, Any]],
    seen: Mapping[tuple[str, str], Evidence],
) -> list[dict[str, Any]]:
    found = []
    primary = Engine("primary", str(stacks["primary"].get("engine") or ""))
    for shadow, counts in counted.items():
        arms = {"primary": primary, "shadow": Engine(shadow, str(stacks.get(shadow, {}).get("engine") or ""))}
        for finding in sorted(counts, key=place):
            evidence = seen.get((shadow, finding), {})
            told = advice(finding, evidence, arms)
            found.append({
                "shadow": shadow, "finding": finding, "count": counts[finding], "severity": told.severity, "remedy": told.remedy,
                "evidence": evidence, "seen": evidence_line(evidence),
            })  # fmt: skip
    return found


def read(config: Config) -> Known:
    """Read what the store and the judge's last word know of the engines. Raises OSError when the state directory cannot be read."""
    arms = [("primary", "primary"), *((one.name, one.role) for one in config.shadows)]
    with open_ledgers(config) as found:
        findings = None if found.snapshot is None else _counted(found.snapshot.points, [name for name, _ in arms])
        if found.store is None:
            return Known(arms, {}, {}, [], findings, "" if found.store_error is None else str(found.store_error))
        states = engine_state.decode(found.store.get_state(engine_state.KEY))
        stacks = {name: found.store.footprint(one.footprint) or {} for name, one in states.items()}
        return Known(arms, states, stacks, changes.changes_of(found.store.events()), findings)


def _counted(points: Mapping[str, Mapping[tuple[str, ...], Any]], names: Sequence[str]) -> dict[str, dict[str, int]]:
    counted: dict[str, dict[str, int]] = {}
    for (shadow, finding), point in sorted(points.get(PREFIX + "findings_total", {}).items()):
        if shadow in names and point.value:
            counted.setdefault(shadow, {})[finding] = int(point.value)
    return counted


async def engines(request: web.Request) -> web.Response:
    """Show the page."""
    only = _only(request)
    return render(request, "engines.html", await _values(request.app[SITE], only=only))


async def engines_json(request: web.Request) -> web.Response:
    """Give the same to programs."""
    return as_json(msgspec.to_builtins(await _values(request.app[SITE], only=_only(request))))


async def _values(site: Site, *, only: bool) -> dict[str, Any]:
    known, newest = await asyncio.gather(site.read(read, site.config), at_once(site.config))
    return view(known, only_differences=only, recent=None if newest is None else newest.report)


def _only(request: web.Request) -> bool:
    given = request.query.get("only", "")
    if given not in ("", "differences") or set(request.query) - {"only"}:
        raise QueryError("the only parameter here is only=differences")
    return bool(given)
