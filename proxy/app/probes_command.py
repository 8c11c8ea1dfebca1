"""``parhelion probes``: its two commands' flags and help; ``probes_run`` does the work.

House rules. Nothing is imported before it is needed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from proxy.config_file import ConfigError

probes = App(
    name="probes", help="Notice a changed kernel, quantisation or flag within minutes, at one token a question."
)

_Switch = Parameter(negative="")


@probes.command
def mine(
    *,
    config: Annotated[Path | None, Parameter(name=["--config", "-c"])] = None,
    out: Path = Path("probes.json"),
    number: int = 32,
    since: str | None = None,
    longest: int = 2048,
) -> int:
    """Mine near-tie probes from the records: one-token questions at which the primary hardly preferred its answer.

    Needs `records.content: text`, and the primary up: it is asked whether it still answers so. OUT holds prompts of your traffic, and is written for its owner alone.
    Exit status 0, 1 when no probe was found.

    Parameters
    ----------
    config
        Configuration file (YAML): `records`, `primary`.
    out
        The file to write.
    number
        How many probes, from as many prompts as there are.
    since
        Only records younger than this: a time such as 30m, 24h, 7d.
    longest
        Most tokens of a probe.
    """
    from proxy.app.probes_mine import run as work
    from proxy.config_load import load

    if not 1 <= number <= 512 or longest < 1:
        raise ConfigError("--number is from 1 to 512, --longest at least 1")
    return work(load(config, os.environ, {}), out, number, since, longest)


@probes.command
def run(
    file: Path,
    url: str,
    /,
    *,
    baseline: Path | None = None,
    learn: Annotated[bool, _Switch] = False,
    every: str | None = None,
    alpha: float = 0.01,
    least: float = 1e-5,
    engine: str = "auto",
    model: str | None = None,
    api_key_env: str | None = None,
    concurrency: int = 4,
    json: Annotated[Path | None, Parameter(name="--json")] = None,
) -> int:
    """Ask an engine the probes and say whether it answers otherwise than when it was learned.

    The first time it is learned: 20 runs. Then 6 runs are held against them by an exact rank-sum test. Exit status 0 unchanged (or learned), 1 changed, 2 when it cannot be told.

    Parameters
    ----------
    file
        The probes, as `parhelion probes mine` wrote them.
    url
        Base URL of the engine.
    baseline
        Where its runs are kept (FILE.baseline.json when left out); one file an engine.
    learn
        Learn it anew, whatever was known.
    every
        Go on asking at this interval, such as 5m, until it has changed; alpha is then a day's, not a look's.
    alpha
        Most probability of a false alarm: of one look, or with --every of a day.
    least
        A shift below so many nats is no change.
    engine
        The engine's dialect, when it should not be detected.
    model
        The model to ask for; that of the probes' file when left out.
    api_key_env
        Name of the environment variable that holds the engine's API key; the key itself stands on no command line.
    concurrency
        How many probes are asked at once.
    json
        Also write what was found to this file.
    """
    from proxy.app.flags import key_of
    from proxy.app.probes_run import Asked
    from proxy.app.probes_run import run as work

    if not 0.0 < alpha < 0.5 or not least >= 0.0 or concurrency < 1:
        raise ConfigError("--alpha is above 0 and below 0.5, --least 0 or more, --concurrency at least 1")
    place = baseline if baseline is not None else file.parent / f"{file.name}.baseline.json"
    key = key_of(api_key_env, os.environ)
    return work(Asked(file, url, place, learn, every, alpha, least, engine, model, concurrency, key), json)
