"""Gaussian noise of known size on a real model's logits: its size is recovered, flips come as often as that size makes them, where it begins is seen."""

from __future__ import annotations

import functools
from collections.abc import Callable
from math import erfc, sqrt
from statistics import mean, pstdev

import pytest

from proxy.compare.comparison import Comparison, FlipClass, TauOrigin
from proxy.compare.near_tie import Noise, Tau, learn, threshold
from proxy.compare.token_stream import Reply
from proxy.compare.verdict import State, Tally, Terms, judge
from tests.figures import Figure
from tests.known_truth.real.arms import Rows, forced, planted, scores, tally

pytestmark = [pytest.mark.slow, pytest.mark.torch, pytest.mark.timeout(900)]
#: Nothing here may fail but once in a hundred thousand seeds: about 4.5 standard errors, and a little for the normal approximation.
ERRORS = 5.0


@pytest.fixture(scope="module")
def scored(reference_fp32: str, healthy: list[Reply]) -> Callable[[str], list[Rows]]:
    """The healthy replies as an engine with this fault scores them; each asked for once."""
    return functools.cache(lambda spelling: scores(planted(reference_fp32, spelling), healthy))


Scored = Callable[[str], list[Rows]]


def chances(comparisons: list[Comparison], scale: float, above: float = 0.0) -> float:
    """How many flips noise of this scale makes at gaps above a threshold."""
    gaps = [gap for one in comparisons for gap in one.choices[0].gaps if gap is not None and gap > above]
    return sum(0.5 * erfc(gap / (scale * sqrt(2))) for gap in gaps)


@pytest.mark.parametrize("sigma", [0.02, 0.2])
def test_its_size_is_recovered_and_flips_are_as_many_as_it_makes(
    scored: Scored, healthy: list[Reply], assumed: Tau, seeds: tuple[int, ...], figure: Figure, sigma: float
) -> None:
    for seed in seeds if sigma > 0.1 else seeds[:1]:
        seen = forced(healthy, scored(f"logit-noise={sigma},noise-seed={seed}"), assumed)
        shifts = [shift for one in seen for shift in one.choices[0].gap_shifts if shift is not None]
        assert len(shifts) > 200
        recovered = pstdev(shifts) / sqrt(2)  # a shift is the difference of two logits' noise
        assert recovered == pytest.approx(sigma, rel=ERRORS / sqrt(2 * len(shifts)))
        flips = sum(len(one.choices[0].flips) for one in seen)
        expected = chances(seen, sigma * sqrt(2))
        # A flip's chance counts the first two tokens only; a third one comes first now and then.
        assert abs(flips - expected) <= ERRORS * sqrt(expected) + 1 + 0.2 * expected
        figure("noise on real logits", f"sigma {sigma}, seed {seed}: recovered {recovered:.4f} from {len(shifts)} positions; {flips} flips, {expected:.1f} expected")  # fmt: skip


def test_two_arms_of_the_same_noise_show_no_genuine_excess(
    scored: Scored, healthy: list[Reply], assumed: Tau, seeds: tuple[int, ...]
) -> None:
    noise = Noise()
    for one in forced(healthy, scored(f"logit-noise=0.2,noise-seed={seeds[0]}"), assumed):
        learn(noise, one, control=True)
    tau = threshold(noise)
    assert tau.origin is TauOrigin.LEARNED
    assert tau.scale == pytest.approx(0.2 * sqrt(2), rel=0.3)
    arms = [forced(healthy, scored(f"logit-noise=0.2,noise-seed={seeds[0] + extra}"), tau) for extra in (10**6, 10**7)]
    for one in arms:
        genuine = sum(flip.kind is FlipClass.GENUINE for each in one for flip in each.choices[0].flips)
        left = chances(one, 0.2 * sqrt(2), above=tau.value)
        assert genuine <= left + ERRORS * sqrt(left) + 1
    assert judge(tally(*arms), Terms()).state is not State.FAIL


def test_a_gross_fault_fails_within_the_conversations_that_it_takes(
    scored: Scored, healthy: list[Reply], assumed: Tau
) -> None:
    control, candidate = (forced(healthy, scored(fault), assumed) for fault in ("ties=lowest", "logit-noise=3"))
    found = tally(candidate, control)
    assert (found.worse, found.better, found.both) == (len(healthy), 0, 0)
    verdict = judge(found, Terms())
    # Every conversation is bad for the candidate alone: what these foretell is what a FAIL takes.
    alone = next(n for n in range(100) if judge(Tally(worse=n), Terms()).state is State.FAIL)
    assert verdict.needed is not None
    assert abs(verdict.needed + len(healthy) - alone) <= 1
    assert alone <= 20


@pytest.mark.parametrize("first", [16])
def test_where_it_begins_is_where_it_is_found(scored: Scored, healthy: list[Reply], assumed: Tau, first: int) -> None:
    seen = forced(healthy, scored(f"logit-noise=3,noise-seed=5,from-position={first}"), assumed)
    reaching = [one.choices[0] for one in seen if one.choices[0].compared > first]
    assert len(reaching) > 6
    errors: dict[bool, list[float]] = {False: [], True: []}
    for choice in reaching:
        for index, (mine, other) in enumerate(zip(choice.primary_logprobs, choice.shadow_logprobs, strict=True)):
            assert mine is not None
            assert other is not None
            errors[index >= first].append(abs(other - mine))
    assert max(errors[False]) < 1e-4
    assert mean(errors[True]) > 0.3
    assert min(flip.index for choice in reaching for flip in choice.flips) == first
