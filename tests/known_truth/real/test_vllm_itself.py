"""A real vLLM against itself: what other batches and a warm prefix cache change, and that a verdict stays quiet about it."""

from __future__ import annotations

import pytest

from proxy.compare.near_tie import Noise, learn, threshold
from proxy.compare.verdict import State, Terms, judge
from tests.figures import Figure
from tests.known_truth.real.arms import QUESTIONS, forced, free, greedy, replies, scores, tally
from tests.known_truth.real.self_agreement import agreement, runs

pytestmark = [pytest.mark.slow, pytest.mark.vllm, pytest.mark.timeout(900)]
ASSUMED = threshold(Noise(), dtype="bf16")
#: Longer than vLLM's block on a CPU (128 tokens), so that the second time some of it is read from the cache.
LONG = " ".join(QUESTIONS[:20])


def test_other_batches_change_answers_and_no_verdict_fails_for_it(vllm_bf16: str, figure: Figure) -> None:
    one, eight, eight_again = runs(vllm_bf16, answers=10, tokens=40)
    alone = agreement(
        free(one[:4], replies(vllm_bf16, [greedy(question, 40) for question in QUESTIONS[:4]], engine="vllm"), ASSUMED)
    )
    figure("vLLM bf16 against itself", f"one at a time, twice: {alone}")
    assert (alone.identical, alone.errors) == (alone.answers, (0.0, 0.0, 0.0))
    control, candidate = free(one, eight, ASSUMED), free(one, eight_again, ASSUMED)
    for name, seen in (("one at a time and eight", control), ("one at a time and eight, again", candidate)):
        measured = agreement(seen)
        figure("vLLM bf16 against itself", f"{name}: {measured}")
        assert measured.errors[0] < 5e-2
        assert measured.errors[2] < 1.0
        assert 0 < measured.tied < 0.1 * measured.positions
    verdict = judge(tally(candidate, control), Terms())
    assert verdict.state is not State.FAIL
    noise = Noise()
    for each in control:
        learn(noise, each, control=True)
    tau = threshold(noise, dtype="bf16")
    # Scored one at a time and eight at a time: the floor of forced mode, under another load than the candidate's.
    arms = [forced(one, scores(vllm_bf16, one, engine="vllm", together=together), tau) for together in (8, 1)]
    found = tally(*arms)
    figure("vLLM bf16 against itself", f"scored eight at a time and one: {found.worse} conversations worse, {found.better} better, of {found.seen}; tau {tau.value:.3f} ({tau.origin})")  # fmt: skip
    assert judge(found, Terms()).state is not State.FAIL


def test_a_warm_prefix_cache_is_a_difference_and_a_cold_one_is_none(vllm_bf16: str, figure: Figure) -> None:
    def asked(salt: str) -> list[dict[str, object]]:
        return [greedy(f"{LONG} {question}", 16, cache_salt=f"{salt}{number}") for number, question in enumerate(QUESTIONS[20:24])]  # fmt: skip

    cold, other = (replies(vllm_bf16, asked(salt), engine="vllm") for salt in ("one", "two"))
    warm, warm_again = (replies(vllm_bf16, asked("one"), engine="vllm") for _ in range(2))
    without, with_cache = agreement(free(cold, other, ASSUMED)), agreement(free(cold, warm, ASSUMED))
    figure("vLLM bf16 against itself", f"{len(cold)} long prompts, both cold: {without}")
    figure("vLLM bf16 against itself", f"{len(cold)} long prompts, cold and warm: {with_cache}")
    assert (without.identical, without.errors[2]) == (without.answers, 0.0)
    assert agreement(free(warm, warm_again, ASSUMED)).identical == len(warm)
    assert 0.0 < with_cache.errors[2] < 1.0
