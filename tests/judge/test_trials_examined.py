"""Exchanges through the whole judge to their results: with the control beside it, in the mode that can tell, and of sampled output too."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.compare.trial import Result
from proxy.compare.verdict import Tally
from proxy.judge.trials import Trials
from proxy.ledger.tallies import Cell, Counted, Scope, Sum, Tallied
from tests.judge.test_examine import ASKED, CHAT, Bench, run
from tests.judge.test_trials import exchange


async def asked(bench: Bench, body: dict[str, Any], **more: Any) -> tuple[Counted, ...]:
    examiner = bench.examiner
    examined = await bench.ask(body, **more)
    return Trials(examiner.primary, examiner.shadows, b"salt").of(exchange(body), examined)


SAMPLED = ASKED | {"temperature": 1.0, "seed": 5}


def test_an_equal_candidate_is_good_greedy_and_sampled() -> None:
    async def test(bench: Bench) -> None:
        (greedy,) = await asked(bench, ASKED)
        assert (greedy.result, greedy.variation) == (Result.NEITHER, None)
        assert greedy.scope == Scope("candidate", "fp-primary", "fp-candidate", "control", "fp-control")
        (sampled,) = await asked(bench, SAMPLED)
        assert (sampled.result, sampled.variation) == (Result.NEITHER, pytest.approx(0.5, abs=1e-9))

    run(test)


def test_a_noisy_candidate_is_bad_and_its_distributions_are_elsewhere() -> None:
    async def test(bench: Bench) -> None:
        (greedy,) = await asked(bench, ASKED)
        assert (greedy.result, greedy.by) == (Result.WORSE, "genuine_flip")
        (sampled,) = await asked(bench, SAMPLED)
        assert (sampled.result, sampled.by) == (Result.WORSE, "genuine_flip")
        assert sampled.variation is not None
        assert 0.55 < sampled.variation < 1.0

    run(test, noise=4.0)


def test_a_noisy_candidate_without_a_control_stands_alone() -> None:
    async def test(bench: Bench) -> None:
        (sampled,) = await asked(bench, SAMPLED)
        assert (sampled.result, sampled.scope.control) == (Result.WORSE, "")
        assert sampled.variation is not None
        assert 0.1 < sampled.variation < 1.0

    run(test, control=False, noise=4.0)


def test_where_clients_ask_for_no_logprobs_the_control_lends_its_tokens_and_sampled_output_says_nothing() -> None:
    async def test(bench: Bench) -> None:
        (greedy,) = await asked(bench, CHAT)
        assert (greedy.result, greedy.by) == (Result.WORSE, "genuine_flip")
        assert await asked(bench, CHAT | {"temperature": 1.0, "seed": 5}) == ()  # canonical: no flip is claimed

    run(test, noise=4.0)


def test_a_candidate_that_answers_with_errors_is_missing_and_never_good() -> None:
    async def test(bench: Bench) -> None:
        body = ASKED | {"model": "another"}  # served by nobody: the primary's own error says nothing of the candidate
        assert await asked(bench, body) == ()
        bench.examiner.shadows[0].models["toy"] = "another"
        for body in (ASKED, SAMPLED):
            (made,) = await asked(bench, body)
            assert (made.result, made.by) == (Result.MISSING, "shadow_error")

    run(test)


def test_a_control_as_noisy_as_the_candidate_is_the_bad_one_as_far_as_a_fail_goes() -> None:
    """Clients ask for no logprobs: where the control agrees it lends its tokens, where it differs there are none."""

    async def test(bench: Bench) -> None:
        bench.toys["control"].noise, bench.toys["control"].seed = 4.0, 1
        (made,) = await asked(bench, CHAT)
        assert (made.result, made.by, made.control_by) == (Result.MISSING, "unknown_flip", "unknown_flip")
        tallied = Tallied({})
        tallied.add(Cell(made.result, made.by, made.control_by), Sum(7, 0.0, 0.0))
        tallied.add(Cell(made.result, "prompt_template", made.control_by), Sum(5, 0.0, 0.0))
        assert tallied.tally(controlled=True) == Tally(missing=12, control_apart=7, both_apart=5)

    run(test, noise=4.0, seed=2)
