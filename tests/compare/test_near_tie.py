import math
import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.compare.comparison import ChoiceComparison, Comparison, Mode, TauOrigin
from proxy.compare.near_tie import (
    ASSUMED,
    Noise,
    Tau,
    learn,
    logit_step,
    merge,
    shift_quantile,
    threshold,
)


def seen(gaps=(), shifts=(), **more) -> Comparison:
    choice = ChoiceComparison(
        index=0,
        primary_tokens=None,
        shadow_tokens=None,
        compared=0,
        exposed=0,
        identical=True,
        gaps=tuple(gaps),
        gap_shifts=tuple(shifts),
    )
    return Comparison(mode=Mode.FREE, choices=(choice,), **more)


def taught(*comparisons: Comparison, control: bool = True) -> Noise:
    noise = Noise()
    for comparison in comparisons:
        learn(noise, comparison, control=control)
    return noise


def test_configured_beats_everything():
    assert threshold(Noise(), configured=0.5) == Tau(0.5, TauOrigin.CONFIGURED)


def test_without_data_it_is_assumed_and_says_so():
    assert threshold(Noise()) == Tau(ASSUMED, TauOrigin.ASSUMED)
    assert threshold(Noise(), dtype="float32") == Tau(1e-3, TauOrigin.ASSUMED)
    assert threshold(Noise(), dtype="bfloat16") == Tau(0.25, TauOrigin.ASSUMED)
    assert threshold(Noise(), dtype="fp16") == Tau(0.03125, TauOrigin.ASSUMED)


def test_the_99th_percentile_of_the_control_counts_from_200_positions_on():
    shifts = [0.01] * 197 + [0.3] * 2
    assert threshold(taught(seen(shifts=shifts))).origin is TauOrigin.ASSUMED
    tau = threshold(taught(seen(shifts=[*shifts, -0.01])))
    assert tau.origin is TauOrigin.LEARNED
    assert 0.01 <= tau.value <= 0.01 * 1.1
    assert 0.3 <= threshold(taught(seen(shifts=[*shifts, -0.3]))).value <= 0.3 * 1.1


def test_a_control_that_is_bit_equal_leaves_one_step_or_nothing():
    assert threshold(taught(seen(shifts=[0.0] * 200))) == Tau(0.0, TauOrigin.LEARNED, 0.0)
    gaps = [0.125 * k for k in range(1, 41)]
    assert threshold(taught(seen(gaps=gaps, shifts=[0.0] * 200))) == Tau(0.125, TauOrigin.LEARNED, 0.0)


def test_only_comparable_control_positions_teach_the_noise():
    assert taught(seen(shifts=[0.5]), control=False).positions == 0
    assert taught(seen(shifts=[0.5], values_incomparable="logprob_mode")).positions == 0
    assert taught(seen(shifts=[0.5], incomparable="token_count")).positions == 0
    assert taught(seen(shifts=[0.5, None])).positions == 1


@pytest.mark.parametrize("step", [0.5, 0.125, 0.0625, 2.0**-6])
def test_the_step_is_read_off_gaps_with_the_noise_of_float32(step):
    rng = random.Random(1)
    gaps = [rng.randrange(0, 60) * step + rng.uniform(-1e-6, 1e-6) for _ in range(100)]
    assert logit_step(taught(seen(gaps=map(abs, gaps)))) == step
    assert threshold(taught(seen(gaps=map(abs, gaps)))) == Tau(2 * step, TauOrigin.ASSUMED)


def test_a_few_rows_of_the_binade_below_do_not_halve_the_step():
    gaps = [0.125 * k for k in range(1, 46)] + [0.0625 * k for k in (1, 3, 5)]
    assert logit_step(taught(seen(gaps=gaps))) == 0.125


def test_no_step_in_fp32_nor_in_a_handful_of_rows_nor_in_ties():
    rng = random.Random(2)
    assert logit_step(taught(seen(gaps=[rng.expovariate(1.0) for _ in range(500)]))) is None
    assert logit_step(taught(seen(gaps=[0.125] * 19))) is None
    assert logit_step(taught(seen(gaps=[0.0] * 500))) is None


def test_one_step_of_reported_values_is_covered():
    tau = Tau(0.125, TauOrigin.LEARNED)
    assert tau.covers(1.8238842487335205 - 1.6988842487335205)
    assert tau.covers(0.12500011920928955)
    assert tau.covers(-0.1)
    assert not tau.covers(0.1251)


shifts = st.lists(st.floats(0.0, 100.0), max_size=30)


@given(shifts, shifts, shifts)
def test_states_merge_in_any_order_and_survive_encoding(first, second, third):
    one, two, three = (taught(seen(gaps=part, shifts=part)) for part in (first, second, third))
    whole = taught(seen(gaps=first + second + third, shifts=first + second + third))
    assert merge(merge(one, two), three) == whole
    assert merge(three, merge(two, one)) == whole
    assert msgspec.json.decode(msgspec.json.encode(whole), type=Noise) == whole


@given(st.lists(st.floats(1e-6, 50.0), min_size=1))
def test_the_learned_quantile_is_never_below_the_true_one_and_at_most_a_bin_above(values):
    true = sorted(values)[math.ceil(0.99 * len(values)) - 1]
    assert true * (1 - 1e-12) <= shift_quantile(taught(seen(shifts=values))) <= true * 2 ** (1 / 8) * (1 + 1e-12)


def test_the_scale_is_the_root_mean_square_of_the_shifts():
    rng = random.Random(3)
    noise = taught(seen(shifts=[rng.gauss(0.0, 0.07) for _ in range(4000)]))
    assert threshold(noise).scale == pytest.approx(0.07, rel=0.06)
    assert threshold(noise, configured=1.0).scale == threshold(noise).scale
    assert threshold(taught(seen(shifts=[0.1] * 199))).scale is None


def test_expected_flips_are_normal_tails():
    tau = Tau(0.1, TauOrigin.LEARNED, 0.5)
    assert Tau(0.1, TauOrigin.ASSUMED).expected_flips([0.0]) is None
    assert tau.expected_flips([None]) is None
    assert tau.expected_flips([0.0, 0.5, None, 50.0]) == pytest.approx(0.5 + 0.15865525393145707)
    assert Tau(0.1, TauOrigin.LEARNED, 0.0).expected_flips([0.0, 1.0]) == 0.0
    # As large over all, and at a quarter of the positions alone: there it is twice as large.
    seldom = Tau(0.1, TauOrigin.LEARNED, 0.25, 0.25)
    assert seldom.expected_flips([0.0, 0.5]) == pytest.approx(0.25 * (0.5 + 0.15865525393145707))


def test_how_often_two_arms_differ_at_all_is_learned():
    learned = threshold(taught(seen(shifts=[0.0] * 149 + [1e-6] + [0.25, -0.25] * 25)))
    assert learned.moved == pytest.approx(0.25)
    assert learned.scale == pytest.approx(0.125, rel=0.05)
    assert threshold(taught(seen(shifts=[0.1] * 199))).moved == 1.0
