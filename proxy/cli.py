"""The command line: one function per command, each a thin edge around the part that does the work.

House rules. A mistake of the user is one line on standard error, beginning with ``parhelion:``, and exit status 2; a command's own verdict
has the exit status its help names. Nothing is imported before it is needed: ``parhelion --help`` is quick and needs no engine.
"""

from __future__ import annotations

import os
import sys
import traceback
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

from proxy.app.engine_commands import engine
from proxy.app.flags import engine_flags
from proxy.app.probes_command import probes
from proxy.app.replay_command import replay
from proxy.app.rollouts_command import rollouts
from proxy.config import Config
from proxy.config_file import ConfigError
from proxy.config_load import load


def _version() -> str:
    try:
        return version("parhelion")
    except PackageNotFoundError:
        return "unknown (not installed)"


app = App(
    name="parhelion",
    help="Compare inference engines token by token on live traffic: answer clients from one, ask the others too, say what differs.",
    version=_version,
    help_format="plaintext",
)
app.command(engine)
app.command(probes)
app.command(replay)
app.command(rollouts)

File = Annotated[Path | None, Parameter(name=["--config", "-c"])]
Many = Annotated[list[str] | None, Parameter(negative="", consume_multiple=False)]
Json = Annotated[Path | None, Parameter(name="--json")]
Html = Annotated[Path | None, Parameter(name="--html")]


