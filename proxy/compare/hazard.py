"""How often the arms part, per token at which they could have, with an interval that resamples whole conversations.

House rules. Tokens of one conversation are not independent, so a conversation is the unit of resampling. There is no random
source: a conversation's weight in a replicate comes from a hash of the two, so that any number of workers agree, and two
arms of the same conversation are resampled together.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from hashlib import blake2b
from math import exp, factorial
from struct import unpack

from msgspec import Struct

from proxy.compare.quantile import quantile

REPLICATES = 512
#: Share of replicates inside the interval.
CONFIDENCE = 0.95
#: Fewer conversations than this resample to almost nothing but themselves.
ENOUGH_CONVERSATIONS = 10

_PER_DIGEST = 32  # 64 bytes, two each
#: Upper edges of the cumulative Poisson(1) distribution: a bootstrap weight is how many of them a uniform number passes.
_POISSON = tuple(sum(exp(-1.0) / factorial(k) for k in range(upto + 1)) for upto in range(8))


class Exposure(Struct, frozen=True):
    """What one conversation adds: first differences, and positions at which there could have been one."""

    conversation: str
    events: int
    exposed: int


def per_thousand(events: float, exposed: float) -> float | None:
    """Return events per 1,000 exposed tokens, None without exposure."""
    return 1000.0 * events / exposed if exposed else None


def weights(conversation: str) -> list[int]:
    """Return a conversation's ``REPLICATES`` bootstrap weights, Poisson with mean 1 (the bootstrap of a stream)."""
    found: list[int] = []
    for block in range(REPLICATES // _PER_DIGEST):
        digest = blake2b(f"{block}:{conversation}".encode(), digest_size=64).digest()
        for number in unpack(f"<{_PER_DIGEST}H", digest):
            uniform = (number + 0.5) / 65536.0
            found.append(bisect_left(_POISSON, uniform))
    return found


def interval(arm: Iterable[Exposure], control: Iterable[Exposure] = ()) -> tuple[float, float] | None:
    """Return the interval of the hazard per 1,000 tokens, of its excess over the control where one is given.

    None with fewer than ``ENOUGH_CONVERSATIONS`` conversations, and where a replicate has no exposure at all.
    """
    own = list(arm)
    floor = list(control)
    if len({one.conversation for one in own}) < ENOUGH_CONVERSATIONS:
        return None
    hazards = _replicates(own)
    floors = _replicates(floor) if floor else [0.0] * REPLICATES
    differences: list[float] = []
    for one, other in zip(hazards, floors, strict=True):
        if one is None or other is None:
            return None
        differences.append(one - other)
    differences.sort()
    tail = (1.0 - CONFIDENCE) / 2
    return quantile(differences, tail), quantile(differences, 1.0 - tail)


def _replicates(exposures: list[Exposure]) -> list[float | None]:
    events, exposed = [0] * REPLICATES, [0] * REPLICATES
    for one in exposures:
        for replicate, weight in enumerate(weights(one.conversation)):
            events[replicate] += weight * one.events
            exposed[replicate] += weight * one.exposed
    return [per_thousand(*pair) for pair in zip(events, exposed, strict=True)]
