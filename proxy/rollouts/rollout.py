"""One rollout: the ids that were drawn, what the engine that drew them said of each, and what the trainer says.

House rules. Pure. A rollout that cannot be compared is ``Unusable`` with a bounded reason and a text that names the field and the place, never a token of it; a
single value that is no number is left out and counted by its reason (``LEFT_OUT``), never replaced by 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import isfinite
from typing import Any, NamedTuple

from msgspec import Struct

#: Values at or below this are what engines put for "none" (-9999, -65504, -1e9), not logprobs.
SENTINEL = -9999.0
#: A logprob computed in bf16 may be rounded to this much above 0; more is no logprob.
ROUNDING = 0.0625
#: The label by which training code marks a token that takes no part.
IGNORED = -100

#: Why a whole rollout is not compared.
REASONS = {
    "not_json": "the line is no JSON object",
    "truncated": "the last line ends in the middle",
    "no_response_ids": "there are no ids of the response",
    "no_rollout_logprobs": "there are no logprobs of the engine that drew it",
    "no_trainer_logprobs": "there are no logprobs of the trainer, and no engine was named to score it (`--shadow URL` names one)",
    "length_mismatch": "ids, logprobs and mask are not of one length",
    "not_numbers": "a field holds something else than numbers",
    "positive_logprobs": "a logprob is above 0",
    "nothing_unmasked": "the mask leaves no token",
    "no_values": "no token has a value of both sides",
    "not_scored": "the engine that was to score it did not",
}

#: Why a single token is not compared.
LEFT_OUT = {
    "masked": "the mask or the label -100 takes it out",
    "rollout_not_finite": "the rollout's value is null, NaN, infinite or a sentinel",
    "trainer_not_finite": "the trainer's value is null, NaN, plus infinity or a sentinel",
    "trainer_impossible": "the trainer says minus infinity of a token that was drawn",
    "not_scored": "the engine scored other positions of the rollout, not this one",
}


class Unusable(Exception):
    """A rollout cannot be compared; ``reason`` is one of ``REASONS``."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


class Rollout(Struct, frozen=True):
    """One response. Lists run over its tokens; logprobs in nats, None where there is no value.

    ``trainer_logprobs`` None: not known. ``mask``: True for tokens that take part; None: all do. ``unfiltered``: it was drawn at temperature 1 without filters
    and penalties (None: not known). ``scored``: the trainer's values come from an engine that may have scored a part of the positions.
    """

    response_ids: Sequence[int]
    rollout_logprobs: Sequence[float | None]
    trainer_logprobs: Sequence[float | None] | None = None
    prompt_ids: Sequence[int] = ()
    mask: Sequence[bool] | None = None
    name: str = ""
    unfiltered: bool | None = None
    scored: bool = False


class Values(NamedTuple):
    """The tokens of a rollout that can be compared: position in the response, log p (rollout), log q (trainer); and how many were left out, by reason."""

    positions: Sequence[int]
    ps: Sequence[float]
    qs: Sequence[float]
    left_out: Counter[str]


def make(
    response_ids: Any,
    rollout_logprobs: Any,
    trainer_logprobs: Any = None,
    *,
    prompt_ids: Any = (),
    mask: Any = None,
    name: str = "",
    unfiltered: bool | None = None,
) -> Rollout:
    """Return a checked rollout; lists, or anything with ``tolist`` (numpy, torch). Raises Unusable."""
    ids = _listed(response_ids, "response ids", "no_response_ids")
    if not ids:
        raise Unusable("no_response_ids", "the response has no ids")
    if not all(type(one) is int for one in ids):
        raise Unusable("not_numbers", "response ids: not all are whole numbers")
    ps = _logprobs(_listed(rollout_logprobs, "rollout logprobs", "no_rollout_logprobs"), "rollout logprobs")
    qs = (
        None
        if trainer_logprobs is None
        else _logprobs(_listed(trainer_logprobs, "trainer logprobs", "no_trainer_logprobs"), "trainer logprobs")
    )
    taken = _mask(mask, ids)
    for what, one in (("rollout logprobs", ps), ("trainer logprobs", qs), ("mask", taken)):
        if one is not None and len(one) != len(ids):
            raise Unusable("length_mismatch", f"{len(ids)} response ids, but {len(one)} in {what}")
    _refuse_positive(ps, taken, "rollout logprobs")
    if qs is not None:
        _refuse_positive(qs, taken, "trainer logprobs")
    if taken is not None and not any(taken):
        raise Unusable("nothing_unmasked", "the mask leaves no token")
    prompt = _listed(prompt_ids, "prompt ids", "not_numbers")
    if not all(type(one) is int for one in prompt):
        raise Unusable("not_numbers", "prompt ids: not all are whole numbers")
    return Rollout(ids, ps, qs, prompt, taken, name, unfiltered)


