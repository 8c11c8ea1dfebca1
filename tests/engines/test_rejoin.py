"""Merged rows put back to one per token: every way the server is known to write them, and no guessing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.rejoin import alone, own_bytes, rejoin, spelled
from proxy.compare.token_stream import Alternative, Token

PIECES = {1: b"Hi", 2: b" ", 3: b"\xf0\x9f", 4: b"\x8e", 5: b"\x89", 6: b"", 7: b"a", 8: b"\xe6\x97", 9: b"\xa5"}


def row(known, data=None, *, text=None, listed=True):
    piece = PIECES[known]
    data = piece if data is None else data
    top = (Alternative(-0.1, id=known, text="", data=piece or None),) if listed else ()
    return Token(data.decode() if text is None else text, id=known, data=data or None, logprob=-0.1, top=top)


PARTY = "🎉".encode()


def test_a_merged_row_is_told_apart_and_its_value_belongs_to_the_last_part():
    tokens = rejoin((row(1), row(5, PARTY), row(7)), (1, 3, 4, 5, 7))
    assert [token.id for token in tokens] == [1, 3, 4, 5, 7]
    assert [token.logprob for token in tokens] == [-0.1, None, None, -0.1, -0.1]
    assert [token.top for token in tokens[1:3]] == [(), ()]
    assert (tokens[3].data, tokens[3].text) == (b"\x89", "🎉")


def test_tokens_without_a_row_at_the_end_stay_without_value():
    tokens = rejoin((row(1),), (1, 3, 4))
    assert [(token.id, token.logprob) for token in tokens] == [(1, -0.1), (3, None), (4, None)]


def test_nothing_but_held_back_tokens():
    assert [token.id for token in rejoin((), (3, 4))] == [3, 4]
    assert rejoin((), ()) == ()


def test_a_special_token_is_one_token():
    tokens = rejoin((row(1), row(6, b"")), (1, 6))
    assert [(token.id, token.text) for token in tokens] == [(1, "Hi"), (6, "")]


def test_texts_held_back_for_a_stop_string_are_put_where_they_belong():
    # "Hi" might have begun a stop string, so its text came with the next row.
    held, flushed = row(1, b"", text=""), row(7, b"Hia")
    tokens = rejoin((held, flushed), (1, 7))
    assert [(token.id, token.text, token.data) for token in tokens] == [(1, "Hi", b"Hi"), (7, "a", b"a")]


def test_repeated_ids_are_matched_where_only_one_way_fits():
    tokens = rejoin((row(7), row(7), row(5, PARTY), row(7)), (7, 7, 3, 4, 5, 7))
    assert [token.logprob is not None for token in tokens] == [True, True, False, False, True, True]


@pytest.mark.parametrize("ids", [(), (7,), (1, 5), (3, 4, 5), (1, 1)])
def test_rows_that_do_not_fit_are_refused(ids):
    assert rejoin((row(1), row(5, PARTY)), ids) is None


def test_more_than_one_way_is_refused():
    # The row's bytes are not known to be one token's, and its id comes twice.
    assert rejoin((row(9, "日".encode(), listed=False), row(7)), (8, 9, 9, 7)) is not None
    assert rejoin((row(9, "日".encode(), listed=False),), (8, 9, 9)) is None


def test_alone():
    known = own_bytes((row(1), row(5, PARTY)))
    assert alone(row(1), known) is True
    assert alone(row(5, PARTY), known) is False
    assert alone(row(7, listed=False), {}) is True  # ASCII is never held back for being incomplete
    assert alone(row(5, PARTY, listed=False), {}) is None


def test_a_row_whose_id_is_not_listed_keeps_what_it_has():
    unknown = row(7, listed=False)
    assert spelled(unknown, {}) is unknown


@given(st.lists(st.sampled_from(["Hi", " ", "a", "🎉", "日", ""]), max_size=12), st.integers(0, 3))
def test_whatever_the_server_merges_is_found_again(characters, cut):
    spelling = {"Hi": (1,), " ": (2,), "a": (7,), "🎉": (3, 4, 5), "日": (8, 9), "": (6,)}
    ids = [known for character in characters for known in spelling[character]]
    rows = tuple(row(spelling[character][-1], character.encode()) for character in characters)
    held = (3, 4)[:cut]
    tokens = rejoin(rows, (*ids, *held))
    assert [token.id for token in tokens] == [*ids, *held]
    last = {sum(len(spelling[one]) for one in characters[: at + 1]) - 1 for at in range(len(characters))}
    assert {at for at, token in enumerate(tokens) if token.logprob is not None} == last