@app.command
def serve(
    *,
    config: File = None,
    primary: str | None = None,
    shadow: Many = None,
    control: str | None = None,
    sample: float | None = None,
    listen: str | None = None,
    admin: str | None = None,
    processes: int | None = None,
    role: Literal["all", "traffic", "judge"] = "all",
    strict: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Run the proxy; prints one line when ready. Flags alone are enough, and win over environment and file.

    Parameters
    ----------
    config
        Configuration file (YAML).
    primary
        Base URL of the engine that answers clients.
    shadow
        [name=]URL of an engine to ask too; may be given several times.
    control
        URL of a second instance of the primary's own stack: the noise floor.
    sample
        Share of requests to mirror, 0 to 1 (0.05 when left out).
    listen
        HOST:PORT for clients (0.0.0.0:8000 when left out).
    admin
        HOST:PORT for metrics, health and the JSON API (127.0.0.1:8001 when left out).
    processes
        Number of traffic processes (1 when left out).
    role
        all in one, or traffic and judge in containers of their own that share the state directory.
    strict
        Check every engine first, as `parhelion check` does, and refuse to start when one is unusable.
    """
    from proxy.app.supervisor import Supervisor
    from proxy.app.supervisor import serve as run

    flags = engine_flags(primary, shadow, control, sample)
    flags |= {
        key: value
        for key, value in (("listen", listen), ("admin", admin), ("processes", processes))
        if value is not None
    }
    settings = _load(config, flags)
    if strict and (status := _check(settings, None)):
        return status

    def announce(supervisor: Supervisor, address: str) -> None:
        shadows = ", ".join(f"{one.name} ({one.role}) {one.url}" for one in settings.shadows)
        share = (
            f"{100 * settings.sampling.rate:.4g} % of requests to {shadows}"
            if shadows
            else "no shadow configured: nothing is mirrored"
        )
        sys.stdout.write(
            f"parhelion ready: clients http://{supervisor.listening() or '-'} -> {settings.primary.url}; {share}; "
            f"metrics http://{address}/metrics, pages http://{address}/\n"
        )
        sys.stdout.flush()

    return run(settings, role, announce, lambda: load(config, os.environ, flags), config)


@app.command
def check(
    *,
    config: File = None,
    primary: str | None = None,
    shadow: Many = None,
    control: str | None = None,
    json: Json = None,
) -> int:
    """Validate the configuration and probe every engine: capabilities, footprint differences, findings.

    Exit status 0 when every engine is usable, 1 when one is not, 2 when the configuration is wrong.

    Parameters
    ----------
    config
        Configuration file (YAML).
    primary
        Base URL of the engine that answers clients.
    shadow
        [name=]URL of an engine to ask too; may be given several times.
    control
        URL of a second instance of the primary's own stack.
    json
        Also write everything that was found to this file.
    """
    return _check(_load(config, engine_flags(primary, shadow, control)), json)


@app.command
def footprint(
    url: str,
    other: str | None = None,
    /,
    *,
    engine: str = "auto",
    model: str | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Show one engine's footprint, or what differs between two (exit status 1 when they differ).

    Parameters
    ----------
    url
        Base URL of an engine.
    other
        Base URL of a second one to compare with.
    engine
        The engine's dialect, when it should not be detected.
    model
        The model to ask for; the engine's first when left out.
    json
        Print JSON instead of a table.
    """
    from proxy.app.footprint_command import show_footprint

    return show_footprint(url, other, engine, model, as_json=json)


@app.command
def demo(
    *,
    requests: int = 40,
    json: Json = None,
    html: Html = None,
    keep: Annotated[bool, Parameter(negative="")] = False,
    vllm: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Run the main job on real engines and a real small model, and print the report. No model hub is needed.

    Parameters
    ----------
    requests
        How many requests to send, at least 1.
    json
        Write the report (the contract's JSON) to this file, and the records beside it as FILE.records.jsonl.
    html
        Write the report as one HTML file.
    keep
        Leave engines and proxy running when done, until Ctrl-C.
    vllm
        Real vLLM in bf16 as primary and control, the fp32 reference engine as candidate (needs `make vllm-env`).
    """
    from proxy.demo.run import run

    return run(requests=requests, json_file=json, html_file=html, keep=keep, vllm=vllm)


@app.command
def report(
    *, config: File = None, since: str | None = None, json: Json = None, html: Html = None, llama_cpp: bool = False
) -> int:
    """Print the verdict on each candidate and what has been recorded so far.

    Exit status 0 PASS, 1 FAIL, 3 KEEP WATCHING: the gravest of the candidates'. It is of every conversation of the present stacks, whatever --since shows.

    Parameters
    ----------
    config
        Configuration file (YAML); only `records`, `state`, `shadows` and `verdict` matter here.
    since
        Show only records younger than this: a time such as 30m, 24h, 7d.
    json
        Also write the report as JSON to this file.
    html
        Also write it as one HTML file, readable by you alone: charts, the worst examples, method and limits; nothing beside it, no script, no network.
    llama_cpp
        Also print the statistics of `llama-perplexity --kl-divergence`, of what was scored (`forced`).
    """
    from proxy.app.reporting import print_report

    return print_report(_load(config, {}, reading=True), since, json, html, llama_cpp=llama_cpp)


@app.command
def export(file: Path, /, *, config: File = None, since: str | None = None, detail: bool = False) -> int:
    """Write the records out, one JSON object a line (.jsonl), or as Parquet (.parquet).

    Parameters
    ----------
    file
        Where to write; appears whole or not at all.
    config
        Configuration file (YAML); only `records` matters here.
    since
        Only records younger than this: a time such as 30m, 24h, 7d.
    detail
        With what each is shown with: both arms' tokens, alternatives, the bodies that were sent.
    """
    from proxy.app.reporting import export_records

    return export_records(_load(config, {}, reading=True), file, since, detail=detail)


@app.command
def purge(*, config: File = None) -> int:
    """Apply the retention of `records.keep` and `records.max_bytes` now.

    Parameters
    ----------
    config
        Configuration file (YAML); only `records` matters here.
    """
    from proxy.app.reporting import purge_records

    return purge_records(_load(config, {}, reading=True))


def _load(file: Path | None, flags: dict[str, Any], *, reading: bool = False) -> Config:
    """The configuration; a command that only reads records needs no primary and no keys."""
    if reading:
        flags = {"primary": {"url": "http://unused.invalid"}} | flags if file is None else flags
    return load(file, os.environ, flags, secrets=not reading)


def _check(config: Config, json: Path | None) -> int:
    from proxy.app.check import check as run

    return run(config, json)


def main() -> None:
    """Entry point of the ``parhelion`` command."""
    from proxy.app.packages import shadowed

    try:
        if (message := shadowed()) is not None:
            raise ConfigError(message)
        status = app()
    except ConfigError as error:
        sys.stderr.write(f"parhelion: {error}\n")
        status = 2
    except KeyboardInterrupt:
        status = 130
    except Exception:  # noqa: BLE001 - a defect of ours, shown whole; Python's own status for it, 1, is that of a FAIL
        traceback.print_exc()
        status = os.EX_SOFTWARE
    sys.exit(status)


if __name__ == "__main__":
    main()
