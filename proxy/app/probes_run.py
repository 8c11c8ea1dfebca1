"""The work of ``parhelion probes run``: an engine learned, looked at once, or watched.

House rules. Asks, prints, keeps the baseline; what is a change is ``proxy.probes.change``'s to say. Exit status 0 unchanged or learned, 1 changed; what cannot be told is a ConfigError.
"""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, to_builtins
from rich.console import Console
from rich.table import Table
from rich.text import Text

from engines.capabilities import remedy
from engines.dialect import DialectError, Fetch
from engines.http_fetch import connect
from engines.probe import stack_of
from engines.registry import NAMES, detect, dialect
from proxy.app.reporting import heard, write_json
from proxy.config_file import ConfigError
from proxy.config_load import check_url
from proxy.ledger.inert import inert
from proxy.probes import baseline as baselines
from proxy.probes.ask import NoRun, Run, Subject
from proxy.probes.ask import run as one_run
from proxy.probes.baseline import Baseline
from proxy.probes.change import LEARNED, Change, block, compare, suspicious
from proxy.probes.probe import BadProbes, ProbeSet, load, save

_SECONDS, _DAY = 120.0, 86400.0
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_SHOWN = 8


class Asked(Struct, frozen=True):
    """What the command line says; ``alpha`` is a day's where ``every`` is given."""

    file: Path
    url: str
    baseline: Path
    learn: bool
    every: str | None
    alpha: float
    least: float
    engine: str
    model: str | None
    concurrency: int
    api_key: str | None = None


def run(asked: Asked, json: Path | None) -> int:
    """Learn, look or watch; return the exit status. Raises ConfigError."""
    check_url(asked.url, "URL")
    if asked.engine != "auto" and asked.engine not in NAMES:
        raise ConfigError(f"--engine: {asked.engine!r} is not known; choose one of {', '.join(NAMES)}")
    pause = None if asked.every is None else _seconds(asked.every)
    try:
        probes = load(asked.file)
        known = None if asked.learn else baselines.load(asked.baseline)
        if known is not None and known.probes != probes.id:
            raise BadProbes(f"{asked.baseline}: of other probes than {asked.file}; learn it anew with --learn")
        if known is not None and len(known.runs[0].gaps) != len(probes.probes):
            raise BadProbes(f"{asked.baseline}: its runs are not of all probes; learn it anew with --learn")
        change, found = asyncio.run(_work(asked, probes, known, pause))
    except BadProbes as error:
        raise ConfigError(str(error)) from None
    except DialectError as error:
        raise ConfigError(f"{asked.url}: {error.reason}: {remedy(error.reason)}") from None
    except NoRun as error:
        raise ConfigError(
            f"{asked.url}: the probes were not answered: {error.reason}: {remedy(error.reason)}"
        ) from None
    if json is not None:
        write_json(json, found)
    if change is not None:
        with heard():
            _print(change, found["footprint"]["differ"], Console())
    return 1 if found.get("changed") else 0


async def _work(
    asked: Asked, probes: ProbeSet, known: Baseline | None, pause: float | None
) -> tuple[Change | None, dict[str, Any]]:
    async with connect(asked.url, api_key=asked.api_key, timeout=_SECONDS) as fetch:
        speaks = dialect(asked.engine if asked.engine != "auto" else await detect(fetch))
        model = asked.model or probes.model or None
        subject = Subject(fetch, speaks, model)
        if known is None:
            known = await _learned(asked, probes, subject)
            save(asked.baseline, known)
            sys.stdout.write(f"learned: {LEARNED} runs of {len(probes.probes)} probes, kept in {asked.baseline}\n")
            if pause is None:
                counts = [len(known.runs), 0]
                return None, {"schema": "parhelion.probe_run/1", "learned": True, "changed": None, "runs": counts}
        if pause is None:
            runs = await _runs(asked, probes, subject, block(asked.alpha, len(known.runs)))
            change = compare([one.name for one in probes.probes], known.runs, runs, asked.alpha, asked.least)
        else:
            change = await _watched(asked, probes, subject, known, pause)
        try:
            stack = await _stack(fetch, subject)
        except DialectError:  # it has answered the probes: what they say holds without its routes
            stack = "", {}
        return change, _said(change, known, stack)


