"""What is read the short way reads, and compares, as what is read the long way."""

import math

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from engines.body import document
from engines.choices import reply
from engines.dialect import Answer, Endpoint
from engines.openai import read
from engines.rows import LABEL
from proxy.compare.align import align
from proxy.compare.columnar import SUMMED
from proxy.compare.columns import Columns
from proxy.compare.compare_free import compare_free
from proxy.compare.comparison import Source, TauOrigin
from proxy.compare.near_tie import Tau
from proxy.compare.token_stream import Token


def entry(name, logprob, *, label, **more):
    """``label``: True for labels, ``spelled`` for texts with their bytes, False for texts alone."""
    text = f"{LABEL}{name}" if label is True else f" w{name}"
    return {"token": text, "logprob": logprob, **({"bytes": list(text.encode())} if label else {}), **more}


def row(name, listed, *, label, logprob=None, **more):
    value = next((value for other, value in listed if other == name), -3.0) if logprob is None else logprob
    top = [entry(other, its, label=label) for other, its in listed]
    said = {"bytes": list(f" w{name}".encode())} if label else {}
    return {**entry(name, value, label=label), **said, "top_logprobs": top, **more}


def body(rows, **more):
    text = "".join(
        bytes(one["bytes"]).decode(errors="replace") if one.get("bytes") else str(one.get("token")) for one in rows
    )
    choice = {
        "index": 0,
        "message": {"content": text},
        "logprobs": {"content": rows},
        "finish_reason": "length",
        **more,
    }
    return orjson.dumps({"id": "c", "model": "m", "choices": [choice], "usage": {"completion_tokens": len(rows)}})


def answer(data):
    return Answer(200, (("content-type", "application/json"),), ((0, data),))


def long_way(data, request=None):
    value, error = document(answer(data))
    return reply(value, request or {}, error)


def short_way(data, request=None):
    return read(Endpoint.CHAT, request or {}, answer(data))


LISTED = [(3, -0.25), (1, -1.5), (2, -2.5), (9, -4.0)]


@pytest.mark.parametrize("label", [True, False, "spelled"])
def test_the_usual_shape_is_read_as_columns(label):
    found = short_way(body([row(3, LISTED, label=label), row(2, LISTED, label=label)]))
    assert isinstance(found.choices[0].tokens, Columns)
    assert found.choices[0].has_ids is (label is True)
    assert found == long_way(body([row(3, LISTED, label=label), row(2, LISTED, label=label)]))
    token = found.choices[0].tokens[-1]
    assert (token.text, token.id, token.logprob) == (" w2", 2 if label is True else None, -2.5)
    assert [(one.logprob, one.id) for one in token.top][1] == (-1.5, 1 if label is True else None)


@pytest.mark.parametrize(
    "odd",
    [
        {"token": "a", "logprob": -1.0, "bytes": [97]},
        {"token": "a", "logprob": -1.0, "id": 5},
        {"token": "a", "logprob": -1.0, "bytes": [98]},
        {"token": "a", "logprob": -1.0, "bytes": [256]},
        {"token": "a", "logprob": None, "top_logprobs": [{"token": "a", "logprob": None}]},
        {"token": "a", "logprob": "-1", "top_logprobs": None},
        {"token": "", "logprob": -1.0},
        {"token": "\ufffd", "logprob": -1.0},
        {"token": "bytes:\\xf0", "logprob": -1.0},
        {"token": "token_id:5", "logprob": -1.0},
        {"token": "a", "logprob": -1.0, "top_logprobs": [{"token": "a", "logprob": -9999.0}]},
        {"logprob": -1.0},
        None,
        7,
    ],
)
def test_what_is_not_usual_is_read_the_long_way(odd):
    usual, spelled = row(3, LISTED, label=False), row(3, LISTED, label="spelled")
    fits = odd == {"token": "a", "logprob": -1.0, "bytes": [97]}
    for rows in ([usual, odd], [odd, usual], [spelled, None if fits else odd]):
        data = orjson.dumps({"choices": [{"message": {"content": "a"}, "logprobs": {"content": rows}}]})
        assert not isinstance(short_way(data).choices[0].tokens, Columns)
        assert short_way(data) == long_way(data)


