"""Small simulations with real assertions, the figures that the page publishes held against them, and the vectorised bets against the product's own."""

from __future__ import annotations

import numpy as np
import pytest

from proxy.compare import betting
from proxy.compare.betting import Outcomes
from proxy.compare.e_detector import Detector
from tests.figures import Figure
from tests.known_truth.simulations import drift, multiplicity
from tests.known_truth.simulations.__main__ import PAGE, published
from tests.known_truth.simulations.false_alarms import ALPHAS, Wrong, false_alarms
from tests.known_truth.simulations.paths import Truth, days, evidence
from tests.known_truth.simulations.power import CASES, power
from tests.known_truth.simulations.renormalised import positions

_ONCE = 4.3  # standard deviations: by chance once in a hundred thousand


def at_most(alpha: float, many: int) -> float:
    return alpha * many + _ONCE * (alpha * (1 - alpha) * many) ** 0.5 + 1


def test_what_is_simulated_is_what_the_product_does() -> None:
    counts = days(np.random.default_rng(3), Truth(0.1, 0.05, 0.02), 3, 40)
    for over, side in ((True, betting.above), (False, betting.below)):
        found = evidence(counts, 0.51, over=over)
        for day in range(3):
            for look in range(40):
                assert found[day, look] == pytest.approx(side(Outcomes(*counts[day, look]), 0.51), abs=1e-9)


def test_the_detector_simulated_is_the_product_s() -> None:
    state, product = np.zeros((1, len(drift.GRID))), Detector()
    for worse in (True, False, True, True, False, True):
        state, product = drift._after(state, np.array([worse])), product.after(worse=worse)
        assert np.log(state.mean()) == pytest.approx(product.log_e)


_DAYS = 200


@pytest.fixture(scope="module")
def wrong(seeds: tuple[int, ...]) -> list[Wrong]:
    return [one for seed in seeds for one in false_alarms(seed, _DAYS)]


def test_false_alarms_stay_below_alpha(wrong: list[Wrong], figure: Figure) -> None:
    for one in wrong:
        if "z-test" not in one.said:
            for alpha, hits in zip(ALPHAS, one.alarms, strict=True):
                assert hits <= at_most(alpha, _DAYS), one
    worst = max((one for one in wrong if "z-test" not in one.said), key=lambda one: one.alarms[0])
    figure("false alarms", f"at most {worst.alarms[0]} of {_DAYS} days at 1 % ({worst.said}, {worst.truth})")


def test_an_ordinary_test_looked_at_often_is_wrong_far_more_often(wrong: list[Wrong]) -> None:
    found = [one.alarms[1] for one in wrong if one.truth.base == 0.2 and "two-sided" in one.said]
    assert found
    assert min(found) > 2.5 * 0.05 * _DAYS


def test_a_verdict_takes_what_the_page_says(seeds: tuple[int, ...]) -> None:
    """A median of 60 days has an error of a tenth or so; four of these."""
    said = {row[:4]: row for row in rows("**Power**")}
    cases = [CASES[at] for at in (0, 3, 8, 11, 14, 17, 18, 20)]
    for seed in seeds:
        for found in power(seed, cases, (0.01,), many=60):
            base, difference, margin, alone = found.truth
            verdict = ("FAIL" if found.truth.fails else "PASS") + (", no control" if alone else "")
            row = said[f"{base:.1%}", f"{margin:.0%}", f"{difference:.0%}", verdict]
            assert found.median == pytest.approx(float(row[4].replace(",", "")), rel=0.45), row


def test_the_page_has_every_case() -> None:
    assert len(rows("**Power**")) == len(CASES)
    for row in rows("**False alarms**"):
        if "z-test" not in row[3]:
            for alpha, cell in zip(ALPHAS, row[4:], strict=True):
                assert float(cell.split("%")[0]) / 100 <= at_most(alpha, 1000) / 1000, row
    assert all(row[4] == "0" for row in rows("**Lists"))


def rows(title: str) -> list[tuple[str, ...]]:
    """The rows of one published table, without its head."""
    _, _, rest = published(PAGE.read_text(encoding="utf-8")).partition(title)
    lines = [line for line in rest.split("\n\n")[1].splitlines() if line.startswith("|")]
    return [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines[2:]]


def test_the_detector_runs_long_without_drift_and_alarms_soon_with_it(seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        quiet = drift.run(seed, 100, worse=0.5, runs=400, longest=10_000)
        assert quiet.mean + _ONCE * quiet.error >= 100  # the bound on the average run length
        assert quiet.cut == 0
        assert drift.run(seed, 1e6, worse=0.75, before=200, runs=100).median < 130


def test_a_renormalised_list_exceeds_the_truth_and_the_bound_never_does(seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        for spread in (1.0, 3.0):
            found = positions(seed, spread, 0.05, 120)
            assert not any(one.bound > one.true + 1e-6 for one in found)
            assert sum(one.renormalised > one.true for one in found) > 0.05 * len(found)


def test_of_what_is_named_little_is_named_wrongly_whenever_one_stops(seeds: tuple[int, ...]) -> None:
    runs = 100
    for seed in seeds:
        for faulty in (0, multiplicity.FAULTY):
            for stop in (False, True):
                made = multiplicity.run(seed, 0.05, faulty=faulty, stop=stop, ordinary=False, runs=runs)
                assert made.wrongly <= at_most(0.05, runs) / runs, (faulty, stop)
        assert multiplicity.run(seed, 0.05, stop=False, ordinary=False, runs=runs).found > 0.9
        assert multiplicity.run(seed, 0.05, faulty=0, stop=True, ordinary=True, runs=runs).wrongly > 0.1
