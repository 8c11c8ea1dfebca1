"""Blanks that decoding token by token loses: put back where the text shows them, and nothing guessed."""

import pytest

from engines.respell import relisted, respelled
from proxy.compare.row import read_row
from proxy.compare.token_stream import Alternative, Token, TokenStream


def token(text, logprob=-0.25, rivals=(), **own):
    listed = (
        Alternative(logprob, text=own.pop("listed", text)),
        *(Alternative(value, text=name) for name, value in rivals),
    )
    return Token(text=text, logprob=logprob, top=listed, data=text.encode(), **own)


def stream(text, *tokens, **more):
    return TokenStream(tokens=tokens, text=text, count=len(tokens), finish_reason="stop", **more)


def test_blanks_come_back_and_ambiguous_alternatives_lose_their_texts():
    given = stream("The sea is blue", *(token(text, rivals=[("x", -2.0)]) for text in ("The", "sea", "is", "blue")))
    seen = respelled(given)
    assert [row.text for row in seen.tokens] == ["The", " sea", " is", " blue"]
    assert [row.data for row in seen.tokens] == [b"The", b" sea", b" is", b" blue"]
    assert [(one.text, one.logprob) for one in seen.tokens[1].top] == [(" sea", -0.25), (None, -2.0)]


def test_special_tokens_and_pieces_of_words_stay():
    given = stream("Hi there you", token("Hi"), token("there"), token(" you"), token("</s>"))
    assert [row.text for row in respelled(given).tokens] == ["Hi", " there", " you", "</s>"]
    pieces = stream("undone", token("un"), token("done"))
    assert respelled(pieces) is pieces


@pytest.mark.parametrize(
    "given",
    [
        stream("a b", token("a"), token("c")),
        stream("a b c", token("a"), token("b")),  # the text goes on
        stream("a b", token("a"), token("b"), reasoning="hm"),
        stream("a", token("a")),
        stream("", token("")),
        stream("a b"),
    ],
)
def test_what_cannot_be_matched_is_left_as_it_is(given):
    assert respelled(given) is given


def test_a_list_that_was_decoded_alone_is_seen_by_the_chosen_token():
    row = token(" Paris", listed="Paris", rivals=[("London", -1.5), ("Paris", -3.0)])
    seen = relisted(stream(" Paris", row)).tokens[0]
    assert [(one.text, one.logprob) for one in seen.top] == [(" Paris", -0.25), (None, -1.5), (None, -3.0)]


def test_a_list_with_its_blanks_is_left_as_it_is():
    given = stream(" Paris", token(" Paris", rivals=[("Paris", -0.25)]))
    assert relisted(given) is given


def test_the_chosen_token_is_no_tie_with_itself():
    row = token(" Paris", listed="Paris", rivals=[("London", -1.5)])
    mended = relisted(stream(" Paris", row))
    assert read_row(mended.tokens[0]).gap == pytest.approx(1.25)
    assert not read_row(mended.tokens[0]).tied
