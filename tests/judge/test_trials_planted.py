"""A difference planted in an engine, as the verdict sees it: bad and by what, or good and not bad by a value that nobody gets."""

from __future__ import annotations

from collections import Counter

import pytest

from proxy.compare.comparison import Comparison, Mode
from proxy.compare.trial import Result, look, trial
from tests.judge.test_planted import ALL, COLD, REPLIES, SILENT, STOPPED, STREAMED, WEATHER, body, judged, script


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
