"""What a hook is shown of a record and what its answers leave: no text that it changed is left anywhere, no id of what it wants nothing kept of."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from proxy.compare.comparison import FlipClass, Mode
from proxy.compare.token_stream import Alternative
from proxy.ledger import redaction
from proxy.ledger.detail import ChoiceDetail, Detail, Listed, Partial, Sent, Side
from proxy.ledger.record import Content, Settlement

BODY = '{"messages":[{"content":"my card 4111"}]}'
OTHER = '{"messages":[{"content":"my card 4111"}],"logprobs":true}'


def side(*texts: str) -> Side:
    top = (Alternative(-0.1, 4242, " said", b" said"),)
    return Side(
        (-0.1,) * len(texts),
        tuple(range(4242, 4242 + len(texts))),
        texts,
        (Partial(0, b" said"),),
        (),
        (Listed(0, top),),
        len(texts),
    )


@pytest.fixture
def one(make) -> Settlement:
    comparison = make.free(FlipClass.EXACT_TIE)
    choice = comparison.choices[0]
    ties = tuple(replace(tie, ids=(4242, 4243)) for tie in choice.ties)
    comparison = replace(comparison, choices=(replace(choice, ids=(4242,) * 4, ties=ties),))
    record = make.record(1, comparison, content=Content(BODY, (" said this",), (" said that",)))
    detail = Detail(
        (ChoiceDetail(0, side(" said", " this"), side(" said", " that", "<call>")),),
        Sent("/p", OTHER),
        (Sent("/s", BODY),),
        (4242, 7),
    )
    return replace(make.compared(record), detail=detail)


def asked(one: Settlement) -> list[object]:
    return [value for _, value in redaction.texts(one)]


def test_each_thing_is_shown_once_as_it_was_read_and_as_its_tokens_spell_it(one) -> None:
    kinds = [kind for kind, _ in redaction.texts(one)]
    assert kinds == ["request"] * 2 + ["output"] * 3
    assert asked(one) == [json.loads(BODY), json.loads(OTHER), " said this", " said that", " said that<call>"]


def test_what_comes_back_as_it_was_changes_nothing(one) -> None:
    assert redaction.applied(one, asked(one)) == one


def test_a_changed_output_takes_every_tokens_text_with_it_and_leaves_ids(one) -> None:
    values = asked(one)
    values[4] = " said that [call]"
    left = redaction.applied(one, values)
    assert "said" not in repr(left.detail.choices)
    assert left.record.content == one.record.content
    (choice,) = left.detail.choices
    assert (choice.primary.texts, choice.primary.partial) == (None, ())
    assert choice.primary.ids == (4242, 4243)
    assert choice.primary.top(0) == (Alternative(-0.1, 4242),)
    assert left.record.comparison.choices[0].first.primary.text is None
    assert left.record.comparison.choices[0].first.primary.id == 11
    assert left.detail.redacted
    assert left.detail.prompt_ids == (4242, 7)


def test_an_output_of_which_nothing_is_to_be_kept_takes_the_ids_with_it(one) -> None:
    values = asked(one)
    values[2] = None
    left = redaction.applied(one, values)
    assert left.record.content == Content(BODY, ("",), (" said that",))
    assert "4242" not in repr(left)
    assert left.record.comparison.choices[0].ids == (None,) * 4
    assert left.record.comparison.choices[0].first.gap == 0.0
    assert left.record.comparison.choices[0].primary_logprobs == one.record.comparison.choices[0].primary_logprobs
    assert left.detail.choices[0].primary.logprobs == (-0.1, -0.1)


def test_a_changed_request_is_what_is_kept_and_its_ids_are_not(one) -> None:
    values = asked(one)
    values[:2] = [{"messages": []}, None]
    left = redaction.applied(one, values)
    assert left.record.content.request == '{"messages":[]}'
    assert (left.detail.primary, left.detail.shadow) == (None, (Sent("/s", '{"messages":[]}'),))
    assert left.detail.prompt_ids is None
    assert left.detail.redacted
    assert left.detail.choices == one.detail.choices


IDS = '{"input_ids":[4242,7,4242,4243]}'


def forced(one: Settlement) -> Settlement:
    """The shadow was sent the prompt and the primary's reply as ids."""
    comparison = replace(one.record.comparison, mode=Mode.FORCED)
    detail = replace(one.detail, shadow=(Sent("/generate", IDS),))
    return replace(one, record=replace(one.record, comparison=comparison), detail=detail)


@pytest.mark.parametrize("said", [None, {"messages": []}])
def test_a_prompt_as_ids_goes_with_the_request_that_was_changed(one, said: object) -> None:
    one = forced(one)
    values = asked(one)
    assert values[2] == json.loads(IDS)
    values[:2] = [said, said]
    left = redaction.applied(one, values)
    assert left.detail.shadow == ()
    assert left.detail.prompt_ids is None
    assert left.detail.primary == (None if said is None else Sent("/p", '{"messages":[]}'))


@pytest.mark.parametrize("said", [None, " said [this]"])
def test_a_reply_as_ids_in_what_was_scored_goes_with_the_reply_that_was_changed(one, said: str | None) -> None:
    one = forced(one)
    values = asked(one)
    values[3] = said
    left = redaction.applied(one, values)
    assert left.detail.shadow == ()
    assert left.detail.primary == Sent("/p", OTHER)
    assert left.record.content.request == BODY


def test_what_is_kept_as_hashes_holds_nothing_that_a_hook_could_look_at(make) -> None:
    hashes = Content("e3" * 32, ("1" * 64,), ("2" * 64,))
    one = make.compared(make.record(1, content=hashes))
    assert redaction.texts(one) == []
    assert redaction.texts(make.compared(make.record(1, content=replace(hashes, request="1" * 64)))) == []


def test_a_hook_that_fails_leaves_numbers_alone(one) -> None:
    left = redaction.applied(one, None)
    assert "4111" not in repr(left)
    assert "said" not in repr(left)
    assert "4242" not in repr(left)
    assert left.record.comparison.choices[0].first.kind is FlipClass.EXACT_TIE


def test_what_holds_no_text_is_not_asked_about(make) -> None:
    bare = make.compared(make.record(1, content=None))
    assert redaction.texts(bare) == []
    assert redaction.applied(Settlement("i", "s", "free", "shed", "queue"), None).record is None


@given(st.lists(st.booleans(), min_size=5, max_size=5))
def test_whatever_is_withheld_the_rest_can_be_stored(make, keep: list[bool]) -> None:
    record = make.record(1, make.free(FlipClass.GENUINE), content=Content(BODY, (" said this",), (" said that",)))
    detail = Detail(
        (ChoiceDetail(0, side(" said", " this"), side(" said", " that", "<call>")),),
        Sent("/p", OTHER),
        (Sent("/s", BODY),),
    )
    one = replace(make.compared(record), detail=detail)
    left = redaction.applied(one, [value if kept else None for kept, value in zip(keep, asked(one), strict=True)])
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(left), type=Settlement) == left
    assert (left == one) is all(keep)
