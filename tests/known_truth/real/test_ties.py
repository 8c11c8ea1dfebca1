"""Real logits rounded to bf16, and another rule for ties: every tie is counted, as the whole vocabulary shows it, and the rules are named."""

from __future__ import annotations

import numpy as np
import pytest

from proxy.compare.comparison import FlipClass, Pick, SeenBy
from proxy.compare.near_tie import Noise, Tau, learn, logit_step, threshold
from proxy.compare.summary import summarise_ties
from proxy.compare.token_stream import Reply
from tests.figures import Figure
from tests.known_truth.real.arms import QUESTIONS, forced, free, greedy, planted, replies, scores, truth

pytestmark = [pytest.mark.slow, pytest.mark.torch, pytest.mark.timeout(900)]
ASKED = [greedy(question, 32) for question in QUESTIONS[:10]]


@pytest.fixture(scope="module")
def rounded(reference_fp32: str) -> str:
    return planted(reference_fp32, "round-logits=bf16")


@pytest.fixture(scope="module")
def lowest(rounded: str) -> list[Reply]:
    return replies(rounded, ASKED)


@pytest.fixture(scope="module")
def tied(rounded: str, lowest: list[Reply]) -> list[dict[int, int]]:
    """For each reply, by position: how many of all tokens share the highest value, where more than one does."""
    sizes = [
        (whole == whole.max(axis=1, keepdims=True)).sum(axis=1) for whole in (truth(rounded, one) for one in lowest)
    ]
    return [{index: int(size) for index, size in enumerate(one) if size > 1} for one in sizes]


def test_every_exact_tie_is_counted_and_fp32_has_none(
    rounded: str, lowest: list[Reply], tied: list[dict[int, int]], healthy: list[Reply], reference_fp32: str,
    assumed: Tau, figure: Figure,
) -> None:  # fmt: skip
    seen = forced(lowest, scores(rounded, lowest), assumed)
    by_scores = [{tie.index: tie.size for tie in one.choices[0].ties if tie.arm == "shadow"} for one in seen]
    assert by_scores == tied
    # Decoding adds up in another order than scoring does, so a logit on the edge of two bf16 numbers may go the other way.
    decoded = [{tie.index for tie in one.choices[0].ties if tie.arm == "primary"} for one in seen]
    assert sum(len(own ^ set(other)) for own, other in zip(decoded, tied, strict=True)) <= 2
    ties = summarise_ties([], seen)
    positions = sum(one.choices[0].compared for one in seen)
    assert ties["positions"] == positions
    known = sum(map(len, tied))
    assert 0.01 < known / positions < 0.1
    figure("ties of real logits in bf16", f"{known} of {positions} positions, each where the whole vocabulary has it")
    assert summarise_ties([], forced(healthy, scores(reference_fp32, healthy), assumed))["exact"] == 0


def test_the_step_of_the_logits_is_inferred(rounded: str, lowest: list[Reply], assumed: Tau) -> None:
    noise = Noise()
    for one in forced(lowest, scores(rounded, lowest), assumed):
        learn(noise, one, control=False)
    assert logit_step(noise) == 0.125  # logits of size 16 to 32
    assert threshold(noise).value == 0.25


def test_the_other_rule_is_named_and_found_at_the_first_tie(
    rounded: str, lowest: list[Reply], tied: list[dict[int, int]], assumed: Tau
) -> None:
    highest = replies(f"{rounded},ties=highest", ASKED)
    seen = free(lowest, highest, assumed)
    parted = [one.choices[0].first for one in seen if one.choices[0].first is not None]
    assert len(parted) >= 3
    assert {(flip.kind, flip.tie_seen_by, flip.primary_pick, flip.shadow_pick, flip.lowest) for flip in parted} == {
        (FlipClass.EXACT_TIE, SeenBy.BOTH, Pick.LOWEST, Pick.HIGHEST, "primary")
    }
    first = [min(one, default=None) for one in tied]
    found = [None if one.choices[0].first is None else one.choices[0].first.index for one in seen]
    assert (
        sum(a != b for a, b in zip(first, found, strict=True)) <= 1
    )  # see above: a tie that decoding alone has or lacks
    picks = summarise_ties(seen)
    assert picks["primary_pick"]["lowest"] > 0
    assert picks["shadow_pick"]["highest"] > 0
    assert picks["primary_pick"]["highest"] == picks["shadow_pick"]["lowest"] == 0
    assert picks["tie_break_mismatches"] == len(parted)


def test_rounding_against_fp32_is_a_tie_seen_by_one_arm_or_a_near_one(
    rounded: str, lowest: list[Reply], reference_fp32: str
) -> None:
    tau = threshold(Noise(), dtype="bf16")
    seen = forced(lowest, scores(reference_fp32, lowest), tau)
    flips = [flip for one in seen for flip in one.choices[0].flips]
    assert {flip.kind for flip in flips} <= {FlipClass.EXACT_TIE, FlipClass.NEAR_TIE}
    assert {flip.tie_seen_by for flip in flips if flip.kind is FlipClass.EXACT_TIE} <= {SeenBy.PRIMARY}
    errors = [
        abs(other - mine)
        for one in seen
        for mine, other in zip(one.choices[0].primary_logprobs, one.choices[0].shadow_logprobs, strict=True)
        if mine is not None and other is not None
    ]
    # Rounding to the nearest moves a logit by half a step at most; the normaliser moves less than the largest of them.
    assert max(errors) <= 0.125 + 1e-4
    assert np.median(errors) > 1e-3
