"""Log-probabilities from logits, with an exact order among equals.

Values are the log-softmax of the model's raw logits: before penalties, bias, temperature and any cut. The logits are the model's own numbers widened to
float32; maximum, exponentials and their sum are taken in float64, so rounding of the normaliser adds nothing that a comparison could see (below 1e-12 nat).
(torch's float32 ``log_softmax``, which vLLM reports, comes out up to 1.3e-5 nat high for a vocabulary of 49,152, measured on a CPU.)
Rows are ordered by descending logit, then ascending id: two tokens with equal logits have equal values, and the lower id comes first.

House rules: numpy only; knows no model and no server. Unit: nats.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Logits = NDArray[np.float32]
Logprobs = NDArray[np.float64]

#: What JSON carries for the logarithm of zero, as vLLM's replies and OpenAI's documents do.
FLOOR = -9999.0


class Ranked(Struct, frozen=True, gc=False):
    """A token with its value and its place among all tokens, 1 for the first."""

    id: int
    logprob: float
    rank: int


class Row(Struct, frozen=True, gc=False):
    """One position: the token that stands there and the ``k`` first of the order."""

    token: Ranked
    top: tuple[Ranked, ...] = ()


def row(logits: Logits, token: int, top: int, *, in_float32: bool = False) -> Row:
    """Make the row of one position; logits of shape (vocabulary,), ``top`` the number of alternatives (more than the vocabulary: all of it).

    ``in_float32``: values as ``float32_normaliser`` makes them.
    """
    normaliser = float32_normaliser(logits) if in_float32 else log_normaliser(logits)
    own = logits[token]
    place = 1 + int(np.count_nonzero(logits > own)) + int(np.count_nonzero(logits[:token] == own))
    return Row(
        token=Ranked(token, _value(own, normaliser, in_float32=in_float32), place),
        top=tuple(
            Ranked(number, _value(logits[number], normaliser, in_float32=in_float32), rank)
            for rank, number in enumerate(first(logits, top), start=1)
        ),
    )


def rows(logits: Logits, tokens: Sequence[int], top: int, *, in_float32: bool = False) -> list[Row]:
    """Make the rows of logits of shape (positions, vocabulary)."""
    return [row(line, token, top, in_float32=in_float32) for line, token in zip(logits, tokens, strict=True)]


def whole(logits: Logits) -> Logprobs:
    """Return every token's value, of logits of shape (positions, vocabulary); the same number that a row has."""
    return np.stack([line.astype(np.float64) - log_normaliser(line) for line in logits])


def log_normaliser(logits: Logits) -> float:
    """log(sum(exp(logits))) in float64. Raises FloatingPointError when the model produced a NaN or no finite logit."""
    wide = logits.astype(np.float64)
    largest = float(wide.max())
    if not np.isfinite(largest):
        raise FloatingPointError("the model produced logits that are not finite numbers")
    return largest + float(np.log(np.exp(wide - largest).sum()))


def float32_normaliser(logits: Logits) -> float:
    """log(sum(exp(logits))) as a float32 sum in the order of the ids: what ``log_normaliser`` avoids, for ``planted.py``."""
    largest = logits.max()
    return float(largest + np.log(np.cumsum(np.exp(logits - largest), dtype=np.float32)[-1]))


def first(logits: Logits, count: int) -> list[int]:
    """Return the ``count`` first ids by descending logit, then ascending id."""
    count = min(count, logits.size)
    if count == 0:
        return []
    least = np.partition(logits, logits.size - count)[logits.size - count]
    candidates = np.flatnonzero(logits >= least)
    order = np.argsort(-logits[candidates], kind="stable")[:count]
    return [int(number) for number in candidates[order]]


def _value(logit: np.float32, normaliser: float, *, in_float32: bool) -> float:
    value = float(logit) - normaliser
    return max(float(np.float32(value)) if in_float32 else value, FLOOR)
