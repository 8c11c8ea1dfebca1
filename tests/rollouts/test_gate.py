"""Limits: kept, broken, and of numbers that were not measured."""

from __future__ import annotations

import pytest

from proxy.rollouts import Measured, compare_rollouts
from proxy.rollouts.gate import Limits, not_a_number, over


def measured() -> Measured:
    ps = [[-1.0 - at / 10 for at in range(10)]] * 12
    return compare_rollouts([[1] * 10] * 13, [*ps, [1.0] * 10], [[p - 0.3 for p in one] for one in ps] + [[-1.0] * 10])


@pytest.mark.parametrize(
    ("kept", "broken", "name"),
    [
        (Limits(max_k3=0.05), Limits(max_k3=0.04), "k3_nats 0.0408182 (--max-k3 0.04)"),
        (Limits(max_rms=0.31), Limits(max_rms=0.29), "rms_difference_nats 0.3 (--max-rms 0.29)"),
        (Limits(max_clipped=1.0), Limits(max_clipped=0.5), "clipped_share 1 (--max-clipped 0.5)"),
        (Limits(max_probability_error=0.1), Limits(max_probability_error=0.05), "mean_probability_error 0.0"),
        (Limits(min_correlation=0.99), Limits(min_correlation=1.1), "correlation 1 (--min-correlation 1.1)"),
        (Limits(min_ess=0.99), Limits(min_ess=1.1), "sequence_effective_sample_share 1 (--min-ess 1.1)"),
        (Limits(max_unusable=0.1), Limits(max_unusable=0.05), "unusable rollouts 0.0769231 (--max-unusable 0.05)"),
    ],
)
def test_a_limit_is_kept_or_named(kept: Limits, broken: Limits, name: str) -> None:
    assert over(measured(), kept) == []
    (line,) = over(measured(), broken)
    assert line.startswith(name)


def test_what_was_not_measured_is_over_every_limit() -> None:
    nothing = compare_rollouts([], [], [])
    assert over(nothing, Limits(max_k3=10.0)) == ["k3_nats was not measured (--max-k3 10)"]
    assert over(nothing, Limits(max_unusable=0.5)) == ["unusable rollouts 1 (--max-unusable 0.5)"]
    same = compare_rollouts([[1, 2]], [[-1.0, -1.0]], [[-1.0, -1.0]])  # no spread: no correlation
    assert over(same, Limits(min_correlation=0.9)) == ["correlation was not measured (--min-correlation 0.9)"]


def test_what_the_trainer_rules_out_is_within_no_limit() -> None:
    ruled_out = compare_rollouts([[1, 2]] * 12, [[-1.0, -1.5]] * 12, [[-1.0, float("-inf")]] * 12)
    assert ruled_out.value("k3_nats") == 0.0
    assert over(ruled_out, Limits(max_k3=0.1, max_clipped=0.1)) == [
        "trainer_impossible: 12 tokens are in no number (--max-k3, --max-clipped)"
    ]
    assert over(ruled_out, Limits(max_unusable=0.1)) == []


def test_a_limit_that_is_no_number_is_found() -> None:
    assert not_a_number(Limits(max_k3=1.0, min_ess=float("nan"))) == "--min-ess"
    assert not_a_number(Limits(max_k3=float("inf"))) is None
