"""Structure of both arms: tools, JSON, reasoning, refusals; and what many of them sum up to."""

from __future__ import annotations

import pytest

from proxy.compare.compare_free import compare_free
from proxy.compare.comparison import OutputShape, Source, Validity
from proxy.compare.json_validity import Expected
from proxy.compare.output_shape import with_shapes
from proxy.compare.summary import summarise_free
from proxy.compare.summary_outputs import f1
from proxy.compare.token_stream import Reply, TokenStream, ToolCall

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
PLAIN = Expected()
TOOLS = Expected({"weather": CITY})
JSON = Expected(json=True, schema=CITY)
PARIS = ToolCall("weather", '{"city": "Paris"}')


def said(text="", *calls, **more):
    more.setdefault("finish_reason", "tool_calls" if calls else "stop")
    return Reply(choices=(TokenStream(text=text, tool_calls=calls, **more),))


@pytest.fixture
def compared(tau):
    def compared(primary, shadow, expected=PLAIN):
        comparison = compare_free(primary, shadow, source=Source.TEXT, tau=tau, greedy=True)
        return with_shapes(comparison, primary, shadow, expected)

    return compared


def test_plain_text_has_no_shape(compared):
    assert compared(said("Hello"), said("Hello")).choices[0].shapes is None


def test_arguments_of_another_order_are_the_same_call(compared):
    left, right = (
        ToolCall("weather", '{"city": "Paris", "unit": "C"}'),
        ToolCall("weather", '{"unit":"C","city":"Paris"}'),
    )
    comparison = compared(said("", left), said("", right), TOOLS)
    assert (comparison.outcome, comparison.findings) == ("identical", ())
    assert [one.calls for one in comparison.choices[0].shapes] == [(Validity.VALID,), (Validity.VALID,)]


def test_broken_arguments_are_found_under_their_name(compared):
    comparison = compared(said("", PARIS), said("", ToolCall("weather", '{"city": "Par')), TOOLS)
    assert (comparison.outcome, comparison.findings) == ("diverged", ("tool_call_arguments",))
    assert comparison.choices[0].shapes[1].calls == (Validity.NOT_JSON,)


def test_json_that_only_one_arm_keeps_to(compared):
    comparison = compared(said('{"city": "Paris"}'), said("It is Paris."), JSON)
    assert comparison.findings == ("json_structure",)
    assert [one.json for one in comparison.choices[0].shapes] == [Validity.VALID, Validity.NOT_JSON]
    same = compared(said('{"city": 1}'), said('{"city": 2}'), JSON)
    assert same.findings == ()
    assert [one.json for one in same.choices[0].shapes] == [Validity.AGAINST_SCHEMA] * 2


def test_what_was_cut_is_not_judged(compared):
    comparison = compared(said('{"city": "Pa', finish_reason="length"), said('{"city": "Paris"}'), JSON)
    assert [one.json for one in comparison.choices[0].shapes] == [None, Validity.VALID]
    assert "json_structure" not in comparison.findings


def test_a_call_or_a_refusal_stands_in_for_json(compared):
    both = Expected({"weather": CITY}, json=True)
    shapes = compared(said("", PARIS), said("No.", refused=True), both).choices[0].shapes
    assert [one.json for one in shapes] == [None, None]
    assert shapes == (OutputShape(0, 0, calls=(Validity.VALID,)), OutputShape(3, 0, refused=True, calls=()))


def test_reasoning_that_moved_to_the_content_is_a_split_channel(compared):
    comparison = compared(said("Hm. Yes", reasoning=""), said("Yes", reasoning="Hm. "))
    assert (comparison.outcome, comparison.findings) == ("identical", ("channel_split",))
    assert [(one.text, one.reasoning) for one in comparison.choices[0].shapes] == [(7, 0), (3, 4)]


def test_sums_over_many(compared):
    made = [
        compared(said("", PARIS), said("", PARIS), TOOLS),
        compared(said("", PARIS), said("", PARIS), TOOLS),
        compared(said("", PARIS), said("It is warm."), TOOLS),
        compared(said("Yes."), said("", ToolCall("weather", "{}")), TOOLS),
        compared(said("Yes."), said("Yes."), TOOLS),
        compared(said("", PARIS), said("cut", finish_reason="length"), TOOLS),
        compared(said('{"city": "Paris"}'), said("{}"), JSON),
        compared(said("ab", reasoning="1234"), said("ab", reasoning="12")),
        compared(said("No.", refused=True), said("No.")),
    ]
    free = summarise_free(made)
    assert free["tools"] == {
        "offered": 5,
        "called": {"both": 2, "primary": 1, "shadow": 1, "neither": 1},
        "calls": {"primary": {"valid": 4}, "shadow": {"valid": 2, "against_schema": 1}},
        "trigger_f1": pytest.approx(2 / 3),
    }
    assert free["json"] == {"asked": 1, "primary": {"valid": 1}, "shadow": {"against_schema": 1}, "differ": 1}
    assert free["reasoning"]["length_ratio"]["median"] == 0.5
    assert free["reasoning"]["share_of_text"] == {"primary": pytest.approx(4 / 6), "shadow": pytest.approx(0.5)}
    assert (free["reasoning"]["choices"], free["reasoning"]["both"]) == (1, 1)
    assert free["refusals"] == {"both": 0, "primary": 1, "shadow": 0}
    assert not {"embeddings", "rerank", "score"} & free.keys()


def test_f1_is_unknown_where_nobody_called():
    assert f1(0, 0, 0) is None
    assert f1(3, 0, 0) == 1.0
    assert f1(0, 2, 1) == 0.0
