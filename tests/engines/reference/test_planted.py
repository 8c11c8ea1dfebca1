"""Faults as pure functions: what is asked for, where, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.reference.logprobs import row, whole
from engines.reference.planted import HEALTHY, Plant, plant_of, planted, prompt, reached, tie_rule

LOGITS = np.linspace(-3, 20, 5000, dtype=np.float32).reshape(2, 2500)
PLANTS = st.builds(
    Plant,
    logit_noise=st.floats(0, 100),
    noise_seed=st.integers(0, 2**62 - 1),
    round_logits=st.sampled_from(["", "bf16", "fp16"]),
    ties=st.sampled_from(["lowest", "highest", "random"]),
    values=st.sampled_from(["exact", "float32"]),
    extra_bos=st.booleans(),
    drop_prompt_tokens=st.integers(0, 99),
    from_position=st.integers(0, 99),
)


@given(PLANTS)
def test_what_it_is_spelled_as_is_what_it_is_read_from(plant: Plant) -> None:
    assert plant_of(plant.spelling) == plant
    assert not set(plant.spelling) & set("/?#% ")  # it stands in addresses


@given(st.text(max_size=30))
def test_any_text_is_a_plant_or_a_clear_refusal(text: str) -> None:
    try:
        read = plant_of(text)
    except ValueError as refused:
        read, said = HEALTHY, str(refused)
    else:
        said = ""
    assert plant_of(read.spelling) == read
    assert not said or "known are logit-noise, noise-seed" in said


@pytest.mark.parametrize(
    ("spelling", "said"),
    [
        ("logit-nois=1", "unknown field `logit-nois`"),
        ("logit-noise=-1", ">= 0"),
        ("logit-noise=nan", "logit-noise"),
        ("logit-noise=x", "Expected `float`"),
        ("ties=middle", "Invalid enum value 'middle'"),
        ("extra-bos", "extra-bos"),
        ("ties=lowest,ties=highest", "twice"),
    ],
)
def test_what_cannot_be_planted_is_named(spelling: str, said: str) -> None:
    with pytest.raises(ValueError, match="known are") as refused:
        plant_of(spelling)
    assert said in str(refused.value)


def test_healthy_is_the_empty_text_and_touches_nothing() -> None:
    assert (plant_of(""), HEALTHY.spelling) == (HEALTHY, "")
    assert planted(LOGITS, (1, 2, 3), HEALTHY, (9,)) is LOGITS
    assert prompt((1, 2, 3), HEALTHY, 7) == (1, 2, 3)


def test_noise_has_its_size_and_depends_on_what_comes_before_and_the_seed() -> None:
    plant = Plant(logit_noise=0.25, noise_seed=4)
    made = planted(LOGITS, (5, 6, 7), plant, ()) - LOGITS
    assert made.std() == pytest.approx(0.25, rel=0.05)
    assert abs(float(made.mean())) < 0.02
    assert abs(float(np.corrcoef(made)[0, 1])) < 0.1
    # The second row alone, with the same tokens before it, is the same; the first in its place, another seed or other tokens are not.
    assert (planted(LOGITS[1:], (5, 6, 7), plant, ())[0] == LOGITS[1] + made[1]).mean() > 0.9
    assert np.array_equal(planted(LOGITS[1:], (5, 6, 7), plant, ())[0], planted(LOGITS, (5, 6, 7), plant, ())[1])
    for tokens, other in (((5, 6, 8), plant), ((5, 6, 7), Plant(logit_noise=0.25, noise_seed=5))):
        assert abs(float(np.corrcoef(planted(LOGITS, tokens, other, ())[1] - LOGITS[1], made[1])[0, 1])) < 0.1


@given(st.floats(min_value=2.0**-100, max_value=2.0**100, width=32), st.booleans())
def test_bf16_is_the_nearest_of_its_numbers_halves_to_even(value: float, negative: bool) -> None:
    value = -value if negative else value
    made = float(planted(np.full((1, 1), value, dtype=np.float32), (1,), Plant(round_logits="bf16"), ())[0, 0])
    mantissa, exponent = np.frexp(np.float64(value))
    assert made == float(np.ldexp(np.round(mantissa * 256) / 256, exponent))  # eight bits; numpy rounds halves to even


def test_fp16_is_numpys() -> None:
    made = planted(LOGITS, (1, 2), Plant(round_logits="fp16"), ())
    assert made.dtype == np.float32
    assert np.array_equal(made, LOGITS.astype(np.float16).astype(np.float32))
    assert not np.array_equal(made, LOGITS)


OPENING = (90, 91)


@pytest.mark.parametrize(
    ("before", "position"),
    [
        ((1, 90, 91), 0),
        ((1, 90, 91, 5), 1),
        ((1, 90, 91, 5, 6, 7), 3),
        ((1, 90, 91, 5, 90, 91, 6), 1),  # the last opening counts
        ((1, 2, 3), 3),  # no opening: from the beginning
        ((91, 5), 2),  # half of one is none
        ((1, 90), 2),
    ],
)
@pytest.mark.parametrize("first", range(6))
def test_positions_are_those_of_the_reply(before: tuple[int, ...], position: int, first: int) -> None:
    plant = Plant(logit_noise=1.0, ties="highest", from_position=first)
    here = position >= first
    assert reached(before, plant, OPENING) == here
    assert tie_rule(before, plant, OPENING) == ("highest" if here else "lowest")
    logits = np.zeros((1, 50), dtype=np.float32)
    assert np.array_equal(planted(logits, before, plant, OPENING), logits) != here


def test_without_an_opening_positions_count_from_the_beginning() -> None:
    plant = Plant(from_position=3)
    assert [reached(tuple(range(length)), plant, ()) for length in range(1, 6)] == [False, False, True, True, True]


def test_prompts_are_cut_and_begun_twice() -> None:
    assert prompt((1, 2, 3), Plant(extra_bos=True), 7) == (7, 1, 2, 3)
    assert prompt((1, 2, 3), Plant(extra_bos=True), None) == (1, 1, 2, 3)
    assert prompt((1, 2, 3), Plant(drop_prompt_tokens=2), 7) == (3,)
    assert prompt((1, 2, 3), Plant(drop_prompt_tokens=9), 7) == (3,)
    assert prompt((1, 2, 3), Plant(drop_prompt_tokens=1, extra_bos=True), 7) == (7, 2, 3)


def test_float32_values_are_float32_near_the_exact_ones_and_lists_of_them_sum_to_more_than_1() -> None:
    logits = np.random.default_rng(1).standard_normal(50_000).astype(np.float32) * 3
    exact, narrow = row(logits, 0, 50_000), row(logits, 0, 50_000, in_float32=True)
    values = np.array([[ranked.logprob for ranked in each.top] for each in (exact, narrow)])
    assert np.array_equal(values[1], values[1].astype(np.float32).astype(np.float64))
    assert 1e-7 < np.abs(values[0] - values[1]).max() < 1e-3
    assert np.exp(values[0]).sum() == pytest.approx(1, abs=1e-12)
    assert np.exp(values[1]).sum() != pytest.approx(1, abs=1e-7)
    assert [ranked.id for ranked in exact.top] == [ranked.id for ranked in narrow.top]
    assert {ranked.id: ranked.logprob for ranked in exact.top} == dict(enumerate(whole(logits[None])[0].tolist()))
