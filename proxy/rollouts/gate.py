"""Whether rollouts are within the limits that a pipeline sets.

House rules. Pure. What was not measured is over every limit: a gate that lets through what it has not seen is none.
"""

from __future__ import annotations

from msgspec import Struct

from proxy.rollouts.measured import Measured


class Limits(Struct, frozen=True):
    """The most, or least, of some numbers; None: no limit."""

    max_k3: float | None = None
    max_rms: float | None = None
    max_clipped: float | None = None
    max_probability_error: float | None = None
    min_correlation: float | None = None
    min_ess: float | None = None
    max_unusable: float | None = None


_NUMBERS = {
    "max_k3": "k3_nats",
    "max_rms": "rms_difference_nats",
    "max_clipped": "clipped_share",
    "max_probability_error": "mean_probability_error",
    "min_correlation": "correlation",
    "min_ess": "sequence_effective_sample_share",
}


def flag(field: str) -> str:
    """Return the option that sets a limit."""
    return f"--{field.replace('_', '-')}"


def not_a_number(limits: Limits) -> str | None:
    """Return the option of a limit that is NaN, which everything would keep; None where there is none."""
    return next(
        (flag(field) for field in limits.__struct_fields__ if getattr(limits, field) != getattr(limits, field)), None
    )


def over(measured: Measured, limits: Limits) -> list[str]:
    """Return one line for each limit that is not kept."""
    found = [_held(measured.value(name), name, field, getattr(limits, field)) for field, name in _NUMBERS.items()]
    return [one for one in (*found, _impossible(measured, limits), _unusable(measured, limits.max_unusable)) if one]


def _impossible(measured: Measured, limits: Limits) -> str:
    """What a trainer rules out that was drawn has no finite k3, and a weight of 0: it is in no number, and within no limit."""
    count = measured.left_out.get("trainer_impossible", 0)
    named = [flag(field) for field in _NUMBERS if getattr(limits, field) is not None]
    return f"trainer_impossible: {count:,} tokens are in no number ({', '.join(named)})" if count and named else ""


def _held(value: float | None, name: str, field: str, limit: float | None) -> str:
    if limit is None:
        return ""
    wanted = f"{flag(field)} {limit:g}"
    if value is None:
        return f"{name} was not measured ({wanted})"
    kept = value <= limit if field.startswith("max") else value >= limit
    return "" if kept else f"{name} {value:.6g} ({wanted})"


def _unusable(measured: Measured, limit: float | None) -> str:
    bad = sum(measured.unusable.values())
    share = bad / (bad + measured.rollouts) if bad + measured.rollouts else 1.0
    return f"unusable rollouts {share:.6g} (--max-unusable {limit:g})" if limit is not None and share > limit else ""
