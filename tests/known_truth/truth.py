"""What must be reported, worked out from all that is known of the arms: their whole vocabularies at the places that were compared.

Nothing of the product is used here. Bounds of chance are ``LUCK`` standard deviations, which a normal number exceeds but once in 150,000 times, or as seldom.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import NormalDist
from typing import Any

from proxy.compare.token_stream import TokenStream
from tests.known_truth.arms import Arm, Ids, ranked

LUCK = 4.5
_HALF = math.sqrt(0.5)


def places(replies: Sequence[TokenStream]) -> Iterator[tuple[int, Ids, int]]:
    """(position, prefix with the prompt, token) of every token that was said."""
    for reply in replies:
        prefix = reply.prompt_ids or ()
        for index, token in enumerate(reply.tokens):
            assert token.id is not None
            yield index, prefix, token.id
            prefix = (*prefix, token.id)


def gap(values: Sequence[float]) -> float:
    """First minus second."""
    first, second = ranked(values)[:2]
    return values[first] - values[second]


def kl(p: Sequence[float], q: Sequence[float]) -> float:
    """KL(p || q) in nats over a whole vocabulary of logprobs."""
    return math.fsum(math.exp(a) * (a - b) for a, b in zip(p, q, strict=True))


def tv(p: Sequence[float], q: Sequence[float]) -> float:
    """Total variation over a whole vocabulary of logprobs."""
    return 0.5 * math.fsum(abs(math.exp(a) - math.exp(b)) for a, b in zip(p, q, strict=True))


def two_way(between: float, size: float) -> float:
    """The probability that normal noise of ``size`` on each of two logits turns a gap over."""
    return 0.5 * math.erfc(between / (2.0 * size))


_SLICES = 40
#: A normal number as slices of equal probability, each at its middle: what is integrated here comes out to a few in a thousand.
_QUADRATURE = tuple(NormalDist().inv_cdf((number + 0.5) / _SLICES) for number in range(_SLICES))


def turned(logits: Sequence[float], size: float) -> float:
    """The probability that normal noise of ``size`` on every logit makes another token the most likely: all rivals counted.

    1 - E[prod over rivals of Phi(gap / size + u)], u the first token's own noise.
    """
    top = max(logits)
    near = sorted((top - one) / size for one in logits if top - one < 7.0 * size)[1:]
    if not near:
        return 0.0
    cdf = (math.prod(0.5 * math.erfc(-_HALF * (one + own)) for one in near) for own in _QUADRATURE)
    return 1.0 - math.fsum(cdf) / _SLICES


def far_rivals(logits: Sequence[float], size: float, beyond: float) -> float:
    """At most how often normal noise of ``size`` puts a rival more than ``beyond`` behind the first above it: the sum over rivals, each against the first alone."""
    top = max(logits)
    return math.fsum(two_way(top - one, size) for one in logits if beyond < top - one < 7.0 * size)


def errors(primary: Arm, shadow: Arm, replies: Sequence[TokenStream]) -> list[float]:
    """d of every token that was said."""
    return [shadow.logprobs(prefix)[token] - primary.logprobs(prefix)[token] for _, prefix, token in places(replies)]


def surely(count: float, expected: float, variance: float | None = None) -> bool:
    """Whether a count is one that chance gives: within ``LUCK`` standard deviations and one more for being whole, or by ``no_more`` and ``no_less`` where no variance is known."""
    if variance is None:
        return no_more(count, expected) and no_less(count, expected)
    return abs(count - expected) <= LUCK * math.sqrt(variance) + 1.0


def no_more(count: float, expected: float) -> bool:
    """Whether a Poisson number is as large as often as a normal one exceeds ``LUCK``: few of what is seldom are far more often many than a normal number would be.

    A sum of independent events, each with its own probability, has lighter tails (Hoeffding 1956, Annals of Mathematical Statistics 27, 713-721).
    """
    return 1.0 - _poisson(round(count) - 1, expected) >= _BEYOND


def no_less(count: float, expected: float) -> bool:
    """Whether a Poisson number is as small as often as a normal one is below ``-LUCK``."""
    return _poisson(round(count), expected) >= _BEYOND


_BEYOND = 0.5 * math.erfc(LUCK * _HALF)


def _poisson(upto: int, expected: float) -> float:
    """The probability of at most so many."""
    if not expected:
        return float(upto >= 0)
    terms = range(upto + 1)
    return min(1.0, math.fsum(math.exp(k * math.log(expected) - expected - math.lgamma(k + 1)) for k in terms))


def may_be(shown: Mapping[str, Any], value: float) -> bool:
    """Whether an excess with its 95 % interval is one that chance gives where ``value`` is true: five standard deviations, for the interval's own width is estimated.

    Where neither arm showed any there is none, and that is said.
    """
    if "interval" not in shown:
        return "interval" in shown["no_interval"] and shown["raw"] == shown["floor"] == 0.0 and value == 0.0
    low, high = shown["interval"]
    return abs(shown["excess"] - value) <= 5.0 / 1.96 * max(high - shown["excess"], shown["excess"] - low)
