"""Lower bounds of KL and total variation from a real engine's lists, against the divergence of the whole vocabulary."""

from __future__ import annotations

import functools
from collections.abc import Callable
from math import exp

import numpy as np
import pytest
from msgspec.structs import replace
from numpy.typing import NDArray

from proxy.compare import distance
from proxy.compare.near_tie import Tau
from proxy.compare.token_stream import Reply
from tests.figures import Figure
from tests.known_truth.real.arms import Rows, forced, planted, scores, truth

pytestmark = [pytest.mark.slow, pytest.mark.torch, pytest.mark.timeout(900)]
SLACK = 1e-6  # nat: what a bound may be above the truth by, see proxy/compare/distance.py
SIGMAS = (0.0, 0.01, 0.3)
TOPS = (1, 5, 20)


Scored = Callable[[str, str], list[Rows]]


class Divergence:
    """The true distances of two arms at every position of some replies."""

    def __init__(self, p: list[NDArray[np.float64]], q: list[NDArray[np.float64]]) -> None:
        self.kl, self.tv = [], []
        for left, right in zip(p, q, strict=True):
            self.kl.append((np.exp(left) * (left - right)).sum(axis=1))
            self.tv.append(0.5 * np.abs(np.exp(left) - np.exp(right)).sum(axis=1))


@pytest.fixture(scope="module")
def few(healthy: list[Reply]) -> list[Reply]:
    return healthy[:4]


@pytest.fixture(scope="module")
def scored(few: list[Reply]) -> Callable[[str, str], list[Rows]]:
    """The lists of the reference engine with some fault; each asked for once."""
    return functools.cache(lambda reference, spelling: scores(planted(reference, spelling), few))


def first(rows: list[Rows], top: int) -> list[Rows]:
    """Rows as an engine gives them that is asked for this many alternatives."""
    return [tuple((index, replace(token, top=token.top[:top])) for index, token in each) for each in rows]


@pytest.fixture(scope="module")
def true(reference_fp32: str, few: list[Reply]) -> dict[float, Divergence]:
    """By size of the noise on the second arm."""
    own = [truth(reference_fp32, one) for one in few]
    return {
        sigma: Divergence(own, [truth(planted(reference_fp32, f"logit-noise={sigma}"), one) for one in few])
        for sigma in SIGMAS
    }


def excess(few: list[Reply], p: list[Rows], q: list[Rows], real: Divergence, tau: Tau) -> tuple[float, float, float]:
    """How far the bounds are above the truth at most (KL, TV), and the share of the true KL that they show."""
    told = [choice for one in forced(_with(few, p), q, tau) for choice in one.choices]
    kl = [np.array(choice.kl_lower_bounds) for choice in told]
    tv = [np.array(choice.tv_lower_bounds) for choice in told]
    over_kl = max(float((bound - value).max()) for bound, value in zip(kl, real.kl, strict=True))
    over_tv = max(float((bound - value).max()) for bound, value in zip(tv, real.tv, strict=True))
    true = sum(map(np.sum, real.kl))
    return over_kl, over_tv, sum(map(np.sum, kl)) / true if true > SLACK else 1.0


def _with(given: list[Reply], rows: list[Rows]) -> list[Reply]:
    """The replies with the lists that scoring gave."""
    return [
        replace(reply, choices=(replace(reply.choices[0], tokens=tuple(token for _, token in row)),))
        for reply, row in zip(given, rows, strict=True)
    ]


@pytest.mark.parametrize("values", ["exact", "float32"])
@pytest.mark.parametrize("sigma", SIGMAS)
def test_bounds_are_never_above_the_truth(
    reference_fp32: str, few: list[Reply], scored: Scored, true: dict[float, Divergence], assumed: Tau,
    figure: Figure, sigma: float, values: str,
) -> None:  # fmt: skip
    p = scored(reference_fp32, f"values={values}")
    q = scored(reference_fp32, f"logit-noise={sigma},values={values}")
    for top in TOPS:
        kl, tv, share = excess(few, first(p, top), first(q, top), true[sigma], assumed)
        figure("KL bounds on real lists", f"{values} values, noise {sigma}, top {top}: at most {max(kl, 0):.1e} nat (TV {max(tv, 0):.1e}) above the truth, {share:.0%} of it shown")  # fmt: skip
        assert kl <= SLACK
        assert tv <= (SLACK if values == "exact" else distance.NORMALISER_ERROR)
        assert share > (0.1 if top == 1 else 0.3)


def test_lists_that_sum_to_more_than_1_are_among_them(reference_fp32: str, few: list[Reply]) -> None:
    rows = scores(planted(reference_fp32, "values=float32"), few[:2], top=1000)
    sums = [sum(exp(entry.logprob) for entry in token.top) for row in rows for _, token in row]
    assert max(sums) > 1 + 1e-6
    exact = scores(reference_fp32, few[:1], top=1000)
    assert max(sum(exp(entry.logprob) for entry in token.top) for row in exact for _, token in row) < 1 + 1e-9


@pytest.mark.vllm
@pytest.mark.parametrize("sigma", SIGMAS)
def test_so_they_are_on_vllms_own_lists(
    reference_fp32: str, vllm_fp32: str, few: list[Reply], scored: Scored, true: dict[float, Divergence], assumed: Tau,
    figure: Figure, sigma: float,
) -> None:  # fmt: skip
    p = scores(vllm_fp32, few, engine="vllm")
    q = scored(reference_fp32, f"logit-noise={sigma},values=exact")
    for top in TOPS:
        kl, tv, share = excess(few, first(p, top), first(q, top), true[sigma], assumed)
        figure("KL bounds on real lists", f"vLLM fp32's values, noise {sigma}, top {top}: at most {max(kl, 0):.1e} nat (TV {max(tv, 0):.1e}) above the truth, {share:.0%} of it shown")  # fmt: skip
        assert kl <= SLACK
        assert tv <= distance.NORMALISER_ERROR
        assert share > (0.1 if top == 1 else 0.3)
