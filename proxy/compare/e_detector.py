"""Online drift: whether the candidate has begun, at some unknown moment, to be the bad one more often than the control.

An e-detector (Shin, Ramdas and Rinaldo, "E-detectors", arXiv 2203.03532): over conversations in which the arms differ, for each theta of a fixed grid
M <- (M + 1) e_theta with e_theta = theta / (1/2) where the candidate was the bad one, (1 - theta) / (1/2) where the control was; the detector is the mean over the grid.
Alarming when it reaches A makes at least A conversations pass, on average, between false alarms.

House rules. Pure. It depends on order, so each worker has its own, and states of two workers are never added. It has no part in the verdict: drift asks "since when", the verdict "how much".
"""

from __future__ import annotations

from math import exp, fsum, inf, log, log1p

from msgspec import Struct

#: Shares of differing conversations in which a candidate that has drifted is the bad one; just above a half are small drifts, near one are gross.
GRID = (0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)


class Detector(Struct, frozen=True):
    """Its state: log M for each theta, and how many differing conversations it has seen since it began or was reset."""

    logs: tuple[float, ...] = (-inf,) * len(GRID)
    seen: int = 0

    def after(self, *, worse: bool) -> Detector:
        """The state after one more conversation in which the arms differ; ``worse``: the candidate was the bad one."""
        logs = tuple(
            _plus_one(now) + log(2 * (theta if worse else 1 - theta))
            for now, theta in zip(self.logs, GRID, strict=True)
        )
        return Detector(logs, self.seen + 1)

    @property
    def sound(self) -> bool:
        """Whether it can go on: as many values as the grid has, each a number."""
        return len(self.logs) == len(GRID) and all(one < inf for one in self.logs) and self.seen >= 0

    @property
    def log_e(self) -> float:
        """Log of the detector, minus infinity before the first difference."""
        most = max(self.logs)
        return most if most == -inf else most + log(fsum(exp(one - most) for one in self.logs) / len(self.logs))

    def alarms(self, conversations_between_false_alarms: float) -> bool:
        """Whether it has reached the bound."""
        return self.log_e >= log(conversations_between_false_alarms)


def _plus_one(logged: float) -> float:
    """Log of M + 1."""
    return logged + log1p(exp(-logged)) if logged > 0 else log1p(exp(logged))
