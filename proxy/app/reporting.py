"""``parhelion report``, ``export`` and ``purge``: what has been recorded, shown, written out or let go.

House rules. Reading needs no running proxy. Exit status of the report: 0 PASS, 1 FAIL, 3 KEEP WATCHING, the gravest of the candidates'; a report without a candidate is 3.
"""

from __future__ import annotations

import gc
import re
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console

from proxy.app.progress import progress, telling
from proxy.config import Config
from proxy.config_file import ConfigError
from proxy.ledger.examples import Example, worst
from proxy.ledger.export import ExportError, export_jsonl, export_parquet
from proxy.ledger.query import Filter
from proxy.ledger.render import render
from proxy.ledger.render_floors import print_llama_cpp
from proxy.ledger.report import build_report
from proxy.ledger.sources import open_ledgers
from proxy.ledger.store import Store
from proxy.ledger.store_error import StoreError

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
#: What a report takes: bytes held and seconds of a processor for each byte as stored; a store so small that nothing is said of it.
_HELD, _SECONDS, _UNSAID = 4.3, 1.5e-7, 1 << 29
_STATUS = {"PASS": 0, "FAIL": 1, "KEEP WATCHING": 3}


def since_time(text: str | None, now: float) -> float | None:
    """Unix time of an age such as 30m, 24h or 7d. Raises ConfigError."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", text.strip())
    if found is None:
        raise ConfigError(f"--since: {text!r} is not an age such as 30m, 24h or 7d")
    return now - float(found[1]) * _UNITS[found[2]]


def write_json(file: Path, value: object) -> None:
    """Write a file for other programs. Raises ConfigError."""
    try:
        file.write_bytes(orjson.dumps(value, option=orjson.OPT_INDENT_2))
    except OSError as error:
        raise ConfigError(f"--json: {file} cannot be written: {error.strerror}") from None


def write_html_report(file: Path, config: Config, report: dict[str, Any], examples: Sequence[Example]) -> None:
    """Write the report as one HTML file. Raises ConfigError."""
    from proxy.ledger.html_report import render_html, write_html  # jinja2 is loaded for nobody who does not ask

    try:
        write_html(file, render_html(report, examples, content=config.records.content))
    except OSError as error:
        raise ConfigError(f"--html: {file} cannot be written: {error.strerror}") from None


@contextmanager
def heard() -> Iterator[None]:
    """Print to standard output, as far as somebody listens. Where whoever reads has heard enough (``| head``), rich ends the process with 1, which would say FAIL. Raises ConfigError where it cannot be written."""
    try:
        with suppress(SystemExit, BrokenPipeError):
            yield
    except OSError as error:
        raise ConfigError(f"standard output: cannot be written: {error.strerror}") from None


def print_report(
    config: Config, since: str | None, json_file: Path | None, html_file: Path | None = None, *, llama_cpp: bool = False
) -> int:
    """Print the report, per candidate; ``llama_cpp``: and llama-perplexity's statistics. Raises ConfigError."""
    now = time.time()
    start = since_time(since, now)
    wanted = Filter(since=start) if start is not None else None
    command = "report" if since is None else f"report --since {since}"
    try:
        with open_ledgers(config) as found:
            if found.store is None:
                raise ConfigError(f"records.url: {found.store_error}")
            terms = found.terms if wanted is None else None
            if (said := expense(found.store, start)) is not None:
                sys.stderr.write(f"{said}\n")
            with _uncollected():
                report = build_report(config, found.store, terms, command=command, now=now, wanted=wanted)
            judged = [one["name"] for one in report["shadows"] if one["role"] != "control"]
            examples = worst_examples(config, found.store, start, judged) if html_file is not None else []
    except StoreError as error:
        raise ConfigError(f"records.url: {error}") from None
    except OSError as error:
        raise ConfigError(
            f"state: {config.state} cannot be read: {error.strerror}; name the directory that `parhelion serve` uses"
        ) from None
    if json_file is not None:
        write_json(json_file, report)
    if html_file is not None:
        write_html_report(html_file, config, report, examples)
    try:
        with suppress(
            SystemExit
        ):  # with 1, which would say FAIL: rich's, where whoever reads has heard enough (`| head`)
            render(report, Console())
            if llama_cpp:
                print_llama_cpp(report["shadows"], Console())
    except OSError as error:
        raise ConfigError(f"standard output: the report cannot be written: {error.strerror}") from None
    return exit_status(report, {shadow.name for shadow in config.shadows})


def worst_examples(
    config: Config, store: Store, since: float | None = None, names: Sequence[str] | None = None
) -> list[Example]:
    """Find what an HTML report shows of the shadows with such ``names`` (None: the candidates configured); ``since`` in Unix seconds. Raises StoreError."""
    candidates = [one.name for one in config.shadows if one.role == "candidate"]
    return worst(store, candidates if names is None else names, texts=config.records.content == "text", since=since)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Millions of values are made and no cycles among them: looking for some takes a tenth of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def expense(store: Store, since: float | None, *, unsaid: int = _UNSAID) -> str | None:
    """Say what a report over all records since a Unix time will take; None where that is little (``unsaid`` bytes). Raises StoreError."""
    (records,) = store.read("SELECT COUNT(*) FROM listed")[0]
    (wanted,) = store.read("SELECT COUNT(*) FROM records WHERE time >= ?", [since])[0] if since else (records,)
    size = store.used_bytes() * wanted / max(1, records)
    if size < unsaid:
        return None
    memory, minutes = size * _HELD / 1e9, size * _SECONDS / 60
    return f"{wanted:,} records: this takes about {memory:.0f} GB of memory and {minutes:.0f} minutes; --since 1h, say, takes fewer"


def exit_status(report: dict[str, Any], configured: Collection[str]) -> int:
    """Say the gravest verdict of the candidates that are configured; of all that are known where no shadow is configured."""
    states = [
        shadow["verdict"]["state"]
        for shadow in report["shadows"]
        if "verdict" in shadow and (not configured or shadow["name"] in configured)
    ]
    return max((_STATUS[state] for state in states), key=(0, 3, 1).index, default=3)


def export_records(config: Config, file: Path, since: str | None, *, detail: bool = False) -> int:
    """Write the records to ``file``; ``detail``: with both arms' tokens. Raises ConfigError."""
    start = since_time(since, time.time())
    write = {".jsonl": export_jsonl, ".parquet": export_parquet}.get(file.suffix)
    if write is None:
        raise ConfigError(f"{file}: the name must end with .jsonl or .parquet")
    try:
        with Store.open_read_only(config.records.url) as store, progress("records written") as told:
            wanted = Filter(since=start) if start is not None else None
            count = write(telling(store.records(wanted), told), file, store.detail if detail else None)
    except (StoreError, ExportError) as error:
        raise ConfigError(str(error)) from None
    sys.stdout.write(f"{count} records written to {file}\n")
    return 0


def purge_records(config: Config) -> int:
    """Apply retention. Raises ConfigError."""
    try:
        with Store.open(config.records.url, create=False) as store, progress("records purged") as told:
            count = store.purge(time.time(), config.records.keep, config.records.max_bytes, told)
    except StoreError as error:
        raise ConfigError(f"records.url: {error}") from None
    sys.stdout.write(f"{count} records purged\n")
    return 0
