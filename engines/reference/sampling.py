"""Which token comes next: greedy or drawn, after penalties, bias and cuts.

The order of steps and their meaning are vLLM's, so that one request means the same on both: minimum length, bias, penalties, temperature, min-p, top-k, top-p.
Greedy picks the lowest id among equal maxima, explicitly. A draw with a seed is repeatable (PCG64 of numpy); it is not the draw of any other engine.

House rules: numpy only; knows no model and no server.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from engines.reference.logprobs import Logits

#: Which of several tokens with the largest logit greedy takes. Anything but "lowest" is planted (``planted.py``).
Ties = Literal["lowest", "highest", "random"]

#: vLLM treats a temperature below this as greedy.
GREEDY_BELOW = 1e-5


class Sampling(Struct, frozen=True, kw_only=True):
    """How the next token is chosen; the defaults change nothing. ``top_k`` 0 or below is off."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int | None = None
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    bias: tuple[tuple[int, float], ...] = ()


def generator(sampling: Sampling, choice: int) -> np.random.Generator:
    """Make the random source of one choice: seeded requests give choice ``i`` the seed plus i, as vLLM does."""
    return np.random.default_rng(None if sampling.seed is None else (sampling.seed + choice) % 2**64)


def adjusted(
    logits: Logits, sampling: Sampling, prompt: Sequence[int], output: Sequence[int], forbidden: Sequence[int] = ()
) -> Logits:
    """Logits after ``forbidden`` tokens, bias and penalties; the argument itself when nothing changes it.

    The repetition penalty looks at prompt and output, presence and frequency at the output alone.
    """
    penalised = (
        sampling.repetition_penalty != 1.0 or sampling.presence_penalty != 0.0 or sampling.frequency_penalty != 0.0
    )
    if not (penalised or sampling.bias or forbidden):
        return logits
    changed = logits.copy()
    changed[list(forbidden)] = -np.inf
    for token, bias in sampling.bias:
        changed[token] += np.float32(bias)
    if sampling.repetition_penalty != 1.0:
        seen = np.unique(np.asarray([*prompt, *output], dtype=np.int64))
        values = changed[seen]
        changed[seen] = np.where(values > 0, values / sampling.repetition_penalty, values * sampling.repetition_penalty)
    produced, counts = np.unique(np.asarray(output, dtype=np.int64), return_counts=True)
    changed[produced] -= (counts * sampling.frequency_penalty + sampling.presence_penalty).astype(np.float32)
    return changed


def pick(logits: Logits, sampling: Sampling, source: np.random.Generator, ties: Ties = "lowest") -> int:
    """Choose the id of the next token from (adjusted) logits of shape (vocabulary,)."""
    if sampling.temperature < GREEDY_BELOW:
        return greedy(logits, ties, source)
    chances = probabilities(logits, sampling)
    # A draw by the inverse of the distribution function: one random number a token whatever the cuts are. Rounding at the very end of the
    # sum must not reach a token that was cut.
    reached = np.cumsum(chances)
    return min(
        int(np.searchsorted(reached, source.random() * reached[-1], side="right")), int(np.flatnonzero(chances)[-1])
    )


def greedy(logits: Logits, ties: Ties, source: np.random.Generator) -> int:
    """Return an id with the largest logit; of several the lowest, the highest, or any (a request's seed repeats it)."""
    equal = np.flatnonzero(logits == logits.max())
    match ties:
        case "lowest":
            return int(equal[0])
        case "highest":
            return int(equal[-1])
        case "random":
            return int(source.choice(equal))


def probabilities(logits: Logits, sampling: Sampling) -> NDArray[np.float64]:
    """Compute the chances of each token after temperature and the cuts (float64, shape (vocabulary,), sum 1)."""
    scaled = logits.astype(np.float64) / sampling.temperature
    weights = np.exp(scaled - scaled.max())
    if sampling.min_p > 0.0:
        weights[weights < sampling.min_p] = 0.0  # the largest weight is 1
    if 0 < sampling.top_k < weights.size:
        weights[weights < np.partition(weights, -sampling.top_k)[-sampling.top_k]] = 0.0
    if sampling.top_p < 1.0:
        order = np.argsort(-weights, kind="stable")
        before = np.cumsum(weights[order]) - weights[order]
        # A token stays while the mass before it is below top_p: the first always does.
        weights[order[1:][before[1:] >= sampling.top_p * weights.sum()]] = 0.0
    chances: NDArray[np.float64] = weights / weights.sum()
    return chances
