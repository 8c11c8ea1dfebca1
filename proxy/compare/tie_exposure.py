"""How often an arm's first tokens are exactly equal, and what that and the steps of its gaps say of the numbers that its logits are kept in.

House rules. Pure. Ties are counted at every position at which one would have shown, flipped or not. Nothing is said of a format with too few rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from proxy.compare.comparison import ChoiceComparison, Comparison
from proxy.compare.hazard import Exposure, intervals
from proxy.compare.near_tie import Noise, learn_gaps, logit_step

#: Coarser steps are those of bf16 at logits of 4 and more; fp16's are finer up to 64. Gaps without a grid: so many rows make it certain.
_BF16_STEP, _ENOUGH_ROWS = 2.0**-5, 200
#: Float32 logits tie at less than one position in a hundred thousand.
_TIES_OF_ROUNDING = 1e-3

Summary = dict[str, Any]


class Seen(NamedTuple):
    """Comparisons of one mode with what is known of each: conversation and prompt ("" unknown), how many other requests ran when it was sent."""

    comparisons: Sequence[Comparison] = ()
    conversations: Sequence[str] = ()
    prompts: Sequence[str] = ()
    loads: Sequence[int] = ()


def exposure(seen: Seen, arm: str) -> Summary:
    """Count exact ties at every position at which one would have shown; the interval of the share resamples conversations."""
    found = [
        (
            conversation,
            sum(tie.arm == arm for choice in one.choices for tie in choice.ties),
            sum(gap is not None for choice in one.choices for gap in _gaps(arm, choice)),
        )
        for one, conversation in zip(seen.comparisons, seen.conversations, strict=True)
        if one.incomparable is None
    ]
    ties, positions = sum(n for _, n, _ in found), sum(n for _, _, n in found)
    if not positions:
        return {"ties": ties, "positions": 0}
    summary: Summary = {"ties": ties, "positions": positions, "share": ties / positions}
    if all(key for key, _, _ in found):
        # Each position may be a tie: where none was, the bound is that of conversations all of whose positions are.
        edges = intervals([Exposure(key, n, places, places) for key, n, places in found]).own
        summary["conversations"] = len({key for key, _, places in found if places})
        if edges is not None:
            summary["interval"] = [edge / 1000.0 for edge in edges]
    return summary


def _gaps(arm: str, choice: ChoiceComparison) -> Sequence[float | None]:
    return choice.gaps if arm == "primary" else choice.shadow_gaps


def logits(seen: Seen, arm: str) -> Summary:
    """Say what number format an arm's logits seem to have, from the step that its gaps are multiples of (``step_nats``) and from its exact ties.

    ``says``: ``bf16``, ``fp16`` (steps of that size), ``fp32`` (no steps, no more ties than chance), ``rounded`` (ties as of coarse numbers, without one step: values
    cut to a few digits, or scaled); None with too few rows.
    """
    noise = Noise()
    for one in seen.comparisons:
        if one.incomparable is None:
            for choice in one.choices:
                learn_gaps(noise, _gaps(arm, choice))
    step, ties = logit_step(noise), exposure(seen, arm)
    says = None
    if step is not None:
        says = "bf16" if step >= _BF16_STEP else "fp16"
    elif noise.rows >= _ENOUGH_ROWS:
        low = ties.get("interval", [ties.get("share", 0.0)])[0]
        says = "rounded" if low > _TIES_OF_ROUNDING else "fp32"
    return {"says": says, "step_nats": step, "rows": noise.rows}


def agrees(says: str | None, footprint: Mapping[str, Any]) -> bool | None:
    """Say whether the logits are as the footprint has them (``logit_step``, else ``dtype``); None where either is unknown, or weights say nothing of them.

    Weights of bf16 with logits of fp32 are a head that computes in fp32.
    """
    kinds = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "fp32", "float": "fp32"}
    stated = [str(footprint.get(name) or "").lower() for name in ("logit_step", "dtype")]
    seen, weights = (kinds.get(one, one) for one in stated)
    if says is None:
        return None
    if says == "rounded":
        return False if (seen or weights) == "fp32" else None
    if seen in kinds.values():
        return says == seen
    if weights not in kinds.values():
        return None
    return True if says == weights else None if says == "fp32" else False