@pytest.mark.parametrize("odd", ["-5", "05", "+5", " 5", "1_0", "", "x", "٣", "²", "1" * 19, "9" * 5000])
def test_a_label_that_no_engine_writes_is_read_the_long_way(odd):
    usual = row(3, LISTED, label=True)
    for data in (body([usual, usual | {"token": f"{LABEL}{odd}"}]), body([usual | {"token": f"{LABEL}{odd}"}, usual])):
        assert not isinstance(short_way(data).choices[0].tokens, Columns)
        assert short_way(data) == long_way(data)


@pytest.mark.parametrize("odd", [b'"\xff":1,', b'"a":"\xff",', b'"a":{"b":["\xed\xa0\x80"]},', '"é":"é",'.encode()])
def test_what_is_passed_over_has_to_be_text_too(odd):
    usual = body([row(3, LISTED, label=False)])
    data = usual.replace(b'{"token"', b"{" + odd + b'"token"', 1)
    assert short_way(data) == long_way(data)
    assert (short_way(data).error, data != usual) == (None if b"\xc3\xa9" in odd else "not_json", True)


def test_columns_are_a_sequence_of_tokens():
    tokens = short_way(body([row(n, LISTED, label=True) for n in (3, 1, 2)])).choices[0].tokens
    whole = tuple(tokens)
    assert tokens == whole
    assert whole == tokens
    assert tokens != whole[:2]
    assert (len(tokens), tokens[0], tokens[-1], tokens[1:], hash(tokens)) == (
        3,
        whole[0],
        whole[2],
        whole[1:],
        hash(whole),
    )
    with pytest.raises(IndexError):
        tokens[3]


VALUES = st.sampled_from(
    [-0.05, -0.1, -0.1, -0.5, -1.0, -1.0, -2.0, -4.5, -9.0, -20.0, 0.0, 1e-6, -9999.0, 3.0, -math.log(3)]
)
SORTED = st.lists(st.tuples(st.integers(0, 8), VALUES), max_size=6).map(
    lambda some: sorted(some, key=lambda one: -one[1])
)
LISTS = st.one_of(
    st.just([]),
    st.just(LISTED),
    SORTED,
    st.lists(st.tuples(st.integers(0, 8), VALUES), max_size=6),
    st.lists(
        st.tuples(st.integers(0, 8), st.floats(-30, -0.7)), min_size=3, max_size=8, unique_by=lambda one: one[0]
    ).map(lambda some: sorted(some, key=lambda one: -one[1])),
)
ROWS = st.lists(st.tuples(st.integers(0, 3), LISTS, st.one_of(st.none(), VALUES)), min_size=1, max_size=5)


def bodies(label):
    return st.builds(
        lambda rows, ids, finish: body(
            [row(name, listed, label=label, logprob=value) for name, listed, value in rows],
            token_ids=[name for name, _, _ in rows] if ids else None,
            finish_reason=finish,
        ),
        ROWS,
        st.booleans(),
        st.sampled_from(["stop", "length", None]),
    )


WAYS = st.sampled_from([True, False, "spelled"])


@st.composite
def pairs(draw):
    """Two replies, of the same tokens more often than not, with the values of one of them moved a little."""
    label = draw(WAYS)
    left = draw(bodies(label))
    if draw(st.booleans()):
        return left, draw(bodies(draw(st.one_of(st.just(label), WAYS))))
    value = orjson.loads(left)
    for one in value["choices"][0]["logprobs"]["content"]:
        for listed in (one, *one["top_logprobs"]):
            listed["logprob"] -= draw(st.sampled_from([0.0, 0.0, 1e-4, 0.25]))
        if draw(st.booleans()):
            one["top_logprobs"].reverse()
    return left, orjson.dumps(value)


