"""What is short for the usual case says what the long way says, for any case."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.compare import columnar
from proxy.compare import row as rows
from proxy.compare.distance import (
    lower_bounds,
    probability_error,
    probability_errors,
    rank,
    relative_error,
    relative_errors,
)
from proxy.compare.identity import same
from proxy.compare.row import Row, read_row, value
from proxy.compare.token_stream import Alternative, Token

LOGPROBS = st.sampled_from([0.0, -0.1, -0.5, -0.5, -1.0, -2.0, -3.0, 1e-6, math.inf, -math.inf, math.nan])
IDS = st.sampled_from([None, 1, 2, 3, 4, 5])
TEXTS = st.sampled_from([None, "", "a", "b", "a\ufffd"])
DATA = st.sampled_from([None, b"", b"a", b"b"])
ALTERNATIVES = st.builds(Alternative, LOGPROBS, IDS, TEXTS, DATA)
TOPS = st.one_of(
    st.lists(ALTERNATIVES, max_size=6),
    st.lists(ALTERNATIVES, max_size=6).map(lambda some: sorted(some, key=lambda one: -one.logprob)),
    st.lists(st.builds(Alternative, LOGPROBS, st.sampled_from([1, 2, 3]), TEXTS, DATA), max_size=4, unique_by=lambda one: one.id),
).map(tuple)  # fmt: skip
TOKENS = st.builds(
    Token, st.sampled_from(["", "a", "b", "a\ufffd"]), IDS, DATA, st.one_of(st.none(), LOGPROBS), TOPS
)  # fmt: skip


def known(row: Row) -> tuple[object, ...]:
    return tuple((one.logprob, one.id, one.text, one.data) for one in row.entries), row.chosen, row.certain


@given(TOKENS)
def test_a_row_in_order_is_the_row_of_any(token: Token) -> None:
    assert known(read_row(token)) == known(rows._row_of_any(token))
    assert read_row(token).tied == (len(read_row(token).tops) > 1)


@given(TOKENS, TOKENS)
def test_a_value_is_that_of_the_one_entry_that_is_the_same(token: Token, other: Token) -> None:
    row = read_row(token)
    by_id = [one.logprob for one in row.entries if other.id is not None and one.id == other.id]
    found = [one.logprob for one in row.entries if same(one, other)]
    expected = by_id[0] if by_id else found[0] if len(found) == 1 else None
    assert value(row, other) == expected


@given(TOKENS, st.sampled_from([0.0, -0.5, -0.7, -9.0]))
def test_a_rank_counts_the_more_likely(token: Token, logprob: float) -> None:
    row = read_row(token)
    expected = 1 + sum(one.logprob > logprob for one in row.entries) if row.certain else None
    assert rank(row, logprob) == expected


@given(st.lists(st.tuples(st.floats(-30.0, 0.1), st.floats(-30.0, 0.1)), max_size=8), st.randoms())
def test_bounds_do_not_depend_on_the_order_of_tokens(pairs: list[tuple[float, float]], draw) -> None:
    shuffled = pairs[:]
    draw.shuffle(shuffled)
    assert lower_bounds(shuffled) == lower_bounds(pairs)


@given(st.lists(st.tuples(st.floats(-25.0, 0.0), st.floats(-25.0, 0.0)), max_size=8), st.sampled_from([0.0, 1e-3, 2.0]))
def test_bounds_of_columns_are_those_of_pairs(pairs: list[tuple[float, float]], nearer: float) -> None:
    pairs = sorted(((p, p + nearer * (q - p) / 25 if nearer < 2 else q) for p, q in pairs), key=lambda one: -one[0])
    assert columnar._exact_bounds([p for p, _ in pairs], [q for _, q in pairs]) == lower_bounds(pairs)
    tied = [(p, q) for p, q in pairs for _ in range(2)] + [(-0.0001, -0.0001), (-0.0001, -0.0002)]
    tied.sort(key=lambda one: -one[0])
    assert columnar._exact_bounds([p for p, _ in tied], [q for _, q in tied]) == lower_bounds(tied)


@st.composite
def lists_of_both(draw: st.DrawFn) -> tuple[list[float], list[float]]:
    """What two arms give 3 to 20 tokens, most likely first for one of them, with rests down to nothing."""
    weights = draw(st.lists(st.floats(1e-6, 1.0), min_size=3, max_size=20).map(lambda some: sorted(some, reverse=True)))
    left_out = draw(st.sampled_from([0.0, 1e-7, 1e-6, 1.0001e-6, 1e-5, 1e-3, 0.02, 0.5]))
    mine = [math.log(weight / math.fsum(weights) * (1.0 - left_out)) for weight in weights]
    moves = st.sampled_from([0.0, 1e-7, -1e-4, 1e-2, -0.3, -3.0])
    return mine, [min(value + draw(moves), 0.0) for value in mine]


@given(st.lists(lists_of_both(), min_size=1, max_size=4))
def test_bounds_of_rows_in_one_pass_are_those_of_exact_sums(some: list[tuple[list[float], list[float]]]) -> None:
    width = min(len(mine) for mine, _ in some)
    rows = [(mine[:width], theirs[:width]) for mine, theirs in some]
    found = columnar._bounds_by([p for mine, _ in rows for p in mine], [q for _, theirs in rows for q in theirs], width)
    expected = zip(*(lower_bounds(list(zip(mine, theirs, strict=True))) for mine, theirs in rows), strict=True)
    for ours, exact in zip(found, expected, strict=True):
        assert ours == [pytest.approx(one, rel=0, abs=columnar.SUMMED) for one in exact]


@given(st.lists(st.tuples(st.floats(-30.0, 0.1), st.floats(-30.0, 0.1)), max_size=8))
def test_errors_of_many_are_those_of_each(pairs: list[tuple[float, float]]) -> None:
    assert relative_errors(pairs) == [relative_error(p, q) for p, q in pairs]
    assert probability_errors(pairs) == [probability_error(p, q) for p, q in pairs]
