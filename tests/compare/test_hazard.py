from math import log

import pytest

from proxy.compare.hazard import REPLICATES, Exposure, Intervals, bound, intervals, per_thousand, weights


def interval(*exposures: list[Exposure]) -> tuple[float, float] | None:
    return intervals(*exposures).own


def arm(events: int, exposed: int, conversations: int, name: str = "c") -> list[Exposure]:
    """``events`` conversations with one difference among ``conversations`` of ``exposed`` tokens each."""
    return [Exposure(f"{name}{number}", int(number < events), exposed) for number in range(conversations)]


def test_hazard_is_per_exposed_token():
    assert per_thousand(3, 1500) == 2.0
    assert per_thousand(0, 10) == 0.0
    assert per_thousand(0, 0) is None


def test_weights_are_a_poisson_bootstrap_and_the_same_everywhere():
    every = [weight for number in range(400) for weight in weights(str(number))]
    assert len(every) == 400 * REPLICATES
    mean = sum(every) / len(every)
    assert mean == pytest.approx(1.0, abs=0.01)
    assert sum((weight - mean) ** 2 for weight in every) / len(every) == pytest.approx(1.0, abs=0.02)
    assert weights("a")[:8] == weights("a")[:8]
    assert weights("a") != weights("b")


def test_the_interval_holds_the_estimate_and_narrows_with_data():
    few, many = interval(arm(5, 50, 50)), interval(arm(50, 50, 500))
    assert few is not None
    assert many is not None
    assert few[0] < 2.0 < few[1]
    assert many[0] < 2.0 < many[1]
    assert many[1] - many[0] < few[1] - few[0]


def test_the_excess_is_that_over_the_control():
    found = intervals(arm(60, 50, 100), arm(5, 50, 100))
    assert found.own == interval(arm(60, 50, 100))
    assert found.floor == interval(arm(5, 50, 100))
    assert found.excess is not None
    assert 0 < found.excess[0] < 1000 * 55 / 5000 < found.excess[1]


def test_arms_that_part_in_the_same_conversations_are_not_certain_to_always():
    found = intervals(arm(20, 50, 100), arm(20, 50, 100)).excess
    edge = 1000 * log(40) / 5000
    assert found == (pytest.approx(-edge), pytest.approx(edge))


def test_nothing_seen_is_bounded_by_the_rule_of_three():
    """599 exposed tokens in 32 conversations without a difference: 0 to 5.0 per 1,000, and never 0 to 0."""
    quiet = [Exposure(f"c{number}", 0, 19 if number < 23 else 18) for number in range(32)]
    assert sum(one.exposed for one in quiet) == 599
    assert interval(quiet) == (0.0, pytest.approx(1000 * 2.9957 / 599, rel=1e-4))
    assert bound(quiet) == pytest.approx(5.0, abs=0.01)
    assert bound([]) is None
    assert intervals([]) == Intervals(None)
    assert intervals([Exposure("text alone", 0, 0, 0)]) == Intervals(None)


def test_one_long_conversation_is_not_many():
    many = [Exposure(f"c{number}", 0, 50) for number in range(60)]
    few = [Exposure(f"c{number % 20}", 0, 50) for number in range(60)]
    one = [Exposure("c", 0, 50, 1)] * 60
    assert bound(few) == pytest.approx(3 * bound(many))
    assert bound(one) == pytest.approx(1000 / 50)  # every stream may part: no more is known
    assert bound([Exposure(f"c{number}", 0, 50, 4) for number in range(60)]) == pytest.approx(4 * bound(many))


@pytest.mark.parametrize("conversations", [1, 2, 5, 30, 1000])
def test_the_bound_holds_for_what_is_missed_19_times_in_20(conversations):
    """The largest rate that stays unseen with probability 0.05, worked out directly."""
    share = 1 - 0.05 ** (1 / conversations)
    assert bound(arm(0, 50, conversations)) >= 1000 * share / 50
    assert bound(arm(0, 50, conversations)) <= 1000 * min(1.0, 3 / conversations) / 50


def test_a_floor_of_zero_widens_the_excess():
    ours, quiet = arm(20, 50, 100), arm(0, 50, 100)
    found = intervals(ours, quiet)
    assert found.own is not None
    assert found.floor == (0.0, bound(quiet))
    assert found.excess is not None
    low, high = found.excess
    assert low == pytest.approx(4.0 - ((4.0 - found.own[0]) ** 2 + (1000 * log(40) / 5000) ** 2) ** 0.5)
    assert low < found.own[0]
    assert high == pytest.approx(found.own[1])
    reverse = intervals(quiet, ours).excess
    assert reverse == (pytest.approx(-high), pytest.approx(-low))
    edge = 1000 * log(40) / 5000
    assert intervals(quiet, quiet).excess == (pytest.approx(-edge), pytest.approx(edge))


def test_a_short_control_leaves_the_excess_open():
    assert intervals(arm(20, 50, 100), arm(3, 50, 9)).floor is None
    assert intervals(arm(20, 50, 100), arm(3, 50, 9)).excess is None
    found = intervals(arm(60, 50, 100), arm(0, 50, 3)).excess
    assert found is not None
    assert found[0] < 0


def test_too_few_conversations_have_no_interval():
    assert interval(arm(1, 50, 9)) is None
    assert interval([Exposure("same", 1, 50)] * 50) is None
    assert interval([*arm(1, 50, 9), Exposure("text alone", 0, 0)]) is None


def test_intervals_cover_the_truth_about_as_often_as_they_say():
    covered = 0
    for trial in range(60):
        drawn = [
            Exposure(f"{trial}/{number}", int(weights(f"truth{trial}/{number}")[0] >= 2), 40) for number in range(80)
        ]
        edges = interval(drawn)
        assert edges is not None
        true = 1000 * 0.2642411 / 40  # P(Poisson(1) >= 2)
        covered += edges[0] <= true <= edges[1]
    assert covered >= 50
