"""A difference planted in an engine, as the verdict sees it: bad and by what, or good and not bad by a value that nobody gets."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from proxy.compare.comparison import Comparison, Mode
from proxy.compare.trial import Result, look, trial
from proxy.compare.verdict import Tally, Terms, judge
from tests.judge.test_planted import ALL, COLD, REPLIES, SILENT, STOPPED, STREAMED, WEATHER, body, judged, script
from tests.judged import judged as whole_judge


def results(found: list[Comparison]) -> Counter[tuple[Result, str]]:
    """One result for each exchange, of a candidate without a control; in free mode alone where it was not scored."""
    by_mode = [[one for one in found if one.mode is mode] for mode in Mode]
    by_exchange = zip(*(one for one in by_mode if len(one) == len(by_mode[0])), strict=True)
    trials = [trial({one.mode: look(one.mode, one) for one in pair}) for pair in by_exchange]
    return Counter((one.result, one.by) for one in trials if one is not None)


@pytest.mark.parametrize(
    ("by", "differences", "bodies"),
    [
        ("prompt_double_bos", "double_bos: true", ALL),
        ("context_truncated", "context_cut: 20", (body("word " * 600),)),
        ("channel_split", "reasoning_in_content: true", WEATHER),
        ("tool_call_arguments", "tool_arguments: broken", WEATHER),
        ("stop_handling", "keep_stop: true", STOPPED),
        ("genuine_flip", "noise: 6.0", ALL[:1]),
        ("", "", ALL),
        ("", "tool_arguments: reordered", WEATHER),
    ],
)
def test_a_planted_difference_is_bad_by_its_own_name(by, differences, bodies) -> None:
    assert results(judged(script(differences), *bodies)) == {(Result.WORSE if by else Result.NEITHER, by): len(bodies)}


def test_defaults_that_the_copy_says_are_the_primarys_change_nothing() -> None:
    engines = ("llama_cpp", "llama_cpp")
    found = judged(script("temperature: 0.9"), *SILENT, primary=REPLIES + COLD, engines=engines, probed=True)
    assert {one.findings for one in found if one.mode is Mode.FREE} == {("sampling_defaults",)}
    free = [trial({Mode.FREE: look(Mode.FREE, one)}) for one in found if one.mode is Mode.FREE]
    assert {one.result for one in free if one is not None} == {Result.NEITHER}


def test_values_of_the_wrong_row_are_no_difference_that_users_get() -> None:
    found = results(judged(script("shifted_rows: true"), *STREAMED))
    assert not {result for result, _ in found} & {Result.WORSE, Result.BETTER, Result.BOTH}


def test_replicas_with_stores_of_their_own_add_up_to_what_one_would_have_said() -> None:
    """The whole judge, store and report: all conversations, and the same dealt out to two replicas."""
    bodies = [body(f"Question {number}, about halos.") for number in range(14)]
    arms = {"candidate": script("noise: 0.4, noise_seed: 3"), "control": script("noise: 0.4, noise_seed: 9")}

    def verdict(part: list[dict[str, Any]]) -> dict[str, Any]:
        # A threshold that is learned is each judge's own, from the control that it has seen.
        found = whole_judge(REPLIES, arms, part, near_tie=0.05).shadow("candidate")["verdict"]
        return dict(found)

    whole = verdict(bodies)
    assert {result for result, n in whole["tally"].items() if n} >= {"worse", "better"}
    one, other = (Tally(**verdict(bodies[number::2])["tally"]) for number in range(2))
    assert one.seen == other.seen == 7
    assert one + other == Tally(**whole["tally"])
    together = judge(one + other, Terms())
    assert (together.state, together.needed) == (whole["state"], whole["conversations_needed"])
    assert together.excess == tuple(whole["excess_interval"])
    for test in ("fail", "pass", "worse_than_control"):
        assert getattr(together, f"log_e_{test}") == whole[f"log_e_{test}"]


def test_a_wrong_token_that_only_generating_makes_is_bad_though_scoring_is_right() -> None:
    bodies = [body(f"Question {number}, about halos.") for number in range(4)]
    found = whole_judge(REPLIES, {"candidate": script("wrong_token: 7"), "control": REPLIES}, bodies)
    verdict = found.shadow("candidate")["verdict"]
    assert verdict["tally"] == {"worse": 4, "better": 0, "both": 0, "neither": 0, "missing": 0}
    assert not any(
        flip for one in found.of("candidate", Mode.FORCED) for choice in one.choices for flip in choice.flips
    )
