"""The guard: limits and the circuit breaker, with a clock of the test's own."""

from __future__ import annotations

from proxy.judge.guard import Guard


def test_no_limit_admits_everything() -> None:
    guard = Guard()
    assert [guard.admit(0.0) for _ in range(1000)] == [None] * 1000


def test_rate_is_a_bucket_of_one_second() -> None:
    guard = Guard(rate=2.0)
    assert [guard.admit(10.0) for _ in range(3)] == [None, None, "rate_limit"]
    assert guard.admit(10.5) is None
    assert guard.admit(10.5) == "rate_limit"


def test_a_slow_rate_still_lets_one_through() -> None:
    guard = Guard(rate=0.1)
    assert guard.admit(0.0) is None
    assert guard.admit(5.0) == "rate_limit"
    assert guard.admit(10.0) is None


def test_token_budget_counts_a_day_from_its_first_token() -> None:
    guard = Guard(tokens_per_day=100)
    assert guard.admit(0.0) is None
    guard.spent(100, 0.0)
    assert guard.admit(86_399.0) == "token_budget"
    assert guard.admit(86_400.0) is None


def test_five_failures_in_a_row_open_the_circuit_and_a_good_trial_closes_it() -> None:
    guard = Guard()
    for _ in range(4):
        guard.failed(0.0)
    assert guard.admit(0.0) is None
    guard.failed(0.0)
    assert guard.circuit_open
    assert guard.admit(0.5) == "circuit_open"
    assert guard.admit(1.0) is None  # the trial
    assert guard.admit(1.0) == "circuit_open"  # only one at a time
    guard.succeeded()
    assert not guard.circuit_open
    assert guard.admit(1.0) is None


def test_a_success_between_failures_keeps_the_circuit_closed() -> None:
    guard = Guard()
    for _ in range(10):
        guard.failed(0.0)
        guard.failed(0.0)
        guard.succeeded()
    assert not guard.circuit_open


def test_failed_trials_double_the_pause_up_to_its_bound() -> None:
    guard = Guard()
    for _ in range(5):
        guard.failed(0.0)
    now, pauses = 0.0, []
    for _ in range(8):
        step = 0.0
        while guard.admit(now + step) is not None:
            step += 0.25
        now += step
        pauses.append(step)
        guard.failed(now)
    assert pauses == [1.0, 2.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0]


def test_a_trial_that_hangs_does_not_keep_the_next_one_away() -> None:
    guard = Guard()
    for _ in range(5):
        guard.failed(0.0)
    assert guard.admit(1.0) is None  # hangs from here on
    assert guard.admit(4.9) == "circuit_open"
    assert guard.admit(5.0) is None  # within 5 s of anything
    guard.succeeded()
    assert not guard.circuit_open


def test_further_requests_of_one_piece_of_work_are_charged_for() -> None:
    guard = Guard(rate=2.0)
    assert guard.admit(0.0) is None
    for _ in range(5):
        guard.charge(0.0)
    assert guard.admit(2.0) == "rate_limit"  # 4 owed at 0.0, none left at 2.0
    assert guard.admit(2.5) is None


def test_tokens_under_way_count_against_the_day() -> None:
    guard = Guard(tokens_per_day=100)
    assert [guard.admit(0.0, 30) for _ in range(4)] == [None, None, None, "token_budget"]
    guard.returned(30)
    guard.spent(10, 0.0)
    assert guard.admit(0.0, 31) == "token_budget"
    assert guard.admit(0.0, 30) is None


def test_the_day_goes_on_in_the_next_life() -> None:
    first = Guard(tokens_per_day=100)
    assert first.day(5.0) == (0.0, 0)
    first.spent(100, 10.0)
    second = Guard(tokens_per_day=100)
    second.resume(1000.0, *first.day(60.0))
    assert second.day(1000.0) == (50.0, 100)
    assert second.admit(1000.0 + 86_349.0) == "token_budget"
    assert second.admit(1000.0 + 86_350.0) is None


def test_a_trial_that_said_nothing_makes_room_for_the_next() -> None:
    guard = Guard()
    for _ in range(5):
        guard.failed(0.0)
    assert guard.admit(1.0) is None
    assert guard.admit(2.0) == "circuit_open"
    guard.released()
    assert guard.admit(2.0) is None