def values(rollout: Rollout) -> Values:
    """Return the tokens that can be compared. Raises Unusable without any trainer logprobs."""
    ps, qs = rollout.rollout_logprobs, rollout.trainer_logprobs
    if qs is None:
        raise Unusable("no_trainer_logprobs", "the rollout has no trainer logprobs")
    if rollout.mask is None and None not in ps and None not in qs and _sound(ps) and _sound(qs):
        return Values(range(len(ps)), ps, qs, Counter())  # type: ignore[arg-type] # just looked: no None in either
    left_out: Counter[str] = Counter()
    kept: list[tuple[int, float, float]] = []
    mask = rollout.mask or [True] * len(ps)
    for position, (p, q, taken) in enumerate(zip(ps, qs, mask, strict=True)):
        reason = "" if taken else "masked"
        reason = reason or _why_not(p, q, scored=rollout.scored)
        if reason:
            left_out[reason] += 1
        else:
            assert p is not None
            assert q is not None
            kept.append((position, p, q))
    positions, ours, theirs = zip(*kept, strict=True) if kept else ((), (), ())
    return Values(positions, ours, theirs, left_out)


def _why_not(p: float | None, q: float | None, *, scored: bool) -> str:
    if p is None or not isfinite(p) or p <= SENTINEL:
        return "rollout_not_finite"
    if q is None and scored:
        return "not_scored"
    if q == float("-inf"):
        return "trainer_impossible"
    return "trainer_not_finite" if q is None or not isfinite(q) or q <= SENTINEL else ""


def _sound(found: Sequence[Any]) -> bool:
    return isfinite(sum(found)) and min(found) > SENTINEL


def _listed(found: Any, what: str, absent: str) -> list[Any]:
    if found is None:
        raise Unusable(absent, f"there are no {what}")
    if hasattr(found, "tolist"):
        found = found.tolist()
    if isinstance(found, (list, tuple)):
        return list(found)
    raise Unusable("not_numbers", f"{what}: a {type(found).__name__}, not a list")


def _logprobs(found: list[Any], what: str) -> list[float | None]:
    kinds = set(map(type, found))
    for one in kinds - {float, int, type(None)}:
        raise Unusable("not_numbers", f"{what}: a {one.__name__} among the numbers")
    if int not in kinds:
        return found
    try:
        return [None if one is None else float(one) for one in found]
    except OverflowError:
        raise Unusable("not_numbers", f"{what}: a number too large for any logprob") from None


def _mask(mask: Any, ids: Sequence[int]) -> list[bool] | None:
    """The mask, of which a token labelled -100 is no part; None where every token takes part."""
    taken = None if mask is None else [bool(one) for one in _listed(mask, "mask", "not_numbers")]
    if IGNORED in ids and (taken is None or len(taken) == len(ids)):
        taken = [one != IGNORED and (taken is None or taken[number]) for number, one in enumerate(ids)]
    return None if taken is not None and len(taken) == len(ids) and all(taken) else taken


def _refuse_positive(found: Sequence[float | None], mask: Sequence[bool] | None, what: str) -> None:
    if max((one for one in found if one is not None), default=0.0) <= 0.0:
        return
    for number, one in enumerate(found):
        if one is not None and ROUNDING < one < float("inf") and (mask is None or mask[number]):
            text = f"{what}: {one:g} at position {number}; logprobs are not above 0: are these probabilities, or negative log likelihoods?"
            raise Unusable("positive_logprobs", text)
