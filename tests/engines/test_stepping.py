"""Scoring step by step: which positions, what is asked, what an answer without a row means."""

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.dialect import DialectError
from engines.stepping import MOST_STEPS, score, spread


@given(st.integers(0, 5000))
def test_positions_are_spread_evenly_with_both_ends(length):
    positions = spread(length, MOST_STEPS)
    assert len(positions) == min(length, MOST_STEPS)
    assert list(positions) == sorted(set(positions))
    if length:
        assert (positions[0], positions[-1]) == (0, length - 1)
    if len(positions) > 2:
        steps = [after - before for before, after in pairwise(positions)]
        assert max(steps) - min(steps) <= 1


def listed(known, logprob, data):
    return {"id": known, "token": "", "bytes": data, "logprob": logprob}


def test_the_wanted_token_is_forced_and_its_own_row_read(scripted):
    def engine(body):
        ((wanted, bias),) = body["logit_bias"]
        assert bias > 1000
        rivals = [listed(5, -0.25, [65]), listed(6, -3.0, [66])]
        return {"completion_probabilities": [{**listed(wanted, -9.5, [67]), "top_logprobs": rivals}]}

    fetch = scripted({"/completion": engine})
    rows = asyncio.run(score(fetch, "m", (1, 2), (8, 9), 2))
    assert [call.body["prompt"] for call in fetch.calls] == [
        [1, 2, 8],
        [1, 2],
    ]  # the last fills the cache for the others
    assert {(call.body["n_predict"], call.body["n_probs"], call.body["temperature"]) for call in fetch.calls} == {
        (1, 2, 0)
    }
    assert [(row.index, row.token.id, row.token.logprob) for row in rows] == [(0, 8, -9.5), (1, 9, -9.5)]
    assert [one.id for one in rows[0].token.top] == [5, 6]


def part_of_a_character(body, rivals):
    if body["logit_bias"][0][0] != "a":
        return {"completion_probabilities": []}
    return {"completion_probabilities": [{**listed(81, -10.0, [97]), "top_logprobs": rivals}]}


def test_a_part_of_a_character_is_looked_up_among_the_alternatives(scripted):
    rivals = [listed(10813, -0.5, [240, 159]), listed(198, -1.5, [10])]
    fetch = scripted({"/completion": lambda body: part_of_a_character(body, rivals)})
    (row,) = asyncio.run(score(fetch, None, (1,), (10813,), 2))
    assert (row.token.id, row.token.logprob, row.token.data, row.token.text) == (10813, -0.5, b"\xf0\x9f", "")
    assert len(row.token.top) == 2


def test_a_part_of_a_character_that_is_not_listed_has_no_value(scripted):
    fetch = scripted({"/completion": lambda body: part_of_a_character(body, [listed(198, -1.5, [10])])})
    (row,) = asyncio.run(score(fetch, None, (1,), (10813,), 2))
    assert (row.token.id, row.token.logprob, len(row.token.top)) == (10813, None, 1)


def test_no_rows_at_all_and_errors(scripted):
    (row,) = asyncio.run(score(scripted({"/completion": {"content": ""}}), None, (1,), (2,), 2))
    assert row.token.logprob is None
    with pytest.raises(DialectError, match="status_404"):
        asyncio.run(score(scripted({}), None, (1,), (2,), 2))


def test_long_replies_are_sampled(scripted):
    fetch = scripted({"/completion": {"completion_probabilities": [{**listed(3, -1.0, [65]), "top_logprobs": []}]}})
    rows = asyncio.run(score(fetch, None, (1,), (3,) * 100, 2))
    assert [row.index for row in rows] == list(spread(100, MOST_STEPS))
    assert len(fetch.calls) == MOST_STEPS
