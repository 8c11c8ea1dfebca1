"""The share of wrong names among those named stays within alpha, however the e-values depend on each other."""

import random
from math import exp, inf, log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.compare.e_bh import named, needed

ALPHA = 0.1
evidence = st.floats(-20, 20) | st.sampled_from([-inf, inf, 0.0])


@given(st.lists(evidence, max_size=12), st.sampled_from([0.01, 0.1, 0.5]))
def test_it_names_the_largest_set_whose_smallest_is_large_enough(log_e, alpha):
    """Against the definition, tried for every number of names."""
    found = named(log_e, alpha)
    ordered = sorted(log_e, reverse=True)
    number = max((k for k in range(1, len(log_e) + 1) if ordered[k - 1] >= log(len(log_e) / alpha) - log(k)), default=0)
    assert sum(found) == number
    inside = [one for one, is_named in zip(log_e, found, strict=True) if is_named]
    outside = [one for one, is_named in zip(log_e, found, strict=True) if not is_named]
    assert not inside or not outside or min(inside) >= max(outside)


@given(st.lists(evidence, min_size=1, max_size=8), st.integers(0, 7), st.floats(0, 10))
def test_more_evidence_never_takes_a_name_away(log_e, at, more):
    at %= len(log_e)
    stronger = [one + more if number == at else one for number, one in enumerate(log_e)]
    before, after = named(log_e, ALPHA), named(stronger, ALPHA)
    assert not before[at] or after[at]
    assert sum(after) >= sum(before)


def test_one_alone_needs_that_much():
    assert named([needed(5, 0.01), 0, 0, 0, 0], 0.01) == [True, False, False, False, False]
    assert named([needed(5, 0.01) - 1e-9, 0, 0, 0, 0], 0.01) == [False] * 5
    assert named([needed(5, 0.01) - log(5)] * 5, 0.01) == [True] * 5
    assert named([], 0.01) == []


def nulls(chance: random.Random, kind: str, number: int) -> list[float]:
    """Log e-values of true null hypotheses: each has a mean of 1 before its logarithm."""
    match kind:
        case "independent bets":
            return [2 * chance.gauss(0, 1) - 2 for _ in range(number)]
        case "all or nothing":
            return [log(1 / ALPHA) if chance.random() < ALPHA else -inf for _ in range(number)]
        case "one luck for all":
            luck = chance.gauss(0, 1)
            return [2 * luck - 2] * number
        case "all at once":  # the worst there is: the bound is reached
            return [log(1 / ALPHA) if chance.random() < ALPHA else -inf] * number
        case _:  # opposite luck
            luck = chance.gauss(0, 1)
            return [(2 if at % 2 else -2) * luck - 2 for at in range(number)]


KINDS = ["independent bets", "all or nothing", "one luck for all", "all at once", "opposite luck"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("true_ones", [0, 5])
def test_wrong_names_are_a_share_of_at_most_alpha(seeds, kind, true_ones):
    runs = 1500
    for seed in seeds:
        chance = random.Random(f"{seed} {kind} {true_ones}")
        shares = []
        for _ in range(runs):
            log_e = nulls(chance, kind, 20) + [chance.uniform(3, 12) for _ in range(true_ones)]
            found = named(log_e, ALPHA)
            shares.append(sum(found[:20]) / max(1, sum(found)))
        # A mean of numbers in [0, 1]: above alpha by more than this less than once in 100,000 times (Bernstein).
        assert sum(shares) / runs <= ALPHA + (2 * ALPHA * 11.6 / runs) ** 0.5 + 2 * 11.6 / (3 * runs)
        if kind == "all at once" and not true_ones:
            assert sum(shares) / runs > ALPHA / 2  # the bound is reached, so it is no slack that the test passes


def test_naming_whatever_has_evidence_would_not_do(seeds):
    """Why it takes more than ln(1 / alpha) each: of twenty without a fault some are always named."""
    chance = random.Random(seeds[0])
    wrong = sum(max(nulls(chance, "all or nothing", 20)) >= log(1 / ALPHA) for _ in range(500))
    assert wrong > 400
    assert exp(needed(20, ALPHA)) == pytest.approx(200)
