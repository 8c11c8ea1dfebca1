"""The lower bounds of KL and total variation against the truth of whole vocabularies, as float32 lists of real engines show them.

Lists are float32 throughout: softmax in float32 makes sums above 1, and each arm lists tokens of its own.
"""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.compare.distance import lower_bounds, shared
from proxy.compare.row import read_row
from tests.known_truth.arms import row

#: What a bound may exceed the truth by.
ALLOWED = 1e-6


def float32(logits: np.ndarray) -> np.ndarray:
    """Log-softmax computed as an engine does: in float32 from one end to the other."""
    logits = logits.astype(np.float32)
    shifted = logits - logits.max()
    return (shifted - np.log(np.exp(shifted).sum(dtype=np.float32))).astype(np.float32)


def exact(logits: np.ndarray) -> np.ndarray:
    """The same in double precision: the truth."""
    logits = logits.astype(np.float32).astype(np.float64)
    shifted = logits - logits.max()
    return shifted - math.log(np.exp(shifted).sum())


def listed(values: np.ndarray, top: int, chosen: int):
    """The row that an engine shows."""
    order = np.argsort(-values, kind="stable")[:top].tolist()
    return read_row(row({one: float(values[one]) for one in (*order, chosen)}, order, chosen, top))


def distances(p: np.ndarray, q: np.ndarray) -> tuple[float, float]:
    """KL(p || q) and the total variation."""
    weights = np.exp(p)
    return float((weights * (p - q)).sum()), 0.5 * float(np.abs(weights - np.exp(q)).sum())


@st.composite
def arms(draw):
    """Logits of two arms over one vocabulary, and how much each lists."""
    size = draw(st.sampled_from([2, 3, 20, 200, 2000, 32_000]))
    make = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sharp = draw(st.sampled_from([0.05, 1.0, 3.0, 12.0, 60.0]))
    left = sharp * make.standard_normal(size)
    match draw(st.sampled_from(["same", "noise", "other", "swapped", "one", "sure"])):
        case "same":
            right = left.copy()
        case "noise":
            right = left + draw(st.sampled_from([1e-4, 0.05, 1.0])) * make.standard_normal(size)
        case "other":
            right = sharp * make.standard_normal(size)
        case "swapped":
            right = left[make.permutation(size)]
        case "one":
            right = left.copy()
            right[int(np.argmax(left))] -= draw(st.sampled_from([1e-3, 1.0, 30.0]))
        case "sure":  # the shadow leaves all but nothing to what the primary holds likely
            right = left.copy()
            right[int(np.argmax(left))] += draw(st.floats(8.0, 20.0))
    tops = draw(st.tuples(st.integers(1, 20), st.integers(1, 20)))
    chosen = draw(st.sampled_from([int(np.argmax(left)), draw(st.integers(0, size - 1))]))
    return left, right, tops, chosen


@settings(max_examples=150)
@given(arms())
def test_no_bound_exceeds_the_truth(given_arms):
    left, right, tops, chosen = given_arms
    tops = tuple(min(top, len(left)) for top in tops)
    p, q = (listed(float32(logits), top, chosen) for logits, top in zip((left, right), tops, strict=True))
    kl, tv = lower_bounds(shared(p, q))
    true_kl, true_tv = distances(exact(left), exact(right))
    assert 0.0 <= kl <= true_kl + ALLOWED
    assert 0.0 <= tv <= true_tv + ALLOWED


