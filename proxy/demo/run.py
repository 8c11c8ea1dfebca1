"""The main job from end to end: engines, proxy, traffic, report.

House rules. Nothing here compares or counts: every number shown comes from the proxy's own admin port. On a terminal progress is live; elsewhere
it is plain lines. Whatever was started is stopped, in order, however the demo ends.
"""

from __future__ import annotations

import secrets
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console
from rich.live import Live
from rich.table import Table

from engines.process import EngineError
from engines.weights_gguf import ConversionError
from proxy.demo.client import ClientError, send_all
from proxy.demo.prompts import traffic
from proxy.demo.proxy_process import ProxyError, ProxyProcess
from proxy.demo.trio import MODEL, Missing, Trio, light, with_vllm
from proxy.demo.weights import WeightsError
from proxy.ledger.cells import number

_PROBING = 120.0
_SETTLING = 300.0  # without any progress; how long all of it takes is the machine's business
_EVERY = 1.0
_LONG = 40
_LINE_EVERY = 15.0  # where there is no terminal


def run(*, requests: int, json_file: Path | None, html_file: Path | None = None, keep: bool, vllm: bool) -> int:
    """Run the demo; exit status 0 when the report was made."""
    console = Console()
    if requests < 1:
        sys.stderr.write("parhelion: --requests: give at least 1\n")
        return 2
    for flag, file in (("--json", json_file), ("--html", html_file)):
        if file is not None and (problem := _unwritable(file)):
            sys.stderr.write(f"parhelion: {flag}: {file} cannot be written: {problem}\n")
            return 2
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGINT, _stop)  # also where a shell has started us in the background with it ignored
    try:
        with (
            tempfile.TemporaryDirectory(prefix="parhelion-demo-", dir=_short(), ignore_cleanup_errors=True) as scratch,
            ExitStack() as stack,
        ):
            directory = Path(scratch)
            started = time.monotonic()

            def say(text: str) -> None:
                console.print(f"[dim]{time.monotonic() - started:6.1f} s[/]  {text}", highlight=False, soft_wrap=True)

            trio = stack.enter_context((with_vllm if vllm else light)(directory, say))
            settings = _settings(trio, directory)
            proxy = stack.enter_context(ProxyProcess(settings, directory))
            proxy.wait_known(["primary", *(shadow["name"] for shadow in trio.shadows)], _PROBING)
            say(f"proxy ready: clients {proxy.clients}, metrics {proxy.admin}/metrics, pages {proxy.admin}/")
            _drive(proxy, trio, requests, console)
            report = proxy.report()
            _show(report, trio, console)
            if json_file is not None:
                _write(report, json_file, directory)
                say(f"report written to {json_file}, records to {_records(json_file)}")
            if html_file is not None:
                _write_html(report, html_file, directory)
                say(f"report written to {html_file}")
            if keep:
                _keep(_kept(proxy, trio, settings, directory), console)
    except KeyboardInterrupt:
        console.print("stopped")
        return 130
    except (Missing, WeightsError, ConversionError, EngineError, ProxyError, ClientError) as error:
        sys.stderr.write(f"parhelion: {error}\n")
        return 1
    return 0


def _unwritable(file: Path) -> str | None:
    """Why the report could not be written there, found out before the work is done and not after."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("ab"):
            return None
    except OSError as error:
        return error.strerror or "no reason given"


def _short() -> str | None:
    """A temporary directory whose path leaves room for a socket's name (108 bytes, unix(7)); None for the usual one."""
    return "/tmp" if len(tempfile.gettempdir()) > _LONG and Path("/tmp").is_dir() else None  # noqa: S108 - the directory in it is ours alone


def _stop(*_: object) -> None:
    raise KeyboardInterrupt


def _settings(trio: Trio, directory: Path) -> dict[str, Any]:
    return {
        "listen": "127.0.0.1:0",
        "admin": "127.0.0.1:0",
        "admin_token": secrets.token_urlsafe(
            12
        ),  # so that what asks for one can be tried: the kill switch, marking as known
        "state": str(directory / "state"),
        "spool": {"path": str(directory / "spool")},
        "primary": {"url": trio.primary},
        "shadows": list(trio.shadows),
        "sampling": {"rate": 1.0},
        "limits": {"in_flight": 1},  # one at a time, in order: the control then sees exactly what the primary saw
        "records": {"url": f"sqlite:///{directory / 'records.db'}", "content": "text"},
    }


