"""``parhelion rollouts``: its flags and help; ``rollouts_run`` does the work.

House rules. Nothing is imported before it is needed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from proxy.config_file import ConfigError


def rollouts(
    file: Path,
    /,
    *,
    shadow: str | None = None,
    engine: str = "auto",
    model: str | None = None,
    api_key_env: str | None = None,
    concurrency: int = 4,
    json: Annotated[Path | None, Parameter(name="--json")] = None,
    unfiltered: Annotated[bool, Parameter(negative="")] = False,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    cap: float = 2.0,
    worst: int = 10,
    max_k3: float | None = None,
    max_rms: float | None = None,
    max_clipped: float | None = None,
    max_probability_error: float | None = None,
    min_correlation: float | None = None,
    min_ess: float | None = None,
    max_unusable: float | None = None,
) -> int:
    """Say how far the engine that draws rollouts and the trainer agree: k1, k3, effective sample size, clipped share, worst tokens.

    FILE holds JSON lines (.jsonl, also .gz and .zst): prompt ids, response ids, the rollout engine's logprobs and the trainer's, under the names that veRL, TRL, OpenRLHF, SkyRL
    or slime give them. Exit status 0; 1 when a limit is not kept; 2 when nothing could be compared.

    Parameters
    ----------
    file
        The rollouts.
    shadow
        Base URL of an engine that scores the tokens of those without trainer logprobs.
    engine
        That engine's dialect, when it should not be detected.
    model
        The model to ask it for.
    api_key_env
        Name of the environment variable that holds the engine's API key; the key itself stands on no command line.
    concurrency
        How many rollouts it scores at once.
    json
        Also write everything as JSON to this file.
    unfiltered
        The rollouts were drawn at temperature 1 without top-p, top-k, min-p, penalties or grammar: k3 then estimates a KL divergence.
    clip_low
        PPO's lower epsilon: ratios below 1 minus this count as clipped.
    clip_high
        PPO's upper epsilon: ratios above 1 plus this count as clipped.
    cap
        Truncated importance sampling cuts weights above this.
    worst
        How many of the worst tokens to name.
    max_k3
        Fail above this k3, in nats.
    max_rms
        Fail above this root mean square of the difference, in nats.
    max_clipped
        Fail above this share of clipped tokens.
    max_probability_error
        Fail above this mean difference of probabilities.
    min_correlation
        Fail below this correlation of the two sides' logprobs.
    min_ess
        Fail below this effective sample size of responses, as a share of them.
    max_unusable
        Fail above this share of rollouts that could not be compared.
    """
    from proxy.app.flags import key_of
    from proxy.app.rollouts_run import Asked, run
    from proxy.rollouts.gate import Limits, not_a_number
    from proxy.rollouts.measured import Settings

    if not (0.0 <= clip_low < 1.0 and clip_high >= 0.0 and cap > 0.0):
        raise ConfigError("--clip-low is from 0 to below 1, --clip-high 0 or more, --cap above 0")
    if concurrency < 1:
        raise ConfigError("--concurrency: at least 1")
    settings = Settings(True if unfiltered else None, clip_low, clip_high, cap, worst)
    limits = Limits(max_k3, max_rms, max_clipped, max_probability_error, min_correlation, min_ess, max_unusable)
    if (none := not_a_number(limits)) is not None:
        raise ConfigError(f"{none}: give a number: nothing is above or below one that is none")
    if api_key_env is not None and shadow is None:
        raise ConfigError("--api-key-env: is for the engine of --shadow, which is not given")
    asked = None if shadow is None else Asked(shadow, engine, model, concurrency, key_of(api_key_env, os.environ))
    return run(file, settings, limits, asked, json)
