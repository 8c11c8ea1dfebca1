"""Rows of every shape to tokens: sentinels are no measurements, labels are ids, lists are sorted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines import rows
from engines.rows import (
    ROW_CHANNEL,
    ROW_TEXT,
    chat_row,
    chat_rows,
    ids_of,
    in_order,
    labelled,
    legacy_rows,
    literal,
    number,
    prompt_row,
    whole,
)
from proxy.compare.token_stream import Alternative, Channel, Token


@pytest.mark.parametrize("said", ["reasoning", 5, ["x"], None])
def test_no_field_of_a_row_is_taken_for_what_the_event_knew(said):
    row = {"token": "token_id:7", "logprob": -1.0, ROW_CHANNEL: said, ROW_TEXT: said}
    assert chat_row(row) == Token("", id=7, logprob=-1.0)
    known = row | {ROW_CHANNEL: Channel.REASONING, ROW_TEXT: ("a",)}
    assert chat_row(known) == Token("a", id=7, logprob=-1.0, channel=Channel.REASONING)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        "x",
        -9999.0,
        -9999,
        -9999.5,
        -65504.0,
        -1e9,
        -3.4028234663852886e38,
        -3e38,
        float("nan"),
        float("inf"),
        float("-inf"),
        10**400,
        500.5,
        1e300,
        10**20,
    ],
)
def test_sentinels_and_non_numbers_are_none(value):
    assert number(value) is None


@pytest.mark.parametrize("value", [0, -0.5, -9998.0, 1.2e-6, 3.25, 99.5])
def test_numbers_pass(value):
    assert number(value) == value


@pytest.mark.parametrize(
    ("value", "found"), [(0, 0), (7, 7), (-1, None), (True, None), (1.0, None), (2**63, None), ("1", None)]
)
def test_counts_and_ids_are_non_negative_integers(value, found):
    assert whole(value) == found


def test_a_list_of_ids_is_that_entirely_or_not_at_all():
    assert ids_of([1, 2]) == (1, 2)
    assert ids_of([]) == ()
    assert ids_of([1, None]) is None
    assert ids_of("12") is None


@pytest.mark.parametrize(
    ("text", "found"),
    [("token_id:504", 504), ("token_id:", None), ("token_id:-1", None), ("x", None), ("token_id:\u0663", None)],
)
def test_labels(text, found):
    assert labelled(text) == found


def test_written_bytes():
    assert literal("bytes:\\xf0\\x9f") == b"\xf0\x9f"
    assert literal("bytes:") is None
    assert literal("bytes:\\xf") is None
    (row,) = chat_rows([{"token": "bytes:\\x20\\xf0", "logprob": -1.0, "bytes": [0x20, 0xF0]}])
    assert (row.text, row.data) == ("", b"\x20\xf0")
    (row,) = legacy_rows({"tokens": ["bytes:\\xf0"], "top_logprobs": [{"bytes:\\xf0": -0.5, "a": -1.0}]})
    assert (row.text, row.data) == ("", b"\xf0")
    assert row.top == (Alternative(-0.5, text="", data=b"\xf0"), Alternative(-1.0, text="a"))


def test_lists_are_sorted_by_value_then_id_then_text():
    a, b, c = Alternative(-1.0, id=9), Alternative(-1.0, id=3), Alternative(-0.5, id=50)
    assert in_order([a, b, c]) == (c, b, a)
    x, y = Alternative(-1.0, text="x"), Alternative(-1.0, text="a")
    assert in_order([x, y]) == (y, x)


def test_chat_row_with_bytes_and_a_sentinel_among_the_alternatives():
    row = {
        "token": "é",
        "logprob": -0.5,
        "bytes": [195, 169],
        "top_logprobs": [
            {"token": "b", "logprob": -9999.0, "bytes": [98]},
            {"token": "é", "logprob": -0.5, "bytes": [195, 169]},
        ],
    }
    assert chat_rows([row]) == (
        Token("é", data="é".encode(), logprob=-0.5, top=(Alternative(-0.5, text="é", data="é".encode()),)),
    )


def test_the_decoders_replacement_character_is_not_the_tokens_bytes():
    row = {"token": "\ufffd", "logprob": -1.0, "bytes": [239, 191, 189]}
    assert chat_rows([row])[0].data is None
    assert chat_rows([row], raw_bytes=True)[0].data == b"\xef\xbf\xbd"


def test_an_empty_text_without_bytes_has_no_bytes():
    assert chat_rows([{"token": "", "logprob": -1.0, "bytes": []}]) == (Token("", logprob=-1.0),)


def test_labels_with_bytes_of_the_token_and_of_the_label():
    label = list(b"token_id:788")
    row = {
        "token": "token_id:33",
        "logprob": -1.0,
        "bytes": [49],
        "top_logprobs": [
            {"token": "token_id:33", "logprob": -1.0, "bytes": list(b"token_id:33")},
            {"token": "token_id:788", "logprob": -1.0, "bytes": label},
        ],
    }
    (token,) = chat_rows([row])
    assert (token.id, token.text, token.data) == (33, "1", b"1")
    assert token.top == (Alternative(-1.0, id=33, text="1", data=b"1"), Alternative(-1.0, id=788))


def test_a_labels_bytes_may_be_a_part_of_a_character():
    (token,) = chat_rows([{"token": "token_id:227", "logprob": -1.0, "bytes": [0x89]}], raw_bytes=True)
    assert (token.id, token.text, token.data) == (227, "", b"\x89")


def test_legacy_arrays_with_nulls_and_missing_columns():
    tokens = legacy_rows(
        {"tokens": ["a", "b"], "token_logprobs": [None, -0.25], "top_logprobs": [None, {"b": -0.25, "c": -2}]}
    )
    assert tokens == (
        Token("a"),
        Token("b", logprob=-0.25, top=(Alternative(-0.25, text="b"), Alternative(-2.0, text="c"))),
    )
    assert legacy_rows({"tokens": ["a"], "token_ids": [7]}) == (Token("a", id=7),)
    assert legacy_rows({"tokens": None}) == ()


def test_a_chosen_token_that_lost_its_place_to_another_of_its_text_is_listed():
    (token,) = legacy_rows({"tokens": [""], "token_logprobs": [-1.25], "top_logprobs": [{"": -5.5, "a": -2.0}]})
    assert token.top == (Alternative(-1.25, text=""), Alternative(-2.0, text="a"), Alternative(-5.5, text=""))


def test_prompt_rows_are_keyed_by_id():
    row = {
        "4649": {"logprob": -2.5, "rank": 2, "decoded_token": " France"},
        "260": {"logprob": -2.25, "rank": 1, "decoded_token": " the"},
        "x": {"logprob": -1.0},
    }
    assert prompt_row(row, 4649) == Token(
        " France", id=4649, logprob=-2.5, top=(Alternative(-2.25, 260, " the"), Alternative(-2.5, 4649, " France"))
    )
    assert prompt_row(row, 5) is None
    assert prompt_row(None, 5) is None


@given(st.lists(st.floats(-5, 0), max_size=6))
def test_sorting_keeps_every_alternative(values):
    alternatives = [Alternative(value, id=at) for at, value in enumerate(values)]
    assert sorted(one.id for one in in_order(alternatives)) == list(range(len(values)))


def test_a_row_with_an_impossible_value_keeps_everything_else():
    listed = [{"token": "a", "logprob": 1e300}, {"token": "b", "logprob": -0.25}]
    [token] = chat_rows([{"token": "a", "id": 3, "logprob": 1e300, "bytes": [97], "top_logprobs": listed}])
    assert (token.text, token.id, token.data, token.logprob) == ("a", 3, b"a", None)
    assert [(one.text, one.logprob) for one in token.top] == [("b", -0.25)]
    [token] = legacy_rows({"tokens": ["a"], "token_logprobs": [1e300], "top_logprobs": [{"a": 1e300, "b": -0.25}]})
    assert (token.text, token.logprob, [one.text for one in token.top]) == ("a", None, ["b"])


_TOKENS = st.sampled_from(
    ["a", "", "token_id:7", "token_id:8", "token_id:007", "token_id:x", "bytes:\\xf0\\x9f", "\ufffd"]
)
_ENTRIES = st.fixed_dictionaries(
    {},
    optional={
        "token": st.one_of(_TOKENS, st.just(3)),
        "logprob": st.sampled_from([-0.5, 0, True, None, -9999.0, 1e9, float("nan"), float("-inf"), 10**400]),
        "bytes": st.one_of(st.none(), st.just([]), st.just("x"), _TOKENS.map(lambda text: list(text.encode())), st.just([999])),
        "id": st.sampled_from([None, 7, 8, -1, True]),
    },
)  # fmt: skip


@given(st.lists(st.one_of(_ENTRIES, st.none()), max_size=4), _ENTRIES, st.booleans())
def test_a_list_is_read_entry_by_entry_as_each_shape_means(listed, row, raw_bytes):
    """The loop that recognises common shapes in line says what the functions for each shape say."""
    known, text, data = rows._spelling(row, raw_bytes=raw_bytes)
    expected = []
    for entry in listed:
        logprob = rows.number(entry.get("logprob")) if isinstance(entry, dict) else None
        if logprob is None:
            continue
        its_id, its_text, its_data = rows._spelling(entry, raw_bytes=raw_bytes)
        token = entry.get("token")
        labelled = isinstance(token, str) and rows.labelled(token) is not None
        nameless = labelled and (not raw_bytes or its_data is None)  # other engines' bytes of a label are the label's
        if nameless:
            its_text, its_data = (text, data) if its_id == known else (None, None)
        expected.append(Alternative(logprob, its_id, its_text, its_data))
    assert rows._alternatives(listed, (known, text, data), raw_bytes=raw_bytes) == expected
