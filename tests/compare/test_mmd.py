"""The two-sample test on drawn texts: right when the samplers are the same, quick to see that they are not, deaf to which prompts were asked how often."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest

from proxy.compare.mmd import Draws, discrepancy, gram

VOCABULARY, LENGTH = 12, 10


def sampler(rng: np.random.Generator, prompt: int, temperature: float = 1.0):
    """A prompt's own distribution over tokens, at a temperature; its texts are drawn with ``rng``."""
    logits = np.random.default_rng(1000 + prompt).normal(0, 1.5, VOCABULARY) / temperature
    shares = np.exp(logits) / np.exp(logits).sum()
    return lambda: tuple(rng.choice(VOCABULARY, size=LENGTH, p=shares).tolist())


def draws(rng, prompts: int, ours: int, theirs: int, temperature: float = 1.0) -> list[Draws]:
    found = []
    for prompt in range(prompts):
        mine, other = sampler(rng, prompt), sampler(rng, prompt, temperature)
        found.append(
            Draws(f"prompt {prompt}", tuple(mine() for _ in range(ours)), tuple(other() for _ in range(theirs)))
        )
    return found


def test_the_kernel_by_hand() -> None:
    rows = gram(["ab", "ab", "xy", ""])
    assert rows[0][1] == pytest.approx(1)
    assert rows[0][2] == pytest.approx(
        1 / 3 / 3
    )  # of the single tokens the end alone is shared, one of three; no pair, no triple
    assert rows[3][3] == pytest.approx(1 / 3)  # an empty text has no pairs and no triples
    assert rows[0][3] == pytest.approx(1 / sqrt(3) / 3)
    assert rows == [list(row) for row in np.array(rows).T]


def test_the_kernel_is_positive(seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        texts = [text for one in draws(np.random.default_rng(seed), 4, 3, 3) for text in (*one.ours, *one.theirs)]
        assert np.linalg.eigvalsh(np.array(gram([*texts, (), (1,)]))).min() > -1e-9


def test_the_estimate_by_hand() -> None:
    found = discrepancy([Draws("p", ("ab", "ab"), ("xy", "xy"))], dealings=99)
    assert found.mmd_squared == pytest.approx(1 + 1 - 2 / 9)
    # Of six ways to deal four texts two are as far apart as this one.
    assert 0.2 < found.p_value < 0.5
    assert (found.prompts, found.ours, found.theirs, found.left_out, found.dealings) == (1, 2, 2, 0, 99)


def test_all_the_same_is_no_evidence() -> None:
    found = discrepancy([Draws("p", ("ab",) * 5, ("ab",) * 5)], dealings=19)
    assert (found.p_value, found.mmd_squared) == (1.0, pytest.approx(0.0))


@pytest.mark.parametrize(("prompts", "ours", "theirs"), [(6, 4, 4), (1, 6, 6), (5, 2, 6)])
def test_it_is_right_when_the_samplers_are_the_same(
    seeds: tuple[int, ...], prompts: int, ours: int, theirs: int
) -> None:
    many = 100
    for seed in seeds:
        rng = np.random.default_rng(seed)
        values = [discrepancy(draws(rng, prompts, ours, theirs), dealings=39).p_value for _ in range(many)]
        for level in (0.05, 0.25):
            assert sum(value <= level for value in values) <= many * level + 4.3 * (many * level * (1 - level)) ** 0.5
        assert 0.5 - 4.3 * 0.29 / many**0.5 < np.mean(values) < 0.52 + 4.3 * 0.29 / many**0.5  # and not merely timid


def test_another_sampler_is_found(seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        rng = np.random.default_rng(seed)
        assert discrepancy(draws(rng, 12, 6, 6, temperature=2.5), dealings=199).p_value <= 0.01
        assert discrepancy(draws(rng, 1, 20, 20, temperature=2.5), dealings=199).p_value <= 0.02


def test_which_prompts_were_asked_how_often_is_no_difference(seeds: tuple[int, ...]) -> None:
    """Put together without prompts, these texts differ plainly: one arm was asked the first prompts four times as often."""
    many = 60
    for seed in seeds:
        rng = np.random.default_rng(seed)
        alarms, fooled = 0, 0
        for _ in range(many):
            asked = [Draws("a", *drawn(rng, 0, 12, 3)), Draws("b", *drawn(rng, 1, 3, 12))]
            alarms += discrepancy(asked, dealings=39).p_value <= 0.05
            pooled = Draws("all", (*asked[0].ours, *asked[1].ours), (*asked[0].theirs, *asked[1].theirs))
            fooled += discrepancy([pooled], dealings=39).p_value <= 0.05
        assert alarms <= many * 0.05 + 4.3 * (many * 0.05 * 0.95) ** 0.5
        assert fooled > many * 0.8


def drawn(rng: np.random.Generator, prompt: int, ours: int, theirs: int) -> tuple[tuple, tuple]:
    draw = sampler(rng, prompt)
    return tuple(draw() for _ in range(ours)), tuple(draw() for _ in range(theirs))


def test_the_same_data_give_the_same_answer_in_any_order() -> None:
    found = draws(np.random.default_rng(7), 5, 4, 4, temperature=1.3)
    assert discrepancy(found) == discrepancy(found[::-1])


def test_what_cannot_be_dealt_is_left_out() -> None:
    one = Draws("a", ("ab", "cd"), ("ab", "cd"))
    found = discrepancy([one, Draws("b", ("ab",), ("ab", "cd"))], dealings=9)
    assert (found.prompts, found.left_out) == (1, 1)
    assert discrepancy([Draws("b", ("ab",), ("ab", "cd"))]) is None
    assert discrepancy([]) is None
    with pytest.raises(ValueError, match="twice"):
        discrepancy([one, one])
