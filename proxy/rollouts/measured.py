"""What is measured of rollouts: the numbers' names, settings, and the frozen result.

House rules. Values and definitions only. Names are keys of the JSON: add, never rename; units as in ``proxy/compare/README.md``.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct, to_builtins

from proxy.compare.comparison import Mode
from proxy.compare.quantities import Quantity, Ratio, quantities

SCHEMA = "parhelion.rollouts/1"


class Settings(Struct, frozen=True):
    """How rollouts are looked at.

    ``unfiltered``: all were drawn at temperature 1 without filters and penalties and both sides' logprobs are raw (None: as each rollout says). ``clip_low``,
    ``clip_high``: PPO's clipping keeps ratios in [1 - low, 1 + high]. ``cap``: truncated importance sampling cuts weights here. ``worst``: how many tokens to name.
    """

    unfiltered: bool | None = None
    clip_low: float = 0.2
    clip_high: float = 0.2
    cap: float = 2.0
    worst: int = 10


def _share(name: str, part: str) -> Ratio:
    return Ratio(name, part, "values", most="values")


#: The headline numbers of the comparison, as far as values alone give them, and what only importance weights mean something for.
QUANTITIES: tuple[Quantity, ...] = (
    *quantities(Mode.FREE),
    Ratio("mean_square_difference", "squared", "values", real=True),
    Ratio("mean_weight", "weight", "values", real=True),
    _share("clipped_share", "clipped"),
    _share("clipped_low_share", "clipped_low"),
    _share("clipped_high_share", "clipped_high"),
    _share("truncated_share", "truncated"),
)

#: What is shown of each bucket of positions and of lengths.
IN_BUCKETS: tuple[Quantity, ...] = (
    Ratio("mean_error_nats", "error", "values", real=True),
    Ratio("k1_nats", "difference", "values", per=-1.0, real=True, signed=True),
    Ratio("k3_nats", "k3", "values", real=True),
)

#: Figures known from elsewhere, to stand beside ours: what, figure, source.
ELSEWHERE = (
    ("rms_difference_nats", "trainer against vLLM, Qwen2.5-7B: fp32 0.0017; bf16 with fp32 head 0.022; bf16 head 0.039", "Fast-LLM#525"),
    ("correlation", "healthy RL rollouts: 0.9993; a public logprob bug: 0.05-0.62", "veRL users"),
    ("k3_nats", "healthy RL rollouts: 0.002; a public logprob bug: 1,635", "veRL users"),
    ("mean_probability_error", "healthy RL rollouts: 0.003 (bf16), 0.012 (fp8)", "veRL users"),
    ("mean_error_nats", "prefill against decode of one engine, bf16: 0.01-0.05", "sglang#25492"),
)  # fmt: skip


class Worst(Struct, frozen=True):
    """One of the tokens with the largest abs(d): which rollout (number from 1, and name), where in the response, its id, both logprobs, d = log q - log p."""

    rollout: int
    name: str
    position: int
    id: int
    rollout_logprob: float
    trainer_logprob: float
    difference: float


class Measured(Struct, frozen=True):
    """What some rollouts show. ``numbers``: by name, ``raw``, ``n``, ``rollouts``, and ``interval`` (95 %, whole rollouts resampled) or ``no_interval``: why not.

    ``rollouts`` were compared over ``tokens``; ``unusable`` and ``left_out`` count those that were not, by reason. ``k3_is_kl``: the share of tokens for which k3's mean
    estimates KL(rollout || trainer). ``hints``: what the numbers look like, in words.
    """

    rollouts: int
    tokens: int
    unusable: dict[str, int]
    left_out: dict[str, int]
    settings: Settings
    k3_is_kl: float | None
    numbers: dict[str, dict[str, Any]]
    by_position: list[dict[str, Any]]
    by_length: list[dict[str, Any]]
    worst: list[Worst]
    hints: list[str]

    def value(self, name: str) -> float | None:
        """Return one number, None where it was not measured."""
        found = self.numbers.get(name)
        return None if found is None else float(found["raw"])

    def to_dict(self) -> dict[str, Any]:
        """Return everything, JSON-ready, with the figures known from elsewhere beside."""
        beside = [{"number": name, "figure": figure, "source": source} for name, figure, source in ELSEWHERE]
        return {"schema": SCHEMA, **to_builtins(self), "elsewhere": beside}
