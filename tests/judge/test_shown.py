"""What is kept of a comparison to be shown: everything where it matters, bounded everywhere, no text where none may be kept."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from engines.dialect import Call, Scored
from proxy.compare.columns import Columns
from proxy.compare.compare_forced import compare_forced
from proxy.compare.compare_free import compare_free
from proxy.compare.comparison import Comparison, Mode, Source, TauOrigin
from proxy.compare.near_tie import Tau
from proxy.compare.token_stream import Alternative, Channel, Reply, Token, TokenStream
from proxy.judge import shown
from proxy.judge.shown import Seen
from proxy.ledger.bounds import TEXT
from proxy.ledger.detail import MOST_TOKENS, Partial, Run
from tests.compare.test_recorded import BF16, Q4_1, recorded

TAU = Tau(0.25, TauOrigin.ASSUMED)


def free(primary: Reply, shadow: Reply) -> Comparison:
    return compare_free(primary, shadow, source=Source.REPLY, tau=TAU, greedy=True)


def token(id_: int, text: str = "", **more) -> Token:
    text = text or f" w{id_}"
    top = (Alternative(-0.1, id_, text, text.encode()), Alternative(-1.1, id_ + 1, f" w{id_ + 1}", None))
    return Token(text, id_, text.encode(), -0.1, top, **more)


def reply(*tokens: Token) -> Reply:
    return Reply(
        (TokenStream(0, tokens, "".join(one.text for one in tokens), finish_reason="length", prompt_ids=(1, 2, 3)),)
    )


LONG = tuple(token(number) for number in range(1000))


@pytest.mark.parametrize("engine", [BF16, Q4_1])
@pytest.mark.parametrize("case", ["chat_logprobs", "chat_multibyte_logprobs", "chat_stream_logprobs"])
def test_tokens_in_columns_are_kept_as_those_made_one_by_one(engine: tuple[str, str], case: str) -> None:
    (choice,) = recorded(engine, case).choices
    for texts in (True, False):
        kept = shown.side(choice.tokens, range(len(choice.tokens)), texts=texts)
        assert kept == shown.side(tuple(choice.tokens), range(len(choice.tokens)), texts=texts)
        assert [one and list(one) for one in (kept.ids, kept.texts)] == [
            [token.id for token in choice.tokens] if choice.has_ids else None,
            [token.text for token in choice.tokens] if texts else None,
        ]
        assert kept.logprobs == tuple(token.logprob for token in choice.tokens)
        assert [len(kept.top(at)) for at in range(len(kept))] == [len(token.top) for token in choice.tokens]


def test_what_is_recorded_holds_columns_at_all() -> None:
    assert isinstance(recorded(BF16, "chat_logprobs").choices[0].tokens, Columns)


def test_parts_of_a_character_keep_their_bytes() -> None:
    halves = (
        token(1),
        replace(token(2), text="", data=b"\xc3"),
        replace(token(3), text="\ufffd", data=b"\xa9"),
        token(4, "é"),
    )
    assert shown.side(halves, (), texts=True).partial == (Partial(1, b"\xc3"), Partial(2, b"\xa9"))
    assert shown.side(halves, (), texts=False).partial == ()


def test_channels_are_kept_as_runs() -> None:
    mixed = (
        token(1, channel=Channel.REASONING),
        token(2, channel=Channel.REASONING),
        token(3),
        token(4, channel=Channel.TOOL),
    )
    kept = shown.side(mixed, (), texts=False)
    assert kept.channels == (Run(0, Channel.REASONING), Run(2, Channel.CONTENT), Run(3, Channel.TOOL))
    assert [kept.channel(at) for at in range(4)] == [one.channel for one in mixed]


def test_what_followed_the_difference_is_kept_of_both_and_so_is_what_was_sent() -> None:
    mine, its = reply(*LONG[:20]), reply(*LONG[:5], *LONG[30:50])
    seen = Seen(mine, its, again=Call("/v1/x", {"a": 1}), sent=((Call("/v1/y", {"b": "é"}),),))
    kept = shown.detail(free(mine, its), seen, "text")
    assert kept is not None
    (choice,) = kept.choices
    assert choice.primary.texts == tuple(one.text for one in LONG[:20])
    assert choice.shadow.ids == tuple(one.id for one in (*LONG[:5], *LONG[30:50]))
    assert [one.index for one in choice.shadow.listed] == list(range(25))
    assert choice.shadow.top(5) == LONG[30].top
    assert (kept.primary.path, json.loads(kept.primary.body)) == ("/v1/x", {"a": 1})
    assert [(one.path, one.body) for one in kept.shadow] == [("/v1/y", '{"b":"é"}')]
    assert kept.prompt_ids == (1, 2, 3)


@pytest.mark.parametrize("policy", ["hash", "none"])
def test_without_text_there_are_ids_and_values_and_nothing_that_says_anything(policy: str) -> None:
    mine, its = reply(*LONG[:20]), reply(*LONG[:5], *LONG[30:50])
    seen = Seen(mine, its, again=Call("/v1/x", {"a": " w7"}), sent=((Call("/v1/y", {"b": " w7"}),),))
    kept = shown.detail(free(mine, its), seen, policy)
    assert kept is not None
    assert kept.choices[0].primary.ids == tuple(range(20))
    assert kept.choices[0].shadow.top(5) == (Alternative(-0.1, 30), Alternative(-1.1, 31))
    assert (kept.primary, kept.shadow, kept.prompt_ids) == (None, (), None)
    assert " w" not in repr(kept)


def test_what_agrees_keeps_its_texts_alone() -> None:
    same = reply(*LONG[:20])
    assert shown.detail(free(same, same), Seen(same, same), "hash") is None
    kept = shown.detail(free(same, same), Seen(same, same, again=Call("/x", {})), "text")
    assert kept is not None
    assert kept.choices[0].primary.texts == tuple(one.text for one in LONG[:20])
    assert (kept.choices[0].primary.listed, kept.primary, kept.prompt_ids) == ((), None, None)


def test_of_a_long_reply_alternatives_are_kept_where_they_matter() -> None:
    mine, its = reply(*LONG), reply(*LONG[:600], *LONG[300:400])
    kept = shown.detail(free(mine, its), Seen(mine, its), "none")
    assert kept is not None
    primary = [one.index for one in kept.choices[0].primary.listed]
    assert set(primary) >= set(range(592, 633))
    assert len(primary) <= 41 + shown._WORST
    assert [one.index for one in kept.choices[0].shadow.listed] == primary


def test_a_very_long_reply_is_cut_and_says_so() -> None:
    endless = reply(*(token(number % 7) for number in range(MOST_TOKENS + 5)))
    kept = shown.detail(free(endless, reply(token(9))), Seen(endless, reply(token(9))), "text")
    assert kept is not None
    side = kept.choices[0].primary
    assert (len(side), side.total, side.cut) == (MOST_TOKENS, MOST_TOKENS + 5, True)


def test_a_token_of_a_megabyte_is_cut() -> None:
    loud = Token(
        "x" * (1 << 20), 1, b"\xff" * (1 << 20), -0.1, (Alternative(-0.1, 1, "y" * (1 << 20), b"y" * (1 << 20)),)
    )
    kept = shown.side((loud,), (0,), texts=True)
    assert (len(kept.texts[0]), len(kept.partial[0].data)) == (TEXT, TEXT)
    assert (len(kept.top(0)[0].text), len(kept.top(0)[0].data)) == (TEXT, TEXT)


def forced(primary: Reply, rows: tuple[Scored, ...]) -> Comparison:
    return compare_forced(
        primary, [tuple((row.index, row.token) for row in rows)], source=Source.REPLY, tau=TAU, greedy=True
    )


def test_a_shadow_that_scored_some_positions_has_the_primarys_tokens_and_its_own_values() -> None:
    mine = reply(*LONG[:6])
    other = (Alternative(-0.05, 77, " other", None), Alternative(-3.0, 4, " w4", None))
    rows = (Scored(0, LONG[0]), Scored(4, replace(LONG[4], logprob=-3.0, top=other)))
    comparison = forced(mine, rows)
    calls = tuple(Call("/completion", {"prompt": [9, 9, *range(index)]}) for index in (4, 0))
    kept = shown.detail(comparison, Seen(mine, scored=(rows,), again=Call("/v1/x", {}), sent=(calls,)), "text")
    assert kept is not None
    shadow = kept.choices[0].shadow
    assert shadow.ids == tuple(range(6))
    assert shadow.logprobs == (-0.1, None, None, None, -3.0, None)
    assert shadow.top(4) == other
    assert [json.loads(one.body)["prompt"] for one in kept.shadow] == [[9, 9, 0, 1, 2, 3]]
    assert comparison.mode is Mode.FORCED


def test_one_call_that_scored_everything_is_the_one_to_repeat() -> None:
    mine = reply(*LONG[:6])
    rows = tuple(
        Scored(at, replace(one, top=(Alternative(-0.01, 77, "x", None), *one.top))) for at, one in enumerate(LONG[:6])
    )
    call = Call("/v1/completions", {"prompt": [1]})
    kept = shown.detail(forced(mine, rows), Seen(mine, scored=(rows,), sent=((call,),)), "text")
    assert kept is not None
    assert len(kept.shadow) == 1


def test_a_reply_that_never_came_leaves_what_was_asked() -> None:
    failed = Comparison(mode=Mode.FREE, incomparable="shadow_error", findings=("transport_errors",))
    seen = Seen(sent=((Call("/v1/y", {"b": 1}),),))
    assert shown.detail(failed, seen, "hash") is None
    kept = shown.detail(failed, seen, "text")
    assert kept is not None
    assert (kept.choices, [one.body for one in kept.shadow]) == ((), ['{"b":1}'])
