import pytest

from proxy.compare.hazard import REPLICATES, Exposure, interval, per_thousand, weights


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


def test_an_arm_that_parts_where_its_control_does_has_no_excess():
    assert interval(arm(20, 50, 100), arm(20, 50, 100)) == (0.0, 0.0)
    excess = interval(arm(60, 50, 100), arm(5, 50, 100))
    assert excess is not None
    assert excess[0] > 0


def test_too_few_conversations_have_no_interval():
    assert interval(arm(1, 50, 9)) is None
    assert interval([Exposure("same", 1, 50)] * 50) is None


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
