"""What ``parhelion replay`` does: configuration and flags to a session, signals to its end, its course to a terminal, its store to a report.

House rules. Progress goes to standard error and the report to standard output. On a terminal progress is live, elsewhere plain lines.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvloop
from msgspec import Struct
from msgspec.structs import replace
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from proxy import logs
from proxy.app.reporting import exit_status, heard, since_time, worst_examples, write_html_report, write_json
from proxy.config import Config
from proxy.config_file import ConfigError
from proxy.config_load import load
from proxy.ledger.render import render
from proxy.ledger.store import Store
from proxy.ledger.store_error import StoreError
from proxy.replay.accounts import report
from proxy.replay.draws import discrepancies, sentence
from proxy.replay.line import TrafficError
from proxy.replay.plan import Order, Wanted
from proxy.replay.progress import settled
from proxy.replay.session import Choices, Session, opened, told
from proxy.replay.traffic import Traffic, open_traffic

_EVERY, _LINE_EVERY = 0.2, 10.0
#: Ends that are no fault: the report's own status is the command's.
_SOUND = frozenset({"", "decided", "interrupted"})
_NOBODY = "http://recorded.invalid"


class Flags(Struct, frozen=True, kw_only=True):
    """The command line; see ``replay_command``."""

    file: Path
    config: Path | None
    engines: dict[str, Any]
    recorded: bool
    replies: Path | None
    mode: str | None
    model: str | None
    concurrency: int
    rate: float | None
    order: Order
    seed: int
    pace: float | None
    sample: float
    since: str | None
    limit: int | None
    repeats: int
    mmd: bool
    out: Path | None
    fresh: bool
    until_decided: bool
    json: Path | None
    html: Path | None = None


def run(flags: Flags) -> int:
    """Replay; the exit status. Raises ConfigError."""
    _sound(flags)
    config, choices, out = _config(flags), _choices(flags), _out(flags)
    try:
        traffic = open_traffic(flags.file, flags.replies)
        try:
            with opened(config, traffic, choices, out, fresh=flags.fresh) as session:
                return _replayed(flags, session, traffic)
        finally:
            traffic.close()
    except TrafficError as error:
        raise ConfigError(str(error)) from None
    except StoreError as error:
        raise ConfigError(f"{out}: {error}") from None


def _replayed(flags: Flags, session: Session, traffic: Traffic) -> int:
    logs.set_up(level=logging.WARNING)
    console = Console(stderr=True)
    left = session.course.planned - session.before
    again = f", {session.before} of them settled before: going on" if session.before else ""
    repeated = f" ({traffic.repeated} more lines are records of the same requests)" if traffic.repeated else ""
    console.print(
        f"{traffic.name}: {len(traffic)} request{'' if len(traffic) == 1 else 's'}{repeated}; {session.course.planned} to replay{again}",
        highlight=False,
        soft_wrap=True,
        markup=False,
    )
    if left:
        uvloop.run(_watched(session, console))
    return _told(flags, session)


async def _watched(session: Session, console: Console) -> None:
    loop = asyncio.get_running_loop()
    work = loop.create_task(session.run())

    def asked_to_stop() -> None:
        if session.course.ended:
            work.cancel()
        else:
            sys.stderr.write("parhelion: ending what is under way; once more stops at once\n")
            session.stop()

    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, asked_to_stop)
    with _shown(session, console) as show:
        while not work.done():
            show()
            await asyncio.wait([work], timeout=_EVERY)
        show()
    if work.cancelled():
        raise KeyboardInterrupt
    work.result()


@contextmanager
def _shown(session: Session, console: Console) -> Iterator[Any]:
    course = session.course
    if console.is_terminal:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task("replaying", total=course.planned)
            yield lambda: bar.update(task, completed=course.settled, description=_now(session))
        return
    next_line, last = time.monotonic() + _LINE_EVERY, ""

    def line() -> None:
        nonlocal next_line, last
        said = f"{course.settled} of {course.planned} settled, {_now(session)}"
        if time.monotonic() >= next_line and said != last:
            sys.stderr.write(f"{said}\n")
            next_line, last = time.monotonic() + _LINE_EVERY, said

    yield line


def _now(session: Session) -> str:
    retried = f", {session.course.retried} tried again" if session.course.retried else ""
    return f"{session.course.asking} under way{retried}"


def _told(flags: Flags, session: Session) -> int:
    """Report on what is settled, ended or not."""
    config, course = session.config, session.course
    with Store.open_read_only(config.records.url) as store:
        course.settled = settled(store)
        found = report(
            config,
            store,
            received=len(session.traffic) * flags.repeats,
            planned=course.planned,
            command=f"replay {flags.file.name}",
            now=time.time(),
            told=told(session),
        )
        if flags.mmd:
            found["replay"]["mmd"] = discrepancies(store.records())
        examples = worst_examples(config, store) if flags.html is not None else []
    if flags.json is not None:
        write_json(flags.json, found)
    if flags.html is not None:
        write_html_report(flags.html, config, found, examples)
    with heard():
        console = Console()
        render(found, console)
        for name, tested in found["replay"].get("mmd", {}).items():
            console.print(sentence(name, tested), markup=False, highlight=False)
    if course.settled < course.planned:
        sys.stderr.write(
            f"parhelion: {course.settled} of {course.planned} requests are replayed; the same command goes on with the rest\n"
        )
    if course.ended not in _SOUND:
        sys.stderr.write(f"parhelion: {course.ended}\n")
        return 2
    return exit_status(found, {shadow.name for shadow in config.shadows})


def _sound(flags: Flags) -> None:
    """Raise ConfigError for a flag that makes no sense."""
    if str(flags.file).startswith("--"):
        raise ConfigError(f"{flags.file}: there is no such option, or FILE is missing; see parhelion replay --help")
    for name, right, say in (
        ("--concurrency", 1 <= flags.concurrency <= 1024, "give 1 to 1024"),
        ("--rate", flags.rate is None or flags.rate > 0, "give requests a second above 0"),
        ("--pace", flags.pace is None or flags.pace > 0, "give a factor above 0, such as 1.0"),
        ("--sample", 0 < flags.sample <= 1, "give a share above 0, at most 1"),
        ("--repeats", 1 <= flags.repeats <= 1000, "give 1 to 1000"),
        (
            "--mmd",
            not flags.mmd or (flags.mode != "forced" and not flags.recorded),
            "needs `free` mode and a live primary",
        ),
        ("--limit", flags.limit is None or flags.limit >= 1, "give at least 1"),
    ):
        if not right:
            raise ConfigError(f"{name}: {say}")
    for name, file in (("--json", flags.json), ("--html", flags.html)):
        if file is not None and not file.parent.is_dir():
            raise ConfigError(f"{name}: {file} cannot be written: there is no directory {file.parent}")
    _distinct(flags)
    if flags.recorded and "primary" in flags.engines:
        raise ConfigError("--recorded primary: the file's replies are the primary's; leave --primary out")


def _distinct(flags: Flags) -> None:
    """Raise ConfigError where what is written would be written over what is read, or over one another."""
    read = {"FILE": flags.file, "--replies": flags.replies, "--config": flags.config}
    taken = {one.resolve(): name for name, one in read.items() if one is not None}
    for name, one in (("--out", _out(flags)), ("--json", flags.json), ("--html", flags.html)):
        if one is not None and (other := taken.setdefault(one.resolve(), name)) != name:
            raise ConfigError(f"{name}: {one} is {other}'s too; name another file")


def _config(flags: Flags) -> Config:
    given = {"listen": "127.0.0.1:0", "admin": "127.0.0.1:0"} | flags.engines
    if flags.config is None:
        given["records"] = {"content": "text"}  # the file lies there as text
        if flags.recorded:
            given["primary"] = {"url": _NOBODY}
    config = load(flags.config, os.environ, given)
    if not config.shadows:
        raise ConfigError("shadows: none is configured, so there is nothing to compare with; give --shadow URL")
    if flags.mmd and config.records.content != "text":
        raise ConfigError("--mmd: draws are compared as texts: set `records.content: text`")
    if flags.mmd and config.records.redact is not None:
        raise ConfigError(
            "--mmd: draws are compared as they are kept, and `records.redact` makes them alike: leave one out"
        )
    if flags.mode is not None:
        config = replace(config, shadows=tuple(replace(one, modes=(flags.mode,)) for one in config.shadows))
    return config


def _choices(flags: Flags) -> Choices:
    since = since_time(flags.since, 0.0)
    return Choices(
        Wanted(flags.order, flags.seed, flags.sample, None, flags.limit),
        since=None if since is None else -since,
        model=flags.model,
        recorded=flags.recorded,
        concurrency=flags.concurrency,
        rate=flags.rate,
        speed=flags.pace,
        until_decided=flags.until_decided,
        repeats=flags.repeats,
        draws=flags.mmd,
    )


def _out(flags: Flags) -> Path:
    if flags.out is not None:
        return flags.out
    if str(flags.file) == "-" or (flags.file.exists() and not flags.file.is_file()):
        raise ConfigError(f"--out: name the store of this replay: {flags.file} is no file beside which it could lie")
    return flags.file.parent / f"{flags.file.name}.replay.db"
