"""``parhelion footprint``: one engine's stack as far as it can be known, or the difference of two.

House rules. Asks, prints, changes nothing. What one side alone knows is said and is no difference.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import orjson
from rich.console import Console
from rich.table import Table
from rich.text import Text

from engines.footprint import FIELDS, Footprint, difference
from engines.probe import Probe
from engines.registry import NAMES
from proxy.app.seen import ask
from proxy.config_load import ConfigError, check_url


def _footprint_json(print_: Footprint) -> dict[str, Any]:
    return {field: {"value": print_.fact(field).value, "origin": print_.fact(field).origin.value} for field in FIELDS}


def show_footprint(url: str, other: str | None, engine: str, model: str | None, *, as_json: bool) -> int:
    """Print one footprint, or the difference of two; exit status 1 when two differ. Raises ConfigError."""
    if engine != "auto" and engine not in NAMES:
        raise ConfigError(f"--engine: {engine!r} is not known; choose one of {', '.join(NAMES)}")
    urls = [url] if other is None else [url, other]
    for one in urls:
        check_url(one, "URL")
    found: list[Probe] = []
    for one in urls:
        seen = asyncio.run(_ask("", one, one, "", engine, None, model, {}))
        if seen.probe is None:
            raise ConfigError(f"{one}: {seen.problem}")
        found.append(seen.probe)
    prints = [one.footprint for one in found]
    differences = difference(prints[0], prints[-1]) if len(prints) == 2 else ()
    differs = any(one.sure for one in differences)
    if as_json:
        out = {"footprints": [_footprint_json(one) for one in prints], "ids": [one.id for one in prints]}
        if len(prints) == 2:
            out["differences"] = to_builtins(differences)
        sys.stdout.write(orjson.dumps(out, option=orjson.OPT_INDENT_2).decode() + "\n")
        return 1 if differs else 0
    table = Table(title="Footprint" if len(prints) == 1 else "Footprints", title_justify="left")
    for column in ("field", *(f"{one} [{print_.id}]" for one, print_ in zip(urls, prints, strict=True))):
        table.add_column(Text(column), overflow="fold")
    marked = {one.field for one in differences if one.sure}
    for field in FIELDS:
        cells = [Text(_cell(print_, field)) for print_ in prints]
        table.add_row(Text(f"{field} *" if field in marked else field), *cells)
    Console().print(table)
    if len(prints) == 2:
        sys.stdout.write("they differ where marked with *\n" if differs else "nothing that is known differs\n")
    return 1 if differs else 0


def _cell(print_: Footprint, field: str) -> str:
    fact = print_.fact(field)
    return "unknown" if fact.value is None else f"{fact.value} ({fact.origin.value})"
