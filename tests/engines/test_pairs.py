"""Rows of native routes: ``[logprob, id]``, with or without a text."""

import pytest

from engines.dialect import DialectError
from engines.pairs import pair, scored
from proxy.compare.token_stream import Alternative, Token


def test_rows_with_and_without_texts():
    assert pair([-0.5, 7, " sea"], [[-0.5, 7, " sea"], [-1.0, 9, None]]) == Token(
        text=" sea", id=7, logprob=-0.5, top=(Alternative(-0.5, 7, " sea"), Alternative(-1.0, 9))
    )
    assert pair([-0.5, 7]) == Token(text="", id=7, logprob=-0.5)
    assert pair([-3.4028234663852886e38, 7, None]) == Token(text="", id=7)  # float32's lowest: probability zero
    for broken in (None, [], [-0.5], [-0.5, "7"], [-0.5, -1], {"id": 7}):
        assert pair(broken) is None
    assert pair([-0.5, 7], [None, [None, 8], [-1.0, None]]).top == ()


def test_positions_are_those_that_were_asked_for():
    rows = scored([[-0.5, 7], [-0.25, 8]], [[[-0.5, 7], [-1.0, 3]], None], (7, 8), 0)
    assert [(row.index, row.token.id, row.token.logprob) for row in rows] == [(0, 7, -0.5), (1, 8, -0.25)]
    assert rows[0].token.top == (Alternative(-0.5, 7), Alternative(-1.0, 3))
    assert rows[1].token.top == ()
    (later,) = scored([[-0.25, 8]], None, (7, 8), 1)
    assert (later.index, later.token.id) == (1, 8)


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (None, "no_prompt_logprobs"),
        ([[-0.5, 7]], "no_prompt_logprobs"),  # shorter than the prompt, as with a reused prefix
        ([[-0.5, 7], [-0.25, 9]], "scored_other_tokens"),
        ([[-0.5, 7], None], "scored_other_tokens"),
    ],
)
def test_other_rows_are_refused(rows, reason):
    with pytest.raises(DialectError) as error:
        scored(rows, None, (7, 8), 0)
    assert error.value.reason == reason
