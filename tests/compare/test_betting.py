"""Evidence from counters: bounded under the null whenever one looks, growing under the alternative, the same however it is split."""

from __future__ import annotations

from math import exp, fsum, lgamma, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.compare.betting import Outcomes, above, below, bets, interval, needed, worse_than_control

COUNT = st.integers(0, 500)
OUTCOMES = st.builds(Outcomes, COUNT, COUNT, COUNT)
MEAN = st.floats(0.05, 0.95)
SHARE = (
    10.5 * 0.5 + 0.7 + 0.85 + 0.95 + 0.98 + 0.99 + 0.25 + 0.5 + 0.99 + 0.99
) / 29  # of ruin, the mean bet against 1/2


def paths(seed: int, shares: tuple[float, float, float], length: int, many: int) -> np.ndarray:
    """Running counts of worse, alike, better: [path, step, 3]."""
    drawn = np.random.default_rng(seed).choice(3, size=(many, length), p=shares)
    return np.cumsum(drawn[:, :, None] == np.arange(3), axis=1)


def looked_at(counts: np.ndarray, side, mean: float, every: int) -> np.ndarray:
    """Log evidence of each path at every so many conversations."""
    return np.array([[side(Outcomes(*map(int, at)), mean) for at in path[every - 1 :: every]] for path in counts])


def test_nothing_seen_is_no_evidence() -> None:
    assert above(Outcomes(), 0.5) == below(Outcomes(), 0.5) == 0.0
    assert interval(Outcomes(), 0.05) == (0.0, 1.0)
    assert needed(Outcomes(), 0.5, 0.01) is None


def test_one_bet_by_hand() -> None:
    # Against a mean of at most 1/2 a bet of a share s of ruin (2) multiplies by 1 + s for an outcome of 1, by 1 - s for one of 0.
    assert above(Outcomes(worse=1), 0.5) == pytest.approx(log(1 + SHARE))
    assert above(Outcomes(better=1), 0.5) == pytest.approx(log(1 - SHARE))
    assert above(Outcomes(alike=7), 0.5) == 0.0


@given(OUTCOMES, MEAN)
def test_what_speaks_for_one_side_speaks_against_the_other(outcomes: Outcomes, mean: float) -> None:
    turned = Outcomes(outcomes.better, outcomes.alike, outcomes.worse)
    assert above(outcomes, mean) == pytest.approx(below(turned, 1 - mean), abs=1e-9)


@given(OUTCOMES, MEAN)
def test_of_one_more_the_expected_wealth_is_no_more_while_the_mean_is_as_supposed(
    outcomes: Outcomes, mean: float
) -> None:
    worse, better = mean, 1 - mean  # of an outcome that is 1 or 0 with this mean
    before = above(outcomes, mean)
    grown = [exp(above(outcomes + one, mean) - before) for one in (Outcomes(worse=1), Outcomes(better=1))]
    assert worse * grown[0] + better * grown[1] == pytest.approx(1, rel=1e-9)


@pytest.mark.parametrize("seed", [1])
def test_false_alarms_stay_below_alpha_though_one_looks_all_the_time(seed: int) -> None:
    alpha, many = 0.05, 200
    counts = paths(seed, (0.105, 0.8, 0.095), 1000, many)  # a mean of 0.505, the bound itself
    for side in (above, below):
        ever = (looked_at(counts, side, 0.505, 20).max(axis=1) >= log(1 / alpha)).sum()
        assert ever <= alpha * many + 3 * (alpha * (1 - alpha) * many) ** 0.5  # three standard deviations of chance


def test_conversations_to_a_pass_when_nothing_differs() -> None:
    # Base rates of 2 % and 20 %, margins of 1 and 5 points, alpha 1 %.
    for base, margin, least, most in ((0.02, 0.01, 3300, 4400), (0.2, 0.05, 1000, 1500)):
        apart = base * (1 - base)
        counts = paths(7, (apart, 1 - 2 * apart, apart), 9000 if base < 0.1 else 4000, 60)
        found = looked_at(counts, below, (1 + margin) / 2, 50) >= log(100)
        assert found.any(axis=1).mean() > 0.9
        took = np.where(found.any(axis=1), found.argmax(axis=1) + 1, np.inf) * 50
        assert least <= float(np.median(took)) <= most


