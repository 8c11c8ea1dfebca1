"""The effective sample size of importance weights: of how many rollouts, or tokens, a weighted mean is worth.

House rules. Pure. (sum w)^2 / (n sum w^2), Kong 1992; w = q / p of a token, or of a whole response. Weights of responses are kept as logarithms, eight bytes each, for
only together do they show how large they are. Intervals draw the same bags of rollouts as all others.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from math import exp
from typing import Any

from proxy.compare.addends import Addends
from proxy.compare.bins import UNIT, fixed
from proxy.compare.hazard import ENOUGH_CONVERSATIONS
from proxy.compare.resample import weights
from proxy.compare.resampled import percentiles
from proxy.compare.weighted import Sums, Weights

Three = tuple[int, int, int]  # count, sum of weights, of their squares; the sums in multiples of 1 / UNIT


def of_tokens(bags: Mapping[str, Addends], rollouts: int) -> dict[str, Any]:
    """Return the number for the weights of single tokens, as ``Measured.numbers`` has it; empty without any."""
    parts = {
        bag: (one.sums["values"], one.sums["weight"], one.sums["weight_squared"]) for bag, one in bags.items()
    }  # fmt: skip
    return _number(parts, rollouts)


def of_sequences(logs: array[float], bags: int) -> dict[str, Any]:
    """Return the number for the weights of whole responses, given as logarithms in the order of the rollouts; rollout i is in bag i modulo ``bags``."""
    if not logs:
        return {}
    largest = max(logs)
    scaled = [exp(one - largest) for one in logs]
    parts: dict[str, Three] = {}
    for number in range(min(bags, len(scaled))):
        own = scaled[number::bags]
        parts[str(number)] = (len(own), sum(map(fixed, own)), sum(fixed(one * one) for one in own))
    return _number(parts, len(logs))


def _number(parts: Mapping[str, Three], rollouts: int) -> dict[str, Any]:
    totals = [sum(column) for column in zip(*parts.values(), strict=True)]
    if not totals or not totals[0]:
        return {}
    share = _share(totals)
    number: dict[str, Any] = {"raw": share, "n": totals[0], "rollouts": rollouts, "effective": share * totals[0]}
    if len(parts) < ENOUGH_CONVERSATIONS:
        return number | {"no_interval": {"interval": "few_rollouts"}}
    sums = [Sums(column) for column in zip(*parts.values(), strict=True)]
    for bag, three in parts.items():
        drawn = Weights(weights(bag))
        for one, value in zip(sums, three, strict=True):
            one.add(drawn, value)
    columns = zip(*(one.replicates() for one in sums), strict=True)
    return number | {"interval": list(percentiles([_share(column) for column in columns if column[2]]))}


def _share(three: Sequence[int]) -> float:
    count, total, squares = three
    return min(1.0, total * total / (count * squares * UNIT)) if squares else 0.0