@st.composite
def even(draw):
    """Two replies all of whose lists are of one length: of the same tokens in the same or in another order, of some others, with ties, with nearly all of the probability."""
    label, width = draw(WAYS), draw(st.integers(3, 5))
    values = st.lists(
        st.floats(-9.0, -0.7) | VALUES.filter(lambda one: one > -9000), min_size=width, max_size=width
    ).map(lambda some: sorted(some, reverse=True))
    names = st.permutations(range(width + draw(st.integers(0, 1)))).map(lambda some: some[:width])
    sides = []
    for _ in range(2):
        rows = [
            (order[0], list(zip(order, listed, strict=True)))
            for order, listed in draw(st.lists(st.tuples(names, values), min_size=2, max_size=5))
        ]
        sides.append(rows)
    if draw(st.booleans()):  # the same tokens were chosen, whatever the second's lists say of them
        sides[1] = [(mine[0], its[1]) for mine, its in zip(*sides, strict=False)] + sides[1][len(sides[0]) :]
    if draw(st.booleans()):  # the client asked for no alternatives
        sides[0] = [(name, [(name, listed[0][1])]) for name, listed in sides[0]]
    bare = [len(listed) == 1 for _, listed in sides[0]]
    left, right = ([row(name, listed, label=label) for name, listed in rows] for rows in sides)
    return body([one | {"top_logprobs": []} for one in left] if all(bare) else left), body(right)


@settings(max_examples=300)
@given(pairs() | even(), st.booleans(), st.booleans())
def test_the_short_way_says_what_the_long_way_says(both, comparable, echo):
    request = {"echo": echo}
    short, long = [short_way(one, request) for one in both], [long_way(one, request) for one in both]
    assert all(isinstance(choice.tokens, tuple) for one in long for choice in one.choices)
    found, expected = (compared(*both, comparable=comparable) for both in (short, long))
    assert without_bounds(found) == without_bounds(expected)
    assert bounds(found) == [None if one is None else pytest.approx(one, rel=0, abs=SUMMED) for one in bounds(expected)]
    assert align(short[0].choices[0], short[1].choices[0]) == align(long[0].choices[0], long[1].choices[0])
    assert short == long
    assert [one.choices[0].has_ids for one in short] == [one.choices[0].has_ids for one in long]


@pytest.mark.parametrize("label", [True, False, "spelled"])
def test_a_list_that_repeats_another_under_the_token_chosen_there_is_found(label):
    lists = (
        [(0, -1.0), (1, -2.0), (2, -2.0), (3, -2.0), (4, -2.0)],
        [(0, -1.0), (1, -1.0), (2, -2.0), (3, -2.0), (4, -2.0)],
    )
    rows = [row(chosen, listed, label=label) for chosen, listed in enumerate(lists)]
    left, right = body([one | {"top_logprobs": []} for one in rows]), body(rows)
    for read_ in (short_way, long_way):
        found = compared(read_(left), read_(right), comparable=True)
        assert found.findings == ("alternatives_incomplete",)
        assert found.evidence["alternatives_incomplete"] == {"shadow_repeated": 1, "positions": 2}


def bounds(comparison):
    """Of all positions; only these are summed in two ways."""
    return [one for choice in comparison.choices for one in (*choice.kl_lower_bounds, *choice.tv_lower_bounds)]


def without_bounds(comparison):
    bare = [replace(one, kl_lower_bounds=(), tv_lower_bounds=()) for one in comparison.choices]
    return replace(comparison, choices=tuple(bare))


def compared(left, right, *, comparable):
    tau = Tau(1e-3, TauOrigin.CONFIGURED)
    reason = None if comparable else "logprob_mode"
    return compare_free(left, right, source=Source.REPLY, tau=tau, greedy=True, values_incomparable=reason)


def test_ids_that_are_told_beside_the_rows_are_the_tokens_own():
    found = short_way(body([row(3, LISTED, label=False)], token_ids=[3])).choices[0]
    assert isinstance(found.tokens, Columns)
    assert found.tokens == (replace(found.tokens[0], id=3),)
    other = short_way(body([row(3, LISTED, label=True)], token_ids=[4])).choices[0]
    assert other.tokens == (Token("", id=4),)
