"""Faults that are planted on purpose, so that a comparison, a dashboard or an alert can be tried against a known truth.

A plant is one frozen value, written as ``name=value`` pairs with commas between them (``logit-noise=0.02,from-position=16``): the same text is the option, a
part of an address, and what the footprint shows. Logits are changed as a pure function of themselves, the tokens before them and the plant, so decoding a reply
and scoring it meet the same fault. Noise comes first and rounding after it, as in an engine whose noisy arithmetic ends in a narrow number format.

A reply's positions are counted from the end of the template's opening of a turn (``<|im_start|>assistant`` and a line's end), which is found in the tokens themselves: whoever
scores a reply sends prompt and reply as one. In a text without it positions are counted from its beginning.

House rules: numpy only, no random source but the caller's, knows no model and no server. Nothing here is active unless it was asked for by name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
import numpy as np
from msgspec import Meta, Struct

from engines.reference.logprobs import Logits
from engines.reference.sampling import Ties


class Plant(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """What is wrong with the engine; the defaults are a healthy one.

    ``logit_noise``: standard deviation, in nats, of independent Gaussian noise on every logit, the same whenever the same tokens come before and ``noise_seed`` is
    the same. ``round_logits``: the format that logits are rounded to. ``ties``: which of equal logits greedy takes. ``values``: ``float32`` reports
    logprobs whose normaliser is a float32 sum in the order of the ids, as fast kernels do; such lists may sum to more than 1. ``extra_bos`` puts the begin token before
    rendered prompts once more, ``drop_prompt_tokens`` leaves out their first N tokens; ids that a client gives stay as they are. ``from_position``: logits and ties are
    healthy before this position of the reply (0-based).
    """

    logit_noise: Annotated[float, Meta(ge=0, le=100)] = 0.0
    noise_seed: Annotated[int, Meta(ge=0, lt=2**62)] = 0
    round_logits: Literal["", "bf16", "fp16"] = ""
    ties: Ties = "lowest"
    values: Literal["exact", "float32"] = "exact"
    extra_bos: bool = False
    drop_prompt_tokens: Annotated[int, Meta(ge=0)] = 0
    from_position: Annotated[int, Meta(ge=0)] = 0

    @property
    def spelling(self) -> str:
        """The text that ``plant_of`` reads; empty for a healthy engine."""
        told, usual = msgspec.to_builtins(self), msgspec.to_builtins(HEALTHY)
        return ",".join(f"{name}={str(value).lower()}" for name, value in told.items() if value != usual[name])


HEALTHY = Plant()


def plant_of(spelling: str) -> Plant:
    """Read ``name=value,name=value``. Raises ValueError, naming what is wrong and what there is."""
    pairs = [part.partition("=") for part in spelling.split(",") if part]
    given = {name: value for name, _, value in pairs}
    try:
        if len(given) < len(pairs):
            raise msgspec.ValidationError("a name stands there twice")
        return msgspec.convert(given, Plant, strict=False)
    except msgspec.ValidationError as wrong:
        raise ValueError(f"{spelling[:200]}: {wrong}; known are {', '.join(Plant.__struct_encode_fields__)}") from None


def reached(before: Sequence[int], plant: Plant, opening: Sequence[int]) -> bool:
    """Tell whether the position after these tokens is one that the fault has reached. ``opening``: the tokens that open a reply."""
    first = plant.from_position
    if first == 0 or len(before) < first:
        return first == 0
    size = len(opening)
    if not size:
        return True
    # An opening among the last tokens, even if its end is the only part of it there, means fewer than ``first`` tokens of a reply.
    recent = list(before[max(0, len(before) - first + 1 - size) :])
    return not any(recent[at : at + size] == list(opening) for at in range(len(recent) - size + 1))


def planted(logits: Logits, tokens: Sequence[int], plant: Plant, opening: Sequence[int]) -> Logits:
    """Return the logits after each of the last ``len(logits)`` of ``tokens`` with the fault in them; the argument itself where there is none.

    ``logits``: float32, shape (positions, vocabulary).
    """
    if not plant.logit_noise and not plant.round_logits:
        return logits
    changed = logits.copy()
    for place in range(len(logits)):
        before = tokens[: len(tokens) - len(logits) + 1 + place]
        if reached(before, plant, opening):
            changed[place] = _rounded(_noisy(logits[place], before, plant), plant.round_logits)
    return changed


def tie_rule(before: Sequence[int], plant: Plant, opening: Sequence[int]) -> Ties:
    """Name the rule by which greedy chooses among equal logits after these tokens."""
    return plant.ties if reached(before, plant, opening) else "lowest"


def prompt(ids: tuple[int, ...], plant: Plant, begin: int | None) -> tuple[int, ...]:
    """Return a rendered prompt with the fault in it. ``begin``: the begin token, the prompt's own first where the tokenizer has none; one token always stays."""
    kept = ids[min(plant.drop_prompt_tokens, len(ids) - 1) :]
    return (kept[0] if begin is None else begin, *kept) if plant.extra_bos else kept


def _noisy(logits: Logits, before: Sequence[int], plant: Plant) -> Logits:
    if not plant.logit_noise:
        return logits
    key = plant.noise_seed.to_bytes(8, "little")
    digest = hashlib.blake2b(np.asarray(before, dtype="<i8").tobytes(), digest_size=16, key=key).digest()
    source = np.random.default_rng(int.from_bytes(digest, "little"))
    noise = source.standard_normal(logits.size, dtype=np.float32)
    return logits + np.float32(plant.logit_noise) * noise


def _rounded(logits: Logits, to: str) -> Logits:
    """Round to the nearest number of a narrower format, halves to even, and widen again."""
    match to:
        case "fp16":
            return logits.astype(np.float16).astype(np.float32)
        case "bf16":
            bits = logits.view(np.uint32)
            even = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
            return (even & np.uint32(0xFFFF0000)).view(np.float32)
        case _:
            return logits
