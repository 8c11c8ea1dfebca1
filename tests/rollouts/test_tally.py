"""Rollouts with a known difference, and what must be measured of them."""

from __future__ import annotations

import math
import random
import struct

import pytest

from proxy.rollouts import Measured, compare_rollouts
from proxy.rollouts.gate import Limits, over


def drawn(seed: int, responses: int = 200, length: int = 100) -> tuple[list[list[int]], list[list[float]]]:
    source = random.Random(seed)
    ids = [[source.randrange(50_000) for _ in range(length)] for _ in range(responses)]
    return ids, [[-source.expovariate(1.5) - 1e-4 for _ in range(length)] for _ in range(responses)]


def raw(found: Measured, name: str) -> float:
    value = found.value(name)
    assert value is not None
    return value


def test_gaussian_noise_is_recovered() -> None:
    """For d ~ N(-s^2/2, s^2): k3 = E[e^d - 1 - d] = s^2/2, weights have mean 1 and an effective share of exp(-s^2)."""
    sigma = 0.1
    ids, ps = drawn(1, 300, 200)
    source = random.Random(2)
    shifted = [[p - 1.0 for p in one] for one in ps]  # far from 0, so that nothing is cut off
    qs = [[p + source.gauss(-(sigma**2) / 2, sigma) for p in one] for one in shifted]
    found = compare_rollouts(ids, shifted, qs, unfiltered=True)
    assert (found.rollouts, found.tokens, found.k3_is_kl) == (300, 60_000, 1.0)
    assert raw(found, "k3_nats") == pytest.approx(sigma**2 / 2, rel=0.03)
    assert raw(found, "k1_nats") == pytest.approx(sigma**2 / 2, abs=0.002)
    assert raw(found, "rms_difference_nats") == pytest.approx(math.hypot(sigma, sigma**2 / 2), rel=0.02)
    assert raw(found, "token_effective_sample_share") == pytest.approx(math.exp(-(sigma**2)), rel=0.002)
    assert raw(found, "mean_weight") == pytest.approx(1.0, abs=0.003)
    # |d| of a normal: median 0.6745 s
    assert raw(found, "median_error_nats") == pytest.approx(0.6745 * sigma, rel=0.03)
    clipped = 1.0 - (cdf(math.log(1.2), sigma) - cdf(math.log(0.8), sigma))
    assert raw(found, "clipped_share") == pytest.approx(clipped, abs=0.003)
    low, high = found.numbers["k3_nats"]["interval"]
    assert low < sigma**2 / 2 < high
    assert high - low < 0.1 * sigma**2


def cdf(value: float, sigma: float) -> float:
    return 0.5 * (1.0 + math.erf((value + sigma**2 / 2) / sigma / math.sqrt(2.0)))


def test_weights_of_whole_responses_are_worth_less() -> None:
    sigma, length = 0.02, 100
    ids, ps = drawn(3, 2000, length)
    source = random.Random(4)
    qs = [[p - 1 + source.gauss(-(sigma**2) / 2, sigma) for p in one] for one in ps]
    found = compare_rollouts(ids, [[p - 1 for p in one] for one in ps], qs)
    number = found.numbers["sequence_effective_sample_share"]
    assert number["raw"] == pytest.approx(math.exp(-(sigma**2) * length), rel=0.02)
    assert number["effective"] == pytest.approx(2000 * number["raw"])
    assert number["interval"][0] < number["raw"] < number["interval"][1]


def test_an_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    """Rollouts differ in their own noise, so tokens are not independent: only whole rollouts give the right width."""
    source = random.Random(5)
    held, rounds = 0, 60
    for _ in range(rounds):
        offsets = [source.gauss(0.0, 0.05) for _ in range(60)]
        ps = [[-1.0 - source.random() for _ in range(20)] for _ in offsets]
        qs = [[p + offset for p in one] for one, offset in zip(ps, offsets, strict=True)]
        interval = compare_rollouts([[1] * 20] * 60, ps, qs).numbers["k1_nats"]["interval"]
        held += interval[0] <= 0.0 <= interval[1]
    assert held >= 50  # 57 are expected of 60; below 50 with probability 2e-4 at a true 93 %


def test_values_shifted_by_one_place_are_told_though_the_mean_looks_fine() -> None:
    ids, ps = drawn(6)
    late = [[one[-1], *one[:-1]] for one in ps]
    found = compare_rollouts(ids, ps, late)
    assert abs(raw(found, "k1_nats")) < 1e-3
    assert raw(found, "correlation") < 0.1
    assert found.hints == ["the trainer's values look one place too late: moved by one they correlate at 1.0000"]
    early = [[*one[1:], one[0]] for one in ps]
    assert "too early" in compare_rollouts(ids, ps, early).hints[0]
    assert compare_rollouts(ids, ps, ps).hints == []