@given(OUTCOMES.filter(lambda one: one.total > 0))
def test_the_interval_holds_the_mean_and_shrinks_with_more_of_the_same(outcomes: Outcomes) -> None:
    low, high = interval(outcomes, 0.05)
    assert 0 <= low <= outcomes.mean <= high <= 1
    narrow = interval(outcomes.times(16), 0.05)
    assert narrow[1] - narrow[0] <= high - low + 1e-6


@pytest.mark.parametrize("seed", [1])
def test_the_interval_covers_at_all_times(seed: int) -> None:
    counts = paths(seed, (0.1, 0.5, 0.4), 400, 100)
    missed = 0
    for path in counts:
        edges = [interval(Outcomes(*map(int, at)), 0.1) for at in path[19::40]]
        missed += not all(low <= 0.35 <= high for low, high in edges)
    assert missed <= 0.1 * 100 + 9


@given(st.integers(0, 60), st.integers(0, 60))
def test_worse_than_control_is_the_integral(worse: int, better: int) -> None:
    n, steps = worse + better, 20_000
    theta = 0.5 + (np.arange(steps) + 0.5) / steps / 2
    logs = n * log(2) + log(2) + worse * np.log(theta) + better * np.log1p(-theta)
    assert worse_than_control(worse, better) == pytest.approx(np.logaddexp.reduce(logs) - log(2 * steps), abs=1e-4)


@pytest.mark.parametrize(("worse", "better"), [(40_000, 39_000), (39_000, 40_000), (20_000, 3), (3, 20_000)])
def test_terms_too_small_to_see_are_left_out_of_the_integral(worse: int, better: int) -> None:
    n = worse + better
    terms = [lgamma(n + 2) - lgamma(k + 1) - lgamma(n + 2 - k) for k in range(worse + 1)]
    beta = lgamma(worse + 1) + lgamma(better + 1) - lgamma(n + 2)
    most = max(terms)
    whole = beta + most + log(fsum(exp(term - most) for term in terms))
    assert worse_than_control(worse, better) == pytest.approx(whole, rel=1e-12, abs=1e-9)


def test_a_forecast_is_what_it_takes_if_it_goes_on() -> None:
    outcomes, bound = Outcomes(worse=2, alike=96, better=2), log(100)
    more = needed(outcomes, 0.505, 0.01)
    assert more is not None
    reached = outcomes.times((outcomes.total + more) / outcomes.total)
    assert below(reached, 0.505) == pytest.approx(bound, abs=0.02)
    assert needed(Outcomes(worse=100), 0.505, 0.01) == 0
    assert needed(Outcomes(alike=100, worse=1), 0.505, 0.01, most=1000) is None  # a mean on the bound decides nothing


@given(st.floats(1e-6, 1 - 1e-6))
def test_no_bet_is_ruin_and_both_sides_bet_alike(mean: float) -> None:
    assert all(0 < share <= 0.99 for share in bets(mean, over=True))
    assert bets(mean, over=True) == pytest.approx(bets(1 - mean, over=False), rel=1e-6)


@given(OUTCOMES, st.floats(0.001, 0.998), st.floats(0.0001, 0.9))
def test_a_larger_mean_has_less_against_it_from_above(outcomes: Outcomes, mean: float, more: float) -> None:
    """What the halvings of an interval's end rest on."""
    larger = mean + (0.999 - mean) * more
    assert above(outcomes, larger) <= above(outcomes, mean) + 1e-9
    assert below(outcomes, larger) >= below(outcomes, mean) - 1e-9


def test_a_rare_thing_that_is_twice_as_frequent_is_proved() -> None:
    """Bets of a share of ruin that is large beside the mean lose everything before they are right."""
    assert above(Outcomes(worse=60, better=2940), 0.01) > log(100)
    assert above(Outcomes(worse=45, better=19_955), 0.001) > log(100)