@pytest.mark.parametrize("size", [3, 100, 4_000])
def test_a_rest_that_float32_cannot_tell_does_not_lift_a_bound(size, seed, tell):
    """Where the shadow is all but sure, its rest is a difference of numbers near 1: a ten-millionth of it that is wrong weighs as much as the rest is small."""
    make = np.random.default_rng((seed, size))
    excess = plain = -math.inf
    for boost in np.linspace(8.0, 14.0, 300):
        left = make.standard_normal(size)
        right = left.copy()
        right[0] += boost + math.log(size)
        p, q = (listed(float32(logits), 1, 0) for logits in (left, right))
        [(mine, theirs)] = pairs = shared(p, q)
        true_kl, true_tv = distances(exact(left), exact(right))
        kl, tv = lower_bounds(pairs)
        assert 0.0 <= kl <= true_kl + ALLOWED
        assert 0.0 <= tv <= true_tv + ALLOWED
        excess = max(excess, kl - true_kl)
        rests = 1.0 - math.exp(mine), 1.0 - math.exp(theirs)
        if min(rests) > 1e-4:  # nearer to nothing, what a normaliser may be off by weighs as much as the rest
            assert kl > 0.8 * true_kl - 0.1
            plain = max(plain, math.exp(mine) * (mine - theirs) + rests[0] * math.log(rests[0] / rests[1]) - true_kl)
    tell(
        "KL lower bound where the candidate is all but sure", f"{size:,} tokens, 300 positions, top 1",
        f"nearest {excess:.1g} to the truth from below; without the allowance for float32 above it by {plain:.1g}", "values",
    )  # fmt: skip


def renormalised(pairs: list[tuple[float, float]]) -> float:
    """What it would be to let the listed tokens stand for all: never done, shown here for what it does."""
    mine, theirs = (math.log(math.fsum(math.exp(pair[side]) for pair in pairs)) for side in (0, 1))
    return math.fsum(math.exp(p - mine) * ((p - mine) - (q - theirs)) for p, q in pairs)


@pytest.mark.parametrize("size", [100, 2_000, 32_000])
@pytest.mark.parametrize("top", [1, 5, 20])
def test_bounds_hold_at_every_size_and_renormalising_does_not(size, top, seed, tell):
    make = np.random.default_rng((seed, size, top))
    positions = 200 if size < 32_000 else 60
    nearest = -math.inf
    over = above = 0
    means = [0.0, 0.0]
    for _ in range(positions):
        left = 2.5 * make.standard_normal(size)
        right = left + 0.4 * make.standard_normal(size)
        values = float32(left), float32(right)
        chosen = int(make.choice(size, p=np.exp(exact(left)) / np.exp(exact(left)).sum()))
        p, q = (listed(own, top, chosen) for own in values)
        pairs = shared(p, q)
        kl, tv = lower_bounds(pairs)
        true_kl, true_tv = distances(exact(left), exact(right))
        assert 0.0 <= kl <= true_kl + ALLOWED
        assert 0.0 <= tv <= true_tv + ALLOWED
        nearest = max(nearest, kl - true_kl)
        over += renormalised(pairs) > true_kl + ALLOWED
        above += np.exp(values[0].astype(np.float64)).sum() > 1.0
        means[0] += kl / positions
        means[1] += true_kl / positions
    assert above > 0  # real lists do sum to more than 1
    if top > 1:
        assert over > 0
    tell(
        "KL lower bound against the whole vocabulary",
        f"{size:,} tokens, top {top}, {positions} positions",
        f"bound {means[0]:.4f} of {means[1]:.4f}, never above the truth (nearest {nearest:.2g}); renormalised: above it at {over / positions:.0%}",
        "values",
    )


def test_a_list_that_holds_everything_is_the_truth_itself(seed):
    """Two arms whose lists leave nothing out: the bound is what it bounds."""
    draw = random.Random(seed)
    for size in (2, 5, 20):
        left, right = (np.array([draw.gauss(0.0, 2.0) for _ in range(size)]) for _ in range(2))
        p, q = (listed(float32(logits), size, 0) for logits in (left, right))
        kl, tv = lower_bounds(shared(p, q))
        true_kl, true_tv = distances(exact(left), exact(right))
        assert kl == pytest.approx(true_kl, abs=0.05 * true_kl + 1e-5)
        assert tv == pytest.approx(true_tv, abs=0.05 * true_tv + 1e-5)
        assert kl <= true_kl + ALLOWED