def test_logprobs_at_another_temperature_correlate_and_are_biased() -> None:
    ids, ps = drawn(7)
    found = compare_rollouts(ids, ps, [[p * 1.25 for p in one] for one in ps])
    assert raw(found, "correlation") == pytest.approx(1.0, abs=1e-9)
    mean = sum(map(sum, ps)) / found.tokens
    assert raw(found, "k1_nats") == pytest.approx(-0.25 * mean)
    assert found.k3_is_kl == 0.0


def test_bf16_rounding_shows_its_size() -> None:
    ids, ps = drawn(8)
    rounded = [[bf16(p) for p in one] for one in ps]
    found = compare_rollouts(ids, ps, rounded)
    exact = [abs(q - p) for one, other in zip(ps, rounded, strict=True) for p, q in zip(one, other, strict=True)]
    assert raw(found, "mean_error_nats") == pytest.approx(sum(exact) / len(exact))
    assert raw(found, "error_above_0.01_nats_share") == sum(one > 0.01 for one in exact) / len(exact)
    assert raw(found, "correlation") > 0.99999


def bf16(value: float) -> float:
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    return float(struct.unpack("<f", struct.pack("<I", (bits + 0x8000) & 0xFFFF0000))[0])


def test_the_same_on_both_sides_is_no_difference() -> None:
    ids, ps = drawn(9, 20)
    found = compare_rollouts(ids, ps, ps)
    assert [raw(found, name) for name in ("k1_nats", "k3_nats", "rms_difference_nats", "clipped_share")] == [0.0] * 4
    assert raw(found, "correlation") == 1.0
    assert raw(found, "sequence_effective_sample_share") == 1.0


def test_one_wrong_token_is_named_with_its_place() -> None:
    ids, ps = drawn(10, 20, 40)
    qs = [list(one) for one in ps]
    qs[7][31] -= 6.0
    qs[3][2] -= 2.0
    found = compare_rollouts(ids, ps, qs, worst=2)
    first, second = found.worst
    assert (first.rollout, first.name, first.position, first.id) == (8, "8", 31, ids[7][31])
    assert (first.rollout_logprob, first.trainer_logprob) == (ps[7][31], qs[7][31])
    assert first.difference == pytest.approx(-6.0)
    assert (second.rollout, second.position) == (4, 2)
    assert raw(found, "error_above_5_nats_share") == 1 / 800
    assert raw(found, "clipped_low_share") == 2 / 800


def test_a_fault_from_a_position_on_stands_in_its_buckets() -> None:
    ids, ps = drawn(11, 30, 100)
    qs = [[p - (0.5 if at >= 64 else 0.0) for at, p in enumerate(one)] for one in ps]
    found = compare_rollouts(ids, ps, qs)
    errors = {row["from"]: row["mean_error_nats"]["raw"] for row in found.by_position}
    assert {at: round(error, 9) for at, error in errors.items()} == {0: 0.0, 1: 0.0, 16: 0.0, 32: 0.0, 64: 0.5}
    assert [row["tokens"] for row in found.by_position] == [30, 450, 480, 960, 1080]


def test_lengths_are_told_apart() -> None:
    ids = [[1] * 10] * 12 + [[1] * 40] * 12
    ps = [[-1.0 - at / 50 for at in range(len(one))] for one in ids]
    qs = [[p - (0.2 if len(one) > 20 else 0.1) for p in one] for one in ps]
    found = compare_rollouts(ids, ps, qs)
    assert [(row["from"], row["rollouts"], row["tokens"], round(row["mean_error_nats"]["raw"], 9)) for row in found.by_length] == [
        (1, 12, 120, 0.1),
        (32, 12, 480, 0.2),
    ]  # fmt: skip


def test_few_rollouts_have_no_interval_and_say_why() -> None:
    ids, ps = drawn(12, 3)
    found = compare_rollouts(ids, ps, [[p - 0.1 for p in one] for one in ps])
    assert found.numbers["k3_nats"]["no_interval"] == "few_rollouts"
    assert "interval" not in found.numbers["k3_nats"]
    assert found.numbers["k3_nats"]["rollouts"] == 3


def test_a_weight_beyond_a_float_does_not_overflow() -> None:
    found = compare_rollouts([[1, 2]] * 2, [[-900.0, -1.0], [-2.0, -1.0]], [[-1.0, -1.0], [-2.0, -1.0]])
    assert raw(found, "token_effective_sample_share") == pytest.approx(0.25)
    assert raw(found, "sequence_effective_sample_share") == pytest.approx(0.5)
    assert raw(found, "truncated_share") == 0.25


def test_a_rollout_of_which_nothing_can_be_compared_is_counted_with_why() -> None:
    nothing = compare_rollouts([[1, 2]] * 2, [[-1.0, -1.0]] * 2, [[float("nan")] * 2, [float("-inf")] * 2])
    assert nothing.unusable == {"no_values": 2}
    assert nothing.left_out == {"trainer_not_finite": 2, "trainer_impossible": 2}
    assert over(nothing, Limits(max_unusable=0.5)) == ["unusable rollouts 1 (--max-unusable 0.5)"]
