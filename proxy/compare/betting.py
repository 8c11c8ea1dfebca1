"""Evidence about a mean, valid however often somebody looks: wealth of bets against a null hypothesis, from three counters.

Each conversation gives one outcome Y of the pair (candidate, control): 1 when only the candidate was bad, 0 when only the control was, 1/2 when they were
alike. Betting a share lambda of one's wealth against "the mean of Y is at most m" multiplies it by 1 + lambda (Y - m), whose expectation is at most 1 while that
is true; so by Ville's inequality the wealth ever reaches 1/alpha with probability alpha at most (Waudby-Smith and Ramdas, "Estimating means of bounded random
variables by betting", arXiv 2010.09686). The wealth here is the mean over a fixed grid of lambda, hence a function of how often each value of Y came.

House rules. Pure. Nothing depends on the order in which outcomes came, so replicas, workers and restarts add up exactly. All evidence is the natural
logarithm of a wealth: 0 at the beginning, ln(1/alpha) where a test at level alpha rejects.
"""

from __future__ import annotations

from collections.abc import Callable
from math import exp, fsum, lgamma, log, log1p

from msgspec import Struct

#: Bets of the grid, evenly spaced up to half of what would be ruin: larger ones pay only where the arms differ so much that anything decides soon.
_GRID = 25
#: Halvings that find the end of an interval to 1e-9 of its range.
_HALVINGS = 30
_LEAST = 1e-12  # a mean of exactly 0 or 1 has no bet against it


class Outcomes(Struct, frozen=True):
    """How often each value of Y came. ``worse``: only the candidate was bad (1); ``alike``: both or neither (1/2); ``better``: only the control was (0).

    Counts are whole where they were counted; a forecast scales them. Without a control there is no ``alike``.
    """

    worse: float = 0
    alike: float = 0
    better: float = 0

    def __add__(self, other: Outcomes) -> Outcomes:
        return Outcomes(self.worse + other.worse, self.alike + other.alike, self.better + other.better)

    @property
    def total(self) -> float:
        """How many conversations."""
        return self.worse + self.alike + self.better

    @property
    def mean(self) -> float | None:
        """The mean of Y, None without any."""
        return (self.worse + self.alike / 2) / self.total if self.total else None

    def times(self, factor: float) -> Outcomes:
        """As many times of each."""
        return Outcomes(self.worse * factor, self.alike * factor, self.better * factor)


def above(outcomes: Outcomes, mean: float) -> float:
    """Return the log evidence that the mean of Y is above ``mean`` (in 0..1, both excluded)."""
    return _wealth(outcomes, mean, 1.0, 1.0 / mean)


def below(outcomes: Outcomes, mean: float) -> float:
    """Return the log evidence that the mean of Y is below ``mean`` (in 0..1, both excluded)."""
    return _wealth(outcomes, mean, -1.0, 1.0 / (1.0 - mean))


def _wealth(outcomes: Outcomes, mean: float, side: float, ruin: float) -> float:
    """Log of the mean wealth over bets up to ``ruin``, the share at which the worst outcome takes all."""
    counted = ((outcomes.worse, 1.0 - mean), (outcomes.alike, 0.5 - mean), (outcomes.better, -mean))
    grid = (side * ruin * step / (2 * _GRID) for step in range(1, _GRID + 1))
    return _log_mean([fsum(count * log1p(bet * gain) for count, gain in counted if count) for bet in grid])


def _log_mean(logs: list[float]) -> float:
    most = max(logs)
    return most + log(fsum(exp(one - most) for one in logs) / len(logs))


def interval(outcomes: Outcomes, alpha: float) -> tuple[float, float]:
    """Return a confidence sequence's interval for the mean of Y: it holds at all times at once with probability 1 - ``alpha``.

    Those means against which neither side has evidence of ln(2 / alpha); (0, 1) without outcomes.
    """
    bound = log(2.0 / alpha)
    middle = outcomes.mean
    if middle is None:
        return (0.0, 1.0)
    lowest = 0.0 if middle == 0 else _edge(lambda mean: above(outcomes, mean) >= bound, _LEAST, middle)
    highest = 1.0 if middle == 1 else _edge(lambda mean: below(outcomes, mean) < bound, middle, 1.0 - _LEAST)
    return (lowest, highest)


def _edge(inside: Callable[[float], bool], low: float, high: float) -> float:
    """Return where a test that holds from ``low`` on stops to hold."""
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if inside(middle):
            low = middle
        else:
            high = middle
    return low


def worse_than_control(worse: int, better: int) -> float:
    """Return the log e-value that, of conversations in which the arms differ, the candidate is the bad one in more than half.

    e = 2^n times the integral over theta from 1/2 to 1 of 2 theta^x (1 - theta)^(n - x), with x = ``worse`` of n: a mixture of likelihood ratios against
    1/2. The integral is a Beta function times a Beta tail, which for whole numbers is a binomial one: e = B(x + 1, n - x + 1) times the sum over k from 0 to x of C(n + 1, k).
    """
    n = worse + better
    beta = lgamma(worse + 1) + lgamma(better + 1) - lgamma(n + 2)
    terms = [lgamma(n + 2) - lgamma(k + 1) - lgamma(n + 2 - k) for k in range(worse + 1)]
    most = max(terms)
    return beta + most + log(fsum(exp(term - most) for term in terms))


def needed(outcomes: Outcomes, mean: float, alpha: float, *, most: float = 1e7) -> int | None:
    """Return how many more conversations a decision takes if they come in the proportions so far; None when nothing is known or it takes more than ``most``.

    A forecast and no promise: the evidence that so many of each would give, on whichever side decides first.
    """
    bound = log(1.0 / alpha)
    if not outcomes.total:
        return None

    def decided(factor: float) -> bool:
        scaled = outcomes.times(factor)
        return max(above(scaled, mean), below(scaled, mean)) >= bound

    low, high = 1.0, 2.0
    if decided(low):
        return 0
    while not decided(high):
        low, high = high, high * 2
        if high * outcomes.total > most:
            return None
    while (high - low) * outcomes.total > 1:
        middle = (low + high) / 2
        low, high = (low, middle) if decided(middle) else (middle, high)
    return max(1, round(high * outcomes.total - outcomes.total))
