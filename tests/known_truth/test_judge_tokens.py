"""Faults of numbers and tokens planted in scripted engines, through the whole judge: one primary, a shadow for each fault.

What is expected comes from the toy behind the engines, asked for its whole vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from engines.scripted.model import Toy
from engines.scripted.render import ids_of, plain_ids
from engines.scripted.script_load import read
from proxy.compare.comparison import Comparison, Mode
from tests.judged import Judged, judged
from tests.known_truth import truth
from tests.known_truth.watched import no_numbers, said

QUESTIONS = (
    "Tell me about halos.", "What is a parhelion?", "Count to ten and stop there, please.", "Why is the sky blue over the sea?", "Name three seas.",
    "Who was the first to see two suns?",
)  # fmt: skip
LENGTH = 40
LATE = 55  # tokens of context
BASE = "toy: {length: 1000}\n"
TIED = "toy: {length: 1000, seed: 5}\n"


def body(question: str, **more: Any) -> dict[str, Any]:
    asked = {
        "model": "toy", "temperature": 0, "max_tokens": LENGTH, "logprobs": True, "top_logprobs": 20, "return_token_ids": True,
        "messages": [{"role": "user", "content": question}],
    }  # fmt: skip
    return asked | more


def planted(differences: str, base: str = BASE) -> str:
    return f"{base}differences: {{{differences}}}\n"


def prompt_of(question: str, script: str = BASE) -> tuple[int, ...]:
    return ids_of(read(script.encode()), [{"role": "user", "content": question}], None)


def contexts(
    comparisons: list[Comparison], prompt: Callable[[str], tuple[int, ...]] = prompt_of
) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """(conversation, position, ids before it) of everything that was compared."""
    for number, (question, one) in enumerate(zip(QUESTIONS, comparisons, strict=True)):
        before = prompt(question)
        for index, token in enumerate(one.choices[0].ids):
            assert token is not None
            yield number, index, before
            before = (*before, token)


SHADOWS = {
    "same": BASE,
    "control": BASE,
    "noise 0.02": planted("noise: 0.02"),
    "noise 0.2": planted("noise: 0.2"),
    "wrong 0": planted("wrong_token: 0"),
    "wrong 7": planted("wrong_token: 7"),
    "wrong 31": planted("wrong_token: 31"),
    "late": planted(f"noise: 0.5, noise_from: {LATE}"),
    "growing": planted("noise_growth: 0.002"),
}


@pytest.fixture(scope="module")
def run() -> Judged:
    """One run for all of them."""
    return judged(BASE, SHADOWS, [body(question) for question in QUESTIONS])


def numbers(run: Judged, name: str, mode: str) -> dict[str, Any]:
    found: dict[str, Any] = run.shadow(name)["modes"][mode]
    return found


def test_an_identical_engine_is_silent(run, tell):
    for name in ("same", "control"):
        assert said(run.shadow(name)) == {}
        for mode in ("free", "forced"):
            block = numbers(run, name, mode)
            assert (block["requests"], block["logprob_error_nats"]["max"]) == (len(QUESTIONS), 0.0)
            assert "onset" not in block
    assert run.shadow("same")["verdict"]["tally"]["neither"] == len(QUESTIONS)
    tokens = numbers(run, "same", "free")["tokens_compared"]
    tell("whole judge: identical engine", f"{tokens} tokens", "nothing; every error 0", "nowhere")


@pytest.mark.parametrize("sigma", [0.02, 0.2])
def test_noise_is_recovered(run, sigma, tell):
    name = f"noise {sigma}"
    shifts = [shift for one in run.of(name, Mode.FORCED) for shift in one.choices[0].gap_shifts if shift is not None]
    assert len(shifts) >= 0.99 * LENGTH * len(QUESTIONS)
    recovered = math.sqrt(math.fsum(shift * shift for shift in shifts) / len(shifts) / 2)
    assert recovered == pytest.approx(sigma, rel=truth.LUCK / math.sqrt(2 * len(shifts)))
    assert said(run.shadow(name)).keys() <= {"free", "forced"}
    toy = Toy(read(BASE.encode()))
    chances = [truth.turned(toy.logits(before), sigma) for _, _, before in contexts(run.of(name, Mode.FORCED))]
    flips = sum(numbers(run, name, "forced")["flips"].values())
    assert truth.surely(flips, math.fsum(chances))
    tell(
        "whole judge: Gaussian noise", f"sigma {sigma}", f"sigma {recovered:.3g}; {flips} flips where {math.fsum(chances):.1f} must be", "flips"
    )  # fmt: skip


@pytest.mark.parametrize("place", [0, 7, 31])
def test_one_wrong_token_is_located(run, place, tell):
    """A fault of the sampler: its scores of the primary's tokens are right, and forced mode says so."""
    name = f"wrong {place}"
    firsts = [one.choices[0].first for one in run.of(name, Mode.FREE)]
    toy = Toy(read(BASE.encode()))
    for first, question, one in zip(firsts, QUESTIONS, run.of(name, Mode.FREE), strict=True):
        assert first is not None
        assert first.index == place
        values = toy.logprobs((*prompt_of(question), *(id_ for id_ in one.choices[0].ids[:place] if id_ is not None)))
        assert first.gap == pytest.approx(truth.gap(values), abs=1e-9)
        assert first.shadow_gap == -first.gap
    kinds = said(run.shadow(name))
    assert kinds.keys() == {"free"}
    assert sum(kinds["free"].values()) == len(QUESTIONS)
    assert kinds["free"].keys() <= {"genuine", "near_tie"}
    assert numbers(run, name, "forced")["logprob_error_nats"]["max"] == 0.0
    assert numbers(run, name, "free")["first_divergence"]["median"] == place
    tell(
        "whole judge: one wrong token", f"position {place}", f"{kinds['free'].get('genuine', 0)} genuine of {len(QUESTIONS)}; forced mode silent", f"position {place}"
    )  # fmt: skip


