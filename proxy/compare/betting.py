"""Evidence about a mean, valid however often somebody looks: wealth of bets against a null hypothesis, from three counters.

Each conversation gives one outcome Y of the pair (candidate, control): 1 when only the candidate was bad, 0 when only the control was, 1/2 when they were
alike. Betting a share lambda of one's wealth against "the mean of Y is at most m" multiplies it by 1 + lambda (Y - m), whose expectation is at most 1 while that
is true; so by Ville's inequality the wealth ever reaches 1/alpha with probability alpha at most (Waudby-Smith and Ramdas, "Estimating means of bounded random
variables by betting", arXiv 2010.09686). The wealth here is the mean over a fixed grid of lambda, hence a function of how often each value of Y came.

House rules. Pure. Nothing depends on the order in which outcomes came, so replicas, workers and restarts add up exactly. All evidence is the natural
logarithm of a wealth: 0 at the beginning, ln(1/alpha) where a test at level alpha rejects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import exp, fsum, isqrt, lgamma, log, log1p

from msgspec import Struct

#: Bets of the grid, as shares of what would be ruin: evenly up to half of it, where the best bet lies once arms differ now and then, and some close to all of it, which
#: halve the way to a verdict where they hardly ever do.
_GRID = (*(step / 40 for step in range(1, 21)), 0.7, 0.85, 0.95, 0.98, 0.99)
#: ... and what is best if something rare is so many times more frequent than supposed: there a share of ruin of the size of the mean. Without these a rate of
#: 2 % against one of 1 % took twenty times as long on unlucky days, or was never proved. Tried against other spacings (even, geometric, of the log odds) over base rates
#: of 0 to 35 % and margins of a tenth of a point to five: within a tenth of the best almost everywhere.
_TIMES_MORE = (0.25, 0.5, 1.0, 2.0)
_ALL_BUT_RUIN = 0.99
#: Halvings that find the end of an interval to 1e-7 of its range.
_HALVINGS = 24
_MOST = 1.0 - 1e-12  # against a mean of 1 there is no bet

#: (value in 0..1, how often it came).
Counted = Sequence[tuple[float, float]]


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

    @property
    def counted(self) -> Counted:
        """Each value of Y and how often it came."""
        return ((1.0, self.worse), (0.5, self.alike), (0.0, self.better))

    def times(self, factor: float) -> Outcomes:
        """As many times of each."""
        return Outcomes(self.worse * factor, self.alike * factor, self.better * factor)


def above(outcomes: Outcomes, mean: float) -> float:
    """Return the log evidence that the mean of Y is above ``mean`` (in 0..1, both excluded)."""
    return log_wealth(outcomes.counted, mean, over=True)


def below(outcomes: Outcomes, mean: float) -> float:
    """Return the log evidence that the mean of Y is below ``mean`` (in 0..1, both excluded)."""
    return log_wealth(outcomes.counted, mean, over=False)


def log_wealth(counted: Counted, mean: float, *, over: bool) -> float:
    """Return the log of the mean wealth of all bets that values in 0..1 have a mean ``over`` (or under) ``mean``, which is neither 0 nor 1.

    The ruin of a bet is the share of it at which the worst value, 0 or 1, takes all.
    """
    ruin = 1.0 / mean if over else -1.0 / (1.0 - mean)
    gains = [(count, (value - mean) * ruin) for value, count in counted if count]
    return _log_mean([fsum(count * log1p(share * gain) for count, gain in gains) for share in bets(mean, over=over)])


def bets(mean: float, *, over: bool) -> tuple[float, ...]:
    """Return the grid against a mean, as shares of ruin; it depends on nothing else, so evidence is one of fixed bets."""
    odds = mean / (1.0 - mean) if over else (1.0 - mean) / mean
    return (*_GRID, *(min(_ALL_BUT_RUIN, times * odds) for times in _TIMES_MORE))


def _log_mean(logs: list[float]) -> float:
    most = max(logs)
    return most + log(fsum(exp(one - most) for one in logs) / len(logs))


def interval(outcomes: Outcomes, alpha: float) -> tuple[float, float]:
    """Return a confidence sequence's interval for the mean of Y: it holds at all times at once with probability 1 - ``alpha``.

    (0, 1) without outcomes.
    """
    return interval_of(outcomes.counted, outcomes.counted, alpha) if outcomes.total else (0.0, 1.0)


def interval_of(lowered: Counted, raised: Counted, alpha: float) -> tuple[float, float]:
    """Return the interval for a mean of which there are values rounded down and rounded up; the same twice where they are exact.

    Those means against which neither side has evidence of ln(2 / ``alpha``). Values are in 0..1, at least one.
    """
    bound = log(2.0 / alpha)
    low, high = _mean(lowered), _mean(raised)
    lowest, highest = 0.0, 1.0
    if low > 0:
        lowest, _ = _edge(lambda mean: log_wealth(lowered, mean, over=True) >= bound, 0.0, low)
    if high < _MOST:
        _, highest = _edge(lambda mean: log_wealth(raised, mean, over=False) < bound, high, _MOST)
    return (lowest, highest)


def _mean(counted: Counted) -> float:
    return fsum(value * count for value, count in counted) / fsum(count for _, count in counted)


def _edge(inside: Callable[[float], bool], low: float, high: float) -> tuple[float, float]:
    """Return the last point known at which a test that holds from ``low`` on does, and the first known at which it does not."""
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if inside(middle):
            low = middle
        else:
            high = middle
    return low, high


def worse_than_control(worse: int, better: int) -> float:
    """Return the log e-value that, of conversations in which the arms differ, the candidate is the bad one in more than half.

    e = 2^n times the integral over theta from 1/2 to 1 of 2 theta^x (1 - theta)^(n - x), with x = ``worse`` of n: a mixture of likelihood ratios against
    1/2. The integral is a Beta function times a Beta tail, which for whole numbers is a binomial one: e = B(x + 1, n - x + 1) times the sum over k from 0 to x of C(n + 1, k).
    Twenty standard deviations below its largest term there is nothing that a double would show.
    """
    n = worse + better
    beta = lgamma(worse + 1) + lgamma(better + 1) - lgamma(n + 2)
    largest, reach = min(worse, (n + 1) // 2), 10 * isqrt(n + 1) + 40
    counted = range(max(0, largest - reach), min(worse, largest + reach) + 1)
    terms = [lgamma(n + 2) - lgamma(k + 1) - lgamma(n + 2 - k) for k in counted]
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
