"""Days of conversations: how often each value of Y has come at each look, and what the product's bets have made of it by then, for all days at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from proxy.compare import betting

Numbers = NDArray[np.float64]


class Truth(NamedTuple):
    """Shares of conversations that are bad: of the control, and by how much more of the candidate; independent of each other. ``margin`` is what the user allows.

    Without a control (``alone``) the base is what the primary's own noise makes, the candidate's share is the two together, and the margin is the allowance.
    """

    base: float
    difference: float
    margin: float
    alone: bool = False

    @property
    def shares(self) -> tuple[float, float, float]:
        """Of worse, alike and better."""
        candidate = self.base + self.difference
        if self.alone:
            return (candidate, 0.0, 1 - candidate)
        worse, better = candidate * (1 - self.base), self.base * (1 - candidate)
        return (worse, 1 - worse - better, better)

    @property
    def bound(self) -> float:
        """The mean of Y on the margin."""
        return self.margin if self.alone else (1 + self.margin) / 2

    @property
    def fails(self) -> bool:
        """Whether FAIL is right."""
        return (self.base + self.difference if self.alone else self.difference) > self.margin


def days(rng: np.random.Generator, truth: Truth, many: int, length: int, step: int = 1) -> Numbers:
    """Draw so many days of ``length`` conversations, looked at after every ``step``: counts so far by [day, look, worse / alike / better]."""
    if step == 1:
        drawn = rng.choice(3, size=(many, length), p=truth.shares)
        return np.cumsum(drawn[:, :, None] == np.arange(3), axis=1, dtype=np.float64)
    return np.cumsum(rng.multinomial(step, truth.shares, size=(many, length // step)), axis=1).astype(np.float64)


def evidence(counts: Numbers, mean: float, *, over: bool) -> Numbers:
    """Return ``betting.log_wealth`` of every day at every look."""
    bets = np.array(betting.bets(mean, over=over)) * (1 / mean if over else -1 / (1 - mean))
    logs = counts @ np.log1p(np.outer(np.array([1.0, 0.5, 0.0]) - mean, bets))
    most = logs.max(axis=-1)
    found: Numbers = most + np.log(np.exp(logs - most[..., None]).mean(axis=-1))
    return found


def wilson(hits: int, of: int, z: float = 1.96) -> tuple[float, float]:
    """Return the 95 % interval of a share (Wilson 1927)."""
    share, spread = hits / of, z * z / of
    middle = (share + spread / 2) / (1 + spread)
    half = z * (share * (1 - share) / of + spread / of / 4) ** 0.5 / (1 + spread)
    return (max(0.0, middle - half), min(1.0, middle + half))
