"""``parhelion check`` and ``parhelion footprint``: what the engines are, what they can do, what stands in the way of comparing them.

House rules. Asks, prints, changes nothing. Every problem is one line that names the configuration's key, what was seen and the remedy; an engine that cannot be
compared makes the exit status 1.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
from msgspec import Struct, to_builtins
from rich.console import Console
from rich.table import Table
from rich.text import Text

from engines.capabilities import remedy
from engines.dialect import DialectError
from engines.footprint import FIELDS, Footprint, difference
from engines.http_fetch import connect
from engines.probe import Probe, probe
from engines.registry import NAMES, detect, dialect
from proxy.app.reporting import write_json
from proxy.config import Config
from proxy.config_file import ConfigError
from proxy.config_load import check_url
from proxy.ledger.sources import open_ledgers

_SECONDS = 60.0
_NO_TLS = {"timeout", "connect_timeout", "tls", "reset"}
_SOURCES = "parhelion_primary_tokens_source_total"


def check(config: Config, json_file: Path | None) -> int:
    """Probe every engine of a configuration and print what was found. Exit status 1 when one cannot be compared."""
    seen = asyncio.run(_ask_all(config))
    console = Console()
    primary = seen[0]
    console.print(_capabilities(seen))
    for one in seen[1:]:
        _differences(console, primary, one)
    _findings(console, seen)
    _limits(console, seen)
    _advice(console, config)
    if primary.probe is not None:
        _sources(console, config, primary)
    problems = [line for one in seen for line in _problems(one)]
    for line in problems:
        sys.stderr.write(f"parhelion: {line}\n")
    if json_file is not None:
        write_json(json_file, _as_json(seen, problems))
    console.print("not usable as it is" if problems else "usable: every engine can be compared", highlight=False)
    return 1 if problems else 0


def _problems(one: Seen) -> list[str]:
    where = f"{one.key}.url: {one.name} at {one.url}"
    if one.probe is None:
        return [f"{where}: {one.problem}"]
    if one.role == "primary":  # its tokens can be had in other ways; a shadow's cannot
        return []
    return [f"{where}: {finding.text}; {finding.remedy}" for finding in one.probe.findings if finding.severe]


def _capabilities(seen: list[Seen]) -> Table:
    table = Table(title="Engines", title_justify="left")
    for column in ("", *(f"{one.name} ({one.role})" if one.name != one.role else one.name for one in seen)):
        table.add_column(Text(column), overflow="fold")
    rows: dict[str, list[str]] = {}
    for one in seen:
        for label, value in _lines(one):
            rows.setdefault(label, []).append(value)
    for label, values in rows.items():
        table.add_row(label, *(Text(value) for value in values))
    return table


def _lines(one: Seen) -> list[tuple[str, str]]:
    known = one.probe
    labels = (
        "engine",
        "model",
        "logprobs",
        "alternatives",
        "token ids",
        "forced scoring",
        "logprob mode",
        "logits look like",
        "self-noise (nat)",
        "context",
    )
    if known is None:
        return [(label, "not usable" if label == "engine" else "") for label in labels]
    seen, print_ = known.capabilities, known.footprint
    noise = "unknown" if seen.self_noise is None else f"median {seen.self_noise_median:.1e}, max {seen.self_noise:.1e}"
    values = (
        f"{known.dialect} {print_.value('version')}".strip(),
        known.model,
        "no" if seen.text_only else "yes",
        str(seen.top_logprobs),
        _yes(seen.token_ids),
        _yes(seen.forced),
        seen.logprob_mode,
        seen.logits_step or "unknown",
        noise,
        str(seen.context_length or "unknown"),
    )
    return list(zip(labels, values, strict=True))


def _yes(value: bool | None) -> str:
    return "unknown" if value is None else "yes" if value else "no"


def _differences(console: Console, primary: Seen, one: Seen) -> None:
    if primary.probe is None or one.probe is None:
        return
    found = difference(primary.probe.footprint, one.probe.footprint)
    sure = [each for each in found if each.sure]
    unsure = [each.field for each in found if not each.sure]
    lines = [f"{each.field}: {each.one.value} -> {each.other.value}" for each in sure]
    console.print(Text(f"{one.name} differs from primary in: {'; '.join(lines) or 'nothing that is known'}"))
    if unsure:
        console.print(Text(f"  known on one side only: {', '.join(unsure)}"))


def _findings(console: Console, seen: list[Seen]) -> None:
    for one in seen:
        for finding in one.probe.findings if one.probe else ():
            console.print(Text(f"{one.name}: {finding.finding}: {finding.text}; {finding.remedy}"))


def _limits(console: Console, seen: list[Seen]) -> None:
    """Say what every engine of a kind cannot do, however it is started."""
    for name in dict.fromkeys(one.probe.dialect for one in seen if one.probe is not None):
        for note in dialect(name).notes:
            console.print(Text(f"{name}: {note}"))


def _advice(console: Console, config: Config) -> None:
    """Say what makes the numbers worth less."""
    if config.shadows and all(shadow.role != "control" for shadow in config.shadows):
        console.print(
            Text(
                "no control: there is no noise floor, and requests that ask for no logprobs are compared as text only; add a second instance of the primary's own stack with --control"
            )
        )
    for shadow in config.shadows:
        if shadow.url.rstrip("/") == config.primary.url.rstrip("/"):
            instance = (
                "the same instance: its batch changes with the primary's own traffic"
                if shadow.role == "control"
                else "the primary itself, so nothing is compared with anything else"
            )
            console.print(Text(f"{shadow.name} is {instance}"))


def _sources(console: Console, config: Config, primary: Seen) -> None:
    """Say in which ways the primary's tokens can be had, since most clients ask for none."""
    ways = ["reply (the client asked)"]
    if config.primary.logprobs == "inject":
        ways.append("inject")
    if any(shadow.role == "control" for shadow in config.shadows):
        ways += ["by_control (greedy, same text)", "canonical (forced mode, any traffic)"]
    if config.primary.logprobs == "rescore":
        ways.append("rescore (greedy, same text)")
    ways.append("text alone")
    if primary.probe is not None and primary.probe.capabilities.text_only:
        ways.remove("reply (the client asked)")
    console.print(Text(f"The primary's tokens can come from: {', '.join(ways)}."))
    shares = _shares(config)
    if shares:
        console.print(Text(f"So far they came from: {shares}."))


def _shares(config: Config) -> str:
    """The share of traffic in each way, as this replica's judge has counted it; empty before there was any."""
    try:
        with open_ledgers(config) as found:
            points = found.snapshot.points.get(_SOURCES, {}) if found.snapshot is not None else {}
            counted = {labels[0]: float(point.value) for labels, point in points.items()}
    except OSError:
        return ""
    total = sum(counted.values())
    return ", ".join(f"{source} {count / total:.1%}" for source, count in counted.items() if count) if total else ""


def _as_json(seen: list[Seen], problems: list[str]) -> dict[str, Any]:
    engines = []
    for one in seen:
        entry: dict[str, Any] = {"key": one.key, "name": one.name, "role": one.role, "problem": one.problem}
        if one.probe is not None:
            entry |= {
                "engine": one.probe.dialect,
                "model": one.probe.model,
                "capabilities": to_builtins(one.probe.capabilities),
                "footprint": _footprint_json(one.probe.footprint),
                "findings": to_builtins(one.probe.findings),
            }
        engines.append(entry)
    return {"schema": "parhelion.check/1", "engines": engines, "problems": problems, "usable": not problems}