async def _learned(asked: Asked, probes: ProbeSet, subject: Subject) -> Baseline:
    footprint, fields = await _stack(subject.fetch, subject)
    runs = await _runs(asked, probes, subject, LEARNED)
    return Baseline(probes.id, subject.dialect.name, subject.model, footprint, tuple(runs), time.time(), fields)


async def _stack(fetch: Fetch, subject: Subject) -> tuple[str, dict[str, Any]]:
    found = await stack_of(fetch, subject.dialect, subject.model)
    return found.id, found.as_json()


async def _runs(asked: Asked, probes: ProbeSet, subject: Subject, count: int) -> list[Run]:
    salt = f"parhelion-{time.time_ns()}"
    return [await one_run(subject, probes.probes, f"{salt}-{number}", asked.concurrency) for number in range(count)]


async def _watched(asked: Asked, probes: ProbeSet, subject: Subject, known: Baseline, pause: float) -> Change:
    """Look again and again; a look that is further off than all that was learned is followed by a block of its own, which alone decides."""
    alpha = asked.alpha * min(1.0, pause / _DAY)
    names = [one.name for one in probes.probes]
    while True:
        started = time.monotonic()
        try:
            (single,) = await _runs(asked, probes, subject, 1)
            if suspicious(known.runs, single, asked.least):
                change = compare(
                    names,
                    known.runs,
                    await _runs(asked, probes, subject, block(alpha, len(known.runs))),
                    alpha,
                    asked.least,
                )
                if change.changed:
                    return change
            _line(f"unchanged, {len(names)} probes")
        except NoRun as error:
            _line(f"not answered: {error.reason}")
        await asyncio.sleep(max(0.0, pause - (time.monotonic() - started)))


def _line(text: str) -> None:
    sys.stdout.write(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {text}\n")
    sys.stdout.flush()


def _said(change: Change, known: Baseline, stack: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    footprint, fields = stack
    both = {name: (was, fields.get(name)) for name, was in known.fields.items()}
    differ = {name: [was, now] for name, (was, now) in both.items() if None not in {was, now} and was != now}
    return {
        "schema": "parhelion.probe_run/1",
        "learned": False,
        **to_builtins(change),
        "footprint": {"was": known.footprint, "now": footprint or None, "differ": differ},
    }


def _print(change: Change, differ: dict[str, list[Any]], console: Console) -> None:
    head = "CHANGED" if change.changed else "unchanged"
    test = f"p = {change.p:.3g} (exact rank sum of {change.runs[1]} runs against {change.runs[0]}), alpha = {change.alpha:.3g}"
    console.print(Text(f"{head}: {test}", style="bold red" if change.changed else "bold green"))
    console.print(
        f"{change.flips} of {len(change.probes)} probes have another first token; gaps moved by {change.shift:.3g} nat (median), {change.largest:.3g} at most; below {change.least:g} is no change"
    )
    if differ:
        console.print(Text("the stack says so too: " + ", ".join(sorted(differ))))
    table = Table(title="Probes that moved most", title_justify="left")
    for column in ("probe", "gap then", "gap now", "shift", "flipped"):
        table.add_column(column, justify="right")
    for one in _most_moved(change):
        table.add_row(Text(inert(one[0])), *(f"{value:+.6f}" for value in one[1:4]), "yes" if one[4] else "")
    console.print(table)


def _most_moved(change: Change) -> Sequence[tuple[str, float, float, float, bool]]:
    rows = [(one.name, one.was, one.now, one.now - one.was, one.flipped) for one in change.probes]
    return sorted(rows, key=lambda row: -abs(row[3]))[:_SHOWN]


def _seconds(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", text.strip())
    if found is None or not float(found[1]):
        raise ConfigError(f"--every: {text!r} is not an interval such as 30s, 5m or 1h")
    return float(found[1]) * _UNITS[found[2]]
