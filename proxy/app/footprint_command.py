"""``parhelion footprint``: one engine's stack as far as it can be known, or the difference of two.

House rules. Asks, prints, changes nothing. What one side alone knows is said and is no difference.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import Any

import orjson
from msgspec import to_builtins
from rich.console import Console
from rich.table import Table
from rich.text import Text

from engines.footprint import FIELDS, Difference, Footprint, difference, redact
from engines.probe import Probe
from engines.registry import NAMES
from proxy.app.seen import ask
from proxy.config_file import ConfigError
from proxy.config_load import check_url


def footprint_json(print_: Footprint) -> dict[str, Any]:
    """Return every field with its value and origin."""
    return {field: {"value": print_.fact(field).value, "origin": print_.fact(field).origin.value} for field in FIELDS}


def difference_json(found: Sequence[Difference]) -> list[dict[str, Any]]:
    """Return the differences; ``sure`` is false where one side does not know."""
    return [
        {"field": one.field, "one": to_builtins(one.one), "other": to_builtins(one.other), "sure": one.sure}
        for one in found
    ]


def show_footprint(url: str, other: str | None, engine: str, model: str | None, *, as_json: bool) -> int:
    """Print one footprint, or the difference of two; exit status 1 when two differ. Raises ConfigError."""
    if engine != "auto" and engine not in NAMES:
        raise ConfigError(f"--engine: {engine!r} is not known; choose one of {', '.join(NAMES)}")
    urls = [url] if other is None else [url, other]
    for one in urls:
        check_url(one, "URL")
    found: list[Probe] = []
    for one in urls:
        seen = asyncio.run(ask("", one, one, "", engine, None, model, {}))
        if seen.probe is None:
            raise ConfigError(f"{one}: {seen.problem}")
        found.append(seen.probe)
    prints = [one.footprint for one in found]
    differences = difference(prints[0], prints[-1]) if len(prints) == 2 else ()
    if as_json:
        _print_json(prints, differences)
    else:
        _print_table(urls, prints, differences)
    return 1 if any(one.sure for one in differences) else 0


def _print_json(prints: list[Footprint], differences: Sequence[Difference]) -> None:
    out: dict[str, Any] = {
        "schema": "parhelion.footprint/1",
        "footprints": [footprint_json(one) for one in prints],
        "ids": [one.id for one in prints],
    }
    if len(prints) == 2:
        out["differences"] = difference_json(differences)
        out["differ"] = any(one.sure for one in differences)
    sys.stdout.write(orjson.dumps(out, option=orjson.OPT_INDENT_2).decode() + "\n")


def _print_table(urls: list[str], prints: list[Footprint], differences: Sequence[Difference]) -> None:
    table = Table(title="Footprint" if len(prints) == 1 else "Footprints", title_justify="left")
    for column in ("field", *(f"{redact(one)} [{print_.id}]" for one, print_ in zip(urls, prints, strict=True))):
        table.add_column(Text(column), overflow="fold")
    marks = {one.field: "*" if one.sure else "?" for one in differences}
    for field in FIELDS:
        cells = [Text(_cell(print_, field)) for print_ in prints]
        table.add_row(Text(f"{field} {marks.get(field, '')}".rstrip()), *cells)
    Console().print(table)
    if len(prints) < 2:
        return
    sure = [one.field for one in differences if one.sure]
    unsure = [one.field for one in differences if not one.sure]
    sys.stdout.write("they differ where marked with *\n" if sure else "nothing that is known differs\n")
    if unsure:
        sys.stdout.write(f"known on one side only, marked with ?, and so not sure: {', '.join(unsure)}\n")


def _cell(print_: Footprint, field: str) -> str:
    fact = print_.fact(field)
    return "unknown" if fact.value is None else f"{fact.value} ({fact.origin.value})"
