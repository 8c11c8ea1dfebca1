"""Whether one side's logprobs stand one place beside the other's: the fault that leaves every mean as it was.

House rules. Pure. A hint in words, never a number of the result: looked for in the first rollouts only.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum, sqrt
from operator import mul

_ENOUGH = 200_000  # tokens
#: Shifted values of one model correlate as well as right ones do; wrong ones hardly at all.
_SURE, _POOR = 0.9, 0.7


class Shifted:
    """Moments of p against q of the place before and after."""

    def __init__(self) -> None:
        self._tokens = 0
        self._moments = {-1: [0.0] * 6, 1: [0.0] * 6}

    def add(self, ps: Sequence[float], qs: Sequence[float]) -> None:
        """Take one rollout in."""
        if self._tokens >= _ENOUGH or len(ps) < 2:
            return
        self._tokens += len(ps)
        for by, (ours, theirs) in ((1, (ps[:-1], qs[1:])), (-1, (ps[1:], qs[:-1]))):
            for number, one in enumerate((
                len(ours), fsum(ours), fsum(theirs), fsum(map(mul, ours, ours)), fsum(map(mul, theirs, theirs)), fsum(map(mul, ours, theirs)),
            )):  # fmt: skip
                self._moments[by][number] += one

    def hints(self, direct: float) -> list[str]:
        """Return what is to be said, given the correlation as the values stand."""
        for by, (n, p, q, pp, qq, pq) in self._moments.items():
            spread = (n * pp - p * p) * (n * qq - q * q)
            moved = (n * pq - p * q) / sqrt(spread) if spread > 0.0 else 0.0
            if direct < _POOR and moved > _SURE:
                where = "late" if by == 1 else "early"
                return [f"the trainer's values look one place too {where}: moved by one they correlate at {moved:.4f}"]
        return []
