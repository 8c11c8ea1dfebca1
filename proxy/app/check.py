"""``parhelion check``: what the engines are, what they can do, what stands in the way of comparing them.

House rules. Asks, prints, changes nothing. Every problem is one line that names the configuration's key, what was seen and the remedy; an engine that cannot be
compared makes the exit status 1.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from msgspec import to_builtins
from rich.console import Console
from rich.table import Table
from rich.text import Text

from engines.capabilities import Level, SelfNoise
from engines.footprint import difference
from engines.parity import parity
from engines.registry import dialect
from proxy.app.canaries import ask_about, told
from proxy.app.footprint_command import difference_json, footprint_json
from proxy.app.reporting import write_json
from proxy.app.seen import Seen, ask_all
from proxy.compare.layers import Found
from proxy.config import Config
from proxy.judge.redactor import trouble
from proxy.ledger.inert import inert
from proxy.ledger.remedies import evidence_line
from proxy.ledger.sources import open_ledgers

_SOURCES = "parhelion_primary_tokens_source_total"


def check(config: Config, json_file: Path | None) -> int:
    """Probe every engine of a configuration and print what was found. Exit status 1 when one cannot be compared."""
    seen, held = asyncio.run(_asked(config))
    console = Console()
    primary = seen[0]
    console.print(_capabilities(seen))
    _levels(console, config, seen)
    for one in seen[1:]:
        _prompts(console, primary, one)
        _differences(console, primary, one)
    _findings(console, seen)
    for one in seen[1:]:
        _against(console, seen[0], one, held.get(one.name))
    _limits(console, seen)
    _advice(console, config)
    if primary.probe is not None:
        _sources(console, config, primary)
    problems = [line for one in seen for line in _problems(one)] + trouble(config)
    for line in problems:
        sys.stderr.write(f"parhelion: {line}\n")
    if json_file is not None:
        write_json(json_file, _as_json(seen, held, problems))
    console.print("not usable as it is" if problems else "usable: every engine can be compared", highlight=False)
    return 1 if problems else 0


async def _asked(config: Config) -> tuple[list[Seen], dict[str, list[Found]]]:
    """Probe every engine, then hold the shadows' answers to a few questions against the primary's."""
    seen = await ask_all(config)
    return seen, await ask_about(config, seen)


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
        table.add_column(Text(column), overflow="fold", min_width=None if column else len("alternatives"))
    columns = [dict(_lines(one)) for one in seen]
    for label in max(columns, key=len):
        table.add_row(label, *(Text(column.get(label, "")) for column in columns))
    return table


def _lines(one: Seen) -> list[tuple[str, str]]:
    known = one.probe
    if known is None:
        return [("engine", "not usable"), ("level", Level.UNUSABLE.value)]
    seen, print_ = known.capabilities, known.footprint
    forced = (
        "unknown"
        if seen.self_noise is None
        else f"median {_nats(seen.self_noise_median)}, max {_nats(seen.self_noise)}"
    )
    return [
        ("engine", f"{known.dialect} {print_.value('version')}".strip()),
        ("model", known.model),
        ("level", seen.level.value),
        ("logprobs", "no" if seen.text_only else "yes"),
        ("alternatives", str(seen.top_logprobs)),
        ("token ids", _yes(seen.token_ids)),
        ("forced scoring", _yes(seen.forced)),
        ("logprob mode", seen.logprob_mode),
        ("logits look like", seen.logits_step or "unknown"),
        ("stream as whole", _yes(seen.stream_same)),
        ("prompt tokens", str(known.prompt.count or "unknown")),
        ("self-noise (nat)", forced),
        ("  cold, warm", _noise(seen.cold_warm)),
        ("  alone, with others", _noise(seen.batch_mates)),
        ("context", str(seen.context_length or "unknown")),
        ("footprint", print_.id),
    ]


def _noise(seen: SelfNoise | None) -> str:
    if seen is None:
        return "unknown"
    if seen.max is None or seen.median is None:
        return "another text" if seen.flips else "the same text"
    parted = f", another token at {seen.positions}" if seen.flips else ""
    return f"median {_nats(seen.median)}, max {_nats(seen.max)}{parted} (n {seen.positions})"


def _nats(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.1e}" if value else "0"


def _yes(value: bool | None) -> str:
    return "unknown" if value is None else "yes" if value else "no"


def _levels(console: Console, config: Config, seen: list[Seen]) -> None:
    """Say what every engine's level means, and which of the configured modes it rules out."""
    wanted = {shadow.name: shadow.modes for shadow in config.shadows}
    for one in seen:
        if one.probe is None:
            continue
        level = one.probe.capabilities.level
        off = [mode for mode in wanted.get(one.name, ()) if mode not in level.modes]
        without = f"; no {' and no '.join(off)} mode" if off else ""
        console.print(Text(f"{one.name}: {level.value}: {level.meaning}{without}"))


