"""Replies recorded from real engines, read and compared the short way and the long way: all that a comparison yields is the same."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from engines.body import document
from engines.choices import reply
from engines.dialect import Answer
from engines.openai import read
from proxy.compare.columnar import SUMMED
from proxy.compare.columns import Columns
from proxy.compare.compare_free import compare_free
from proxy.compare.comparison import Comparison, Source, TauOrigin
from proxy.compare.near_tie import Tau
from proxy.compare.token_stream import Reply
from tests.engines.conftest import REPLIES, Case

VALUE = re.compile(rb'("logprob": ?)(-\d+\.\d+)')
WHOLE = [case for case in REPLIES if case.answer.status == 200]


def shifted(case: Case, by: float) -> Answer:
    """The same reply with every third value moved a little, as by another kernel."""
    seen = iter(range(1 << 20))
    moved = VALUE.sub(
        lambda found: found[1] + repr(float(found[2]) - by * (next(seen) % 3 == 0)).encode(), case.answer.body
    )
    return Answer(200, case.answer.headers, ((0, moved),))


def both_ways(case: Case, answer: Answer) -> tuple[Reply, Reply]:
    value, error = document(answer)
    short, long = read(case.endpoint, case.request, answer), reply(value, case.request, error)
    assert short == long
    return short, long


def compared(pair: Sequence[Reply], *, comparable: bool) -> Comparison:
    doubt = None if comparable else "logprob_mode"
    tau = Tau(1e-3, TauOrigin.CONFIGURED)
    return compare_free(*pair, source=Source.REPLY, tau=tau, greedy=True, values_incomparable=doubt)


def parts(comparison: Comparison) -> tuple[Comparison, list[float | None]]:
    """All but the bounds, and they: only these are summed in two ways."""
    bare = tuple(replace(one, kl_lower_bounds=(), tv_lower_bounds=()) for one in comparison.choices)
    bounds = [one for choice in comparison.choices for one in (*choice.kl_lower_bounds, *choice.tv_lower_bounds)]
    return replace(comparison, choices=bare), bounds


@pytest.mark.parametrize("case", WHOLE, ids=str)
@pytest.mark.parametrize("comparable", [True, False])
def test_a_recorded_reply_compares_the_same_both_ways(case: Case, comparable: bool) -> None:
    mine = both_ways(case, case.answer)
    others = [one for one in WHOLE if one.name == case.name and one.folder != case.folder]
    answers = [case.answer, *(shifted(case, by) for by in (1e-5, 1e-2, 1.0)), *(one.answer for one in others)]
    for answer in answers:
        theirs = both_ways(case, answer)
        ways = zip(mine, theirs, strict=True)
        (found, bounds), (expected, exact) = (parts(compared(way, comparable=comparable)) for way in ways)
        assert found == expected
        assert bounds == [None if one is None else pytest.approx(one, rel=0, abs=SUMMED) for one in exact]


def test_the_recordings_go_the_short_way() -> None:
    short = [case for case in WHOLE if b'"content":[{"token":' in case.answer.body.replace(b" ", b"")]
    taken = [
        any(isinstance(choice.tokens, Columns) for choice in read(case.endpoint, case.request, case.answer).choices)
        for case in short
    ]
    assert len(short) > 20
    assert sum(taken) > len(short) / 2