def test_a_fault_from_a_length_of_context_on_is_located(run, tell):
    assert said(run.shadow("late")).keys() == {"free", "forced"}
    for question, free, forced in zip(QUESTIONS, run.of("late", Mode.FREE), run.of("late", Mode.FORCED), strict=True):
        begins = LATE - len(prompt_of(question))
        assert 0 < begins < LENGTH
        choice = forced.choices[0]
        errors = [q != p for p, q in zip(choice.primary_logprobs, choice.shadow_logprobs, strict=True)]
        assert errors.index(True) == begins
        assert all(flip.index >= begins for flip in choice.flips)
        first = free.choices[0].first
        assert first is None or first.index >= begins
    places = sorted(LATE - len(prompt_of(question)) for question in QUESTIONS)
    tell(
        "whole judge: fault from a place on",
        f"{LATE} tokens of context",
        "the first value that differs",
        f"positions {places[0]} to {places[-1]}",
    )


def test_growing_noise_grows(run, tell):
    blocks = numbers(run, "growing", "forced")["by_position"]
    errors = [block["error_nats"]["raw"] for block in blocks if block["positions"] > 20]
    assert errors == sorted(errors)
    toy, wrong = (Toy(read(text.encode())) for text in (BASE, SHADOWS["growing"]))
    for number, index, before in contexts(run.of("growing", Mode.FORCED)):
        if index % 8 == 0:
            choice = run.of("growing", Mode.FORCED)[number].choices[0]
            token = choice.ids[index]
            assert choice.shadow_logprobs[index] == pytest.approx(wrong.logprobs(before)[token], abs=1e-9)
            assert choice.primary_logprobs[index] == pytest.approx(toy.logprobs(before)[token], abs=1e-9)
    assert said(run.shadow("growing")).keys() <= {"free", "forced"}
    tell(
        "whole judge: noise that grows",
        "sigma 0.002 more each token",
        f"mean error {errors[0]:.3f} rising to {errors[-1]:.3f} nat",
        "by position",
    )


def test_rounding_and_tie_rules(tell):
    """bf16 logits: every exact tie of the whole vocabulary is counted, and who picks what. Completions, for in chats vLLM gives alternatives no ids."""
    rounded = planted("precision: bf16", TIED)
    shadows = {"control": rounded, "highest": planted("precision: bf16, ties: highest", TIED), "fp32": TIED}
    asked = {"model": "toy", "temperature": 0, "max_tokens": 64, "logprobs": 20, "return_token_ids": True}
    bodies = [asked | {"prompt": question, "return_tokens_as_token_ids": True} for question in QUESTIONS]
    run = judged(rounded, shadows, bodies)
    assert said(run.shadow("control")) == {}
    toy = Toy(read(rounded.encode()))
    exact: dict[int, int] = {}
    positions = ties = 0
    for number, index, before in contexts(
        run.of("control", Mode.FREE), lambda text: plain_ids(read(TIED.encode()), text)
    ):
        first, second, *_ = sorted(toy.logits(before), reverse=True)
        positions += 1
        if first == second:
            ties += 1
            exact.setdefault(number, index)
    shown = run.shadow("control")["ties"]
    assert (shown["exact"], shown["positions"]) == (ties, positions)
    assert shown["primary_pick"] == {"lowest": ties, "highest": 0, "other": 0}
    assert shown["tie_break_mismatches"] == 0
    assert len(exact) >= 2
    parted = run.shadow("highest")
    assert said(parted) == {"free": {"exact_tie": len(exact)}}
    assert parted["ties"]["tie_break_mismatches"] == len(exact)
    assert parted["ties"]["shadow_pick"] == {"lowest": 0, "highest": len(exact), "other": 0}
    for number, one in enumerate(run.of("highest", Mode.FREE)):
        first = one.choices[0].first
        assert (None if first is None else first.index) == exact.get(number)
    finer = run.shadow("fp32")
    assert finer["ties"]["shadow_exact"] == 0
    assert not {"genuine", "unknown"} & {*said(finer).get("free", {}), *said(finer).get("forced", {})}
    assert said(finer).keys() <= {"free", "forced"}
    tell(
        "whole judge: bf16 and tie rules", f"{positions} positions", f"{ties} exact ties, all to the lowest id; {len(exact)} mismatches against the highest; fp32: no genuine flip",
        "the first tie of each conversation",
    )  # fmt: skip


@pytest.mark.parametrize("temperature", [0.5, 0.7, 1.5])
def test_scaled_values_of_an_engine_that_does_not_say_so(temperature, tell):
    """Known as an engine of raw values; what it reports of drawn tokens is after temperature."""
    judged(BASE, {"same": BASE}, [])  # so that a healthy engine is what is known
    bodies = [body(question, temperature=temperature, seed=number) for number, question in enumerate(QUESTIONS[:3])]
    run = judged(planted("processed_logprobs: true"), {"candidate": BASE}, bodies)
    shadow = run.shadow("candidate")
    assert said(shadow) == {"findings": {"logprob_mode": 3}, "incomparable": {"sampled": 3}}
    scales = [one.evidence["logprob_mode"] for one in run.of("candidate", Mode.FORCED)]
    assert scales[0]["scale"] == pytest.approx(temperature, abs=1e-3)
    assert no_numbers(shadow["modes"]["forced"])
    tell(
        "whole judge: logprobs after temperature", f"{temperature}, not told", f"logprob_mode, scale {scales[0]['scale']:.3f}; no numbers, no flip", "logprobs"
    )  # fmt: skip
