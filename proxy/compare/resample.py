"""Conversations drawn again and again, all replicates at once: the bootstrap's weights and sums over them.

A conversation's weight in each replicate is one lane of a single large integer. Adding such integers adds every lane, and multiplying one by a count
multiplies every lane, so that a weighted sum over ten thousand conversations is ten thousand additions in C and not five million in Python.

House rules. Pure, and without a random source: weights come from a hash of conversation and replicate, so that any number of workers agree and two arms of
one conversation are drawn together. Lanes hold sums of whole numbers that are not negative; 64 bits of them never overflow.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import lru_cache
from hashlib import blake2b
from math import exp, factorial
from struct import Struct

REPLICATES = 512

_PER_DIGEST = 32  # 64 bytes, two each
_LANE = 8  # bytes
#: Upper edges of the cumulative Poisson(1) distribution: a bootstrap weight is how many of them a uniform number passes.
_POISSON = tuple(sum(exp(-1.0) / factorial(k) for k in range(upto + 1)) for upto in range(8))
#: The weight of each of the 65,536 uniform numbers.
_WEIGHT = bytes(bisect_left(_POISSON, (number + 0.5) / 65536.0) for number in range(65536))
_NUMBERS = Struct(f"<{REPLICATES}H")
_LANES = Struct(f"<{REPLICATES}Q")


@lru_cache(maxsize=16384)  # 10 MB: a report goes over its conversations several times
def weights(conversation: str) -> bytes:
    """Return a conversation's ``REPLICATES`` bootstrap weights, Poisson with mean 1 (the bootstrap of a stream), one byte each.

    Oza and Russell 2001, "Online bagging and boosting".
    """
    digests = (
        blake2b(f"{block}:{conversation}".encode(), digest_size=64).digest()
        for block in range(REPLICATES // _PER_DIGEST)
    )
    return bytes(map(_WEIGHT.__getitem__, _NUMBERS.unpack(b"".join(digests))))


def lanes(conversation: str) -> int:
    """Return a conversation's weights as lanes of one integer, ready to be multiplied by a count and added up."""
    wide = bytearray(REPLICATES * _LANE)
    wide[::_LANE] = weights(conversation)
    return int.from_bytes(wide, "little")


def replicates(total: int) -> tuple[int, ...]:
    """Return the sum of each replicate out of a sum of lanes."""
    return _LANES.unpack(total.to_bytes(REPLICATES * _LANE, "little"))
