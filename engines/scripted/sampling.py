"""The next token from logits: penalties, bias, temperature, filters, a keyed draw, and the planted tie rule.

House rules. Pure. Order of operations as vLLM's and llama.cpp's documents have it: bias and penalties, then temperature, then top-k, top-p and min-p. The
draw is a hash of the request's seed, the choice and the context: equal requests are answered equally.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from engines.scripted.model import draw, log_softmax
from engines.scripted.script import Differences

Ids = tuple[int, ...]

#: vLLM's _SAMPLING_EPS: below it a request is greedy.
_GREEDY = 1e-5


@dataclass(frozen=True, slots=True)
class Sampling:
    """What a request asks for, defaults filled in. ``top_k`` 0 and ``top_p`` 1 are off."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    presence: float = 0.0
    frequency: float = 0.0
    repetition: float = 1.0
    bias: dict[int, float] = field(default_factory=dict)
    seed: int = 0

    @property
    def greedy(self) -> bool:
        """Whether the most likely token is always taken."""
        return self.temperature < _GREEDY


def adjusted(logits: Sequence[float], sampling: Sampling, prompt: Ids, said: Ids) -> list[float]:
    """Apply bias and penalties."""
    values = list(logits)
    for token, value in sampling.bias.items():
        if token < len(values):
            values[token] += value
    if sampling.repetition != 1.0:
        for token in {*prompt, *said}:
            values[token] = (
                values[token] / sampling.repetition if values[token] > 0 else values[token] * sampling.repetition
            )
    if sampling.presence or sampling.frequency:
        for token, times in Counter(said).items():
            values[token] -= sampling.presence + sampling.frequency * times
    return values


def choose(values: Sequence[float], sampling: Sampling, choice: int, context: Ids, differences: Differences) -> int:
    """Return the id of the token taken: the maximum by the tie rule, or a draw."""
    if sampling.greedy:
        return _maximum(values, differences, context)
    logprobs = log_softmax(values, sampling.temperature)
    left = filtered(logprobs, sampling)
    total = math.fsum(math.exp(logprobs[token]) for token in left)
    mark = draw(b"draw", sampling.seed * 1024 + choice, context) * total
    for token in left:
        mark -= math.exp(logprobs[token])
        if mark < 0:
            return token
    return left[-1]


def filtered(logprobs: Sequence[float], sampling: Sampling) -> list[int]:
    """Return the ids that top-k, top-p and min-p leave, most likely first, at least one."""
    order = sorted(range(len(logprobs)), key=lambda token: (-logprobs[token], token))
    if sampling.top_k:
        order = order[: sampling.top_k]
    if sampling.top_p < 1.0:
        kept, mass = 0, 0.0
        while kept < len(order) and mass < sampling.top_p:
            mass += math.exp(logprobs[order[kept]])
            kept += 1
        order = order[:kept]
    if sampling.min_p:
        least = logprobs[order[0]] + math.log(sampling.min_p)
        order = [token for token in order if logprobs[token] >= least]
    return order


def _maximum(values: Sequence[float], differences: Differences, context: Ids) -> int:
    top = max(values)
    tied = [token for token, value in enumerate(values) if value == top]
    match differences.ties:
        case "lowest":
            return tied[0]
        case "highest":
            return tied[-1]
        case "random":
            return tied[int(draw(b"tie", differences.noise_seed, context) * len(tied))]