def _drive(proxy: ProxyProcess, trio: Trio, requests: int, console: Console) -> None:
    """Send the traffic and wait until all of it is settled, showing both."""
    asks = traffic(requests, MODEL, trio.extra)
    sent, failure = [0], []

    def send() -> None:
        try:
            send_all(proxy.clients, asks, lambda done: sent.__setitem__(0, done))
        except ClientError as error:
            failure.append(error)

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    begun = moved = time.monotonic()
    before: tuple[int, float] | None = None
    last, next_line = "", 0.0
    with Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else ExitStack() as live:
        while not failure:
            report = proxy.report()
            open_work = proxy.open_work()
            if isinstance(live, Live):
                live.update(_progress(report, sent[0], requests, open_work, time.monotonic() - begun), refresh=True)
            elif (
                line := f"sent {sent[0]}/{requests}, compared {_settled(report)}"
            ) != last and time.monotonic() > next_line:
                console.print(line, highlight=False, soft_wrap=True)
                last, next_line = line, time.monotonic() + _LINE_EVERY
            if not sender.is_alive() and not open_work and report["requests"]["sampled"] >= requests:
                break
            if before != (before := (sent[0], open_work)):
                moved = time.monotonic()
            if time.monotonic() > moved + _SETTLING:
                said = "".join(f"\n  {line}" for line in proxy.log.read_text("utf-8", "replace").splitlines()[-8:])
                raise ProxyError(
                    f"{sent[0]} of {requests} requests answered, {open_work:.0f} comparisons open, and nothing has moved for {_SETTLING:.0f} s; the proxy's log ends:{said}"
                )
            time.sleep(_EVERY)
    if failure:
        raise failure[0]


def _settled(report: dict[str, Any]) -> str:
    parts = []
    for shadow in report["shadows"]:
        for mode, numbers in shadow["modes"].items():
            parts.append(f"{shadow['name']}/{mode} {numbers.get('requests', 0)}")
    return ", ".join(parts) or "nothing yet"


def _progress(report: dict[str, Any], sent: int, requests: int, open_work: float, seconds: float) -> Table:
    table = Table(
        title=f"{seconds:.0f} s: {sent} of {requests} answered, {open_work:.0f} comparisons open (median |error| shown)",
        title_justify="left",
    )
    for name in ("shadow", "mode", "compared", "identical", "tokens", "differ", "|error| nat"):
        table.add_column(name, justify="left" if name in {"shadow", "mode"} else "right", no_wrap=True)
    for shadow in report["shadows"]:
        for mode, numbers in shadow["modes"].items():
            parted = numbers.get("divergences") or numbers.get("flips") or {}
            error = (numbers.get("logprob_error_nats") or {}).get("median")
            table.add_row(
                shadow["name"],
                mode,
                str(numbers.get("requests", 0)),
                str(numbers.get("identical", "")),
                str(numbers.get("tokens_compared", 0)),
                str(sum(parted.values())),
                "" if error is None else number(error),
            )
    return table


def _show(report: dict[str, Any], trio: Trio, console: Console) -> None:
    from proxy.ledger.render import render

    console.print()
    console.print(trio.title, highlight=False)
    render(report, console)


def _records(json_file: Path) -> Path:
    return json_file.with_name(f"{json_file.name}.records.jsonl")


def _write(report: dict[str, Any], json_file: Path, directory: Path) -> None:
    from proxy.ledger.export import export_jsonl
    from proxy.ledger.store import Store

    json_file.parent.mkdir(parents=True, exist_ok=True)
    json_file.write_bytes(orjson.dumps(report, option=orjson.OPT_INDENT_2))
    with Store.open_read_only(f"sqlite:///{directory / 'records.db'}") as store:
        export_jsonl(store.records(), _records(json_file))


def _write_html(report: dict[str, Any], file: Path, directory: Path) -> None:
    from proxy.ledger.examples import worst
    from proxy.ledger.html_report import render_html, write_html
    from proxy.ledger.store import Store

    candidates = [one["name"] for one in report["shadows"] if one["role"] == "candidate"]
    with Store.open_read_only(f"sqlite:///{directory / 'records.db'}") as store:
        examples = worst(store, candidates, texts=True)
    write_html(file, render_html(report, examples, content="text", repeat="parhelion demo --html FILE"))


def _kept(proxy: ProxyProcess, trio: Trio, settings: dict[str, Any], directory: Path) -> list[str]:
    """What is left running, and what can be tried on it."""
    shadows = [f"{one['name']:<8} {one['url']}" for one in trio.shadows]
    return [
        f"clients  {proxy.clients}/v1   model {MODEL}",
        f"pages    {proxy.admin}/",
        f'token    {settings["admin_token"]}   to sign in with, for what changes something (the kill switch, "Mark as known")',
        f"metrics  {proxy.admin}/metrics",
        f"report   {proxy.admin}/api/v1/report",
        f"primary  {trio.primary}",
        *shadows,
        f"config   {directory / 'parhelion.yaml'}   for `parhelion report -c`, `export`, `replay`, `probes mine`",
    ]


def _keep(said: Sequence[str], console: Console) -> None:
    lines = "".join(f"\n  {line}" for line in said)
    console.print(f"\nEverything is left running until Ctrl-C:{lines}", highlight=False, soft_wrap=True, markup=False)
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        console.print("stopping")