def _prompts(console: Console, primary: Seen, one: Seen) -> None:
    """Say whether the primary and a shadow make the same prompt of the canary."""
    if primary.probe is not None and one.probe is not None:
        held = parity(primary.probe.prompt, one.probe.prompt)
        names = f" ({', '.join(held.findings)})" if held.findings else ""
        console.print(Text(f"prompt of primary and {one.name}: {held.text}{names}"))


def _differences(console: Console, primary: Seen, one: Seen) -> None:
    if primary.probe is None or one.probe is None:
        return
    found = difference(primary.probe.footprint, one.probe.footprint)
    sure = [each for each in found if each.sure]
    unsure = [each.field for each in found if not each.sure]
    lines = [f"{each.field}: {each.one.value} -> {each.other.value}" for each in sure]
    console.print(Text(f"{one.name} differs from primary in: {'; '.join(lines) or 'nothing that is known'}"))
    if unsure:
        console.print(Text(f"  known on one side only, and so not sure: {', '.join(unsure)}"))


def _findings(console: Console, seen: list[Seen]) -> None:
    for one in seen:
        for finding in one.probe.findings if one.probe else ():
            console.print(Text(f"{one.name}: {finding.finding}: {finding.text}; {finding.remedy}"))


def _against(console: Console, primary: Seen, one: Seen, found: list[Found] | None) -> None:
    """Say what differs between the primary and a shadow and is not numeric, by layer."""
    if found is None:
        return
    if not found:
        console.print(Text(f"{one.name} against primary: the canaries show no finding"))
    for each in told(found, primary, one):
        seen = f" [{inert(evidence_line(each['evidence']), 300)}]" if each["evidence"] else ""
        console.print(
            Text(f"{one.name} against primary: {each['finding']} ({each['severity']}){seen}. {each['remedy']}")
        )


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


def _as_json(seen: list[Seen], held: dict[str, list[Found]], problems: list[str]) -> dict[str, Any]:
    engines = [_engine_json(one, seen[0]) for one in seen]
    for one, entry in zip(seen[1:], engines[1:], strict=True):
        if (found := held.get(one.name)) is not None:
            entry["against_primary"] = told(found, seen[0], one)
    return {"schema": "parhelion.check/1", "engines": engines, "problems": problems, "usable": not problems}


def _engine_json(one: Seen, primary: Seen) -> dict[str, Any]:
    entry: dict[str, Any] = {"key": one.key, "name": one.name, "role": one.role, "problem": one.problem}
    if (known := one.probe) is None:
        return entry | {"level": Level.UNUSABLE.value, "modes": []}
    level = known.capabilities.level
    entry |= {
        "engine": known.dialect,
        "model": known.model,
        "level": level.value,
        "modes": [mode.value for mode in level.modes],
        "compared": level.meaning,
        "capabilities": to_builtins(known.capabilities),
        "prompt_tokens": known.prompt.count,
        "footprint": footprint_json(known.footprint),
        "footprint_id": known.footprint.id,
        "findings": to_builtins(known.findings),
    }
    if one is not primary and primary.probe is not None:
        entry["prompt_parity"] = to_builtins(parity(primary.probe.prompt, known.prompt))
        entry["footprint_differences"] = difference_json(difference(primary.probe.footprint, known.footprint))
    return entry
