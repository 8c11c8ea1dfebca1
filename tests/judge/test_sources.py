"""The ways to the primary's tokens: each taken only when its proof holds."""

from __future__ import annotations

from msgspec.structs import replace

from proxy.compare.comparison import Source
from proxy.compare.token_stream import Alternative, Reply, Token, TokenStream, ToolCall
from proxy.judge import sources

ROWS = (
    Token(
        "Hi", id=5, data=b"Hi", logprob=-0.1, top=(Alternative(-0.1, 5, "Hi", b"Hi"), Alternative(-2.0, 6, "Ho", b"Ho"))
    ),
    Token("!", id=7, data=b"!", logprob=-0.2),
)
FULL = Reply((TokenStream(tokens=ROWS, text="Hi!", finish_reason="stop"),), prompt_tokens=3)
SILENT = Reply((TokenStream(text="Hi!", finish_reason="stop"),), prompt_tokens=4)


def test_own_tokens_come_first_and_injected_ones_say_so() -> None:
    assert sources.own(FULL, injected=False) == sources.Tokens(FULL, Source.REPLY)
    assert sources.own(FULL, injected=True) == sources.Tokens(FULL, Source.INJECT)


def test_a_silent_reply_has_none() -> None:
    assert sources.own(SILENT, injected=False) is None


def test_rows_that_are_not_one_per_token_are_not_readable() -> None:
    merged = Reply((replace(FULL.choices[0], rows_missing=True),))
    assert sources.own(merged, injected=False) is None


def test_one_silent_choice_of_two_makes_the_reply_unreadable() -> None:
    assert sources.own(Reply((FULL.choices[0], SILENT.choices[0])), injected=False) is None


def test_a_twin_lends_its_tokens_only_with_the_same_text_and_end() -> None:
    lent = sources.by_twin(SILENT, FULL, Source.BY_CONTROL)
    assert lent is not None
    assert lent.source is Source.BY_CONTROL
    assert lent.reply.choices == FULL.choices
    assert lent.reply.prompt_tokens == 4  # the primary's own figure
    for other in (
        replace(SILENT.choices[0], text="Hi?"),
        replace(SILENT.choices[0], finish_reason="length"),
        replace(SILENT.choices[0], reasoning="hm"),
        replace(SILENT.choices[0], tool_calls=(ToolCall("f", "{}"),)),
    ):
        assert sources.by_twin(Reply((other,)), FULL, Source.BY_CONTROL) is None
    assert sources.by_twin(SILENT, None, Source.RESCORE) is None
    assert sources.by_twin(SILENT, replace(FULL, error="cut"), Source.RESCORE) is None


def test_ids_are_lent_and_values_are_not() -> None:
    mine = tuple(
        replace(row, id=None, logprob=row.logprob - 1, top=tuple(replace(one, id=None) for one in row.top))
        for row in ROWS
    )  # type: ignore[operator]
    tokens = sources.Tokens(Reply((replace(FULL.choices[0], tokens=mine),)), Source.REPLY)
    named = sources.with_ids(tokens, FULL).reply.choices[0]
    assert [row.id for row in named.tokens] == [5, 7]
    assert [row.logprob for row in named.tokens] == [row.logprob for row in mine]
    assert [one.id for one in named.tokens[0].top] == [5, 6]


def test_ids_are_not_lent_to_other_bytes() -> None:
    mine = (replace(ROWS[0], id=None, data=b"hi"), replace(ROWS[1], id=None))
    tokens = sources.Tokens(Reply((replace(FULL.choices[0], tokens=mine),)), Source.REPLY)
    assert sources.with_ids(tokens, FULL) == tokens


def test_an_alternative_listed_twice_stays_without_id() -> None:
    twice = (Alternative(-1.0, 8, "a", None), Alternative(-1.5, 9, "a", None))
    twin = Reply((TokenStream(tokens=(replace(ROWS[1], top=twice),)),))
    mine = (replace(ROWS[1], id=None, top=(Alternative(-1.0, None, "a", None),)),)
    named = sources.with_ids(sources.Tokens(Reply((TokenStream(tokens=mine),)), Source.REPLY), twin)
    assert named.reply.choices[0].tokens[0].top[0].id is None
