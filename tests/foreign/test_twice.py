"""What is levelled before two runs of a client are compared, and what is not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.foreign.joined import joined
from tests.foreign.twice import same, steady


def chunk(number: str, text: str = "a", created: int = 1) -> dict[str, Any]:
    return {"id": f"chatcmpl-{number}", "created": created, "choices": [{"delta": {"content": text}, "logprob": -0.5}]}


def test_ids_and_times_of_a_call_are_levelled() -> None:
    one, other = [chunk("a1"), chunk("a1")], [chunk("b7", created=9), chunk("b7", created=9)]
    assert same(steady(one), steady(other), 0)


@pytest.mark.parametrize(
    "other",
    [
        [chunk("b7"), chunk("b8")],  # the chunks of a stream share one id
        [chunk("b7"), chunk("b7", text="b")],
        [chunk("b7")],
        [chunk("b7"), {"created": 1, "id": "chatcmpl-b7", "choices": []}],
        [chunk("b7"), dict(reversed(chunk("b7").items()))],  # the order of fields
        [chunk("b7"), chunk("b7") | {"usage": None}],
    ],
)
def test_all_else_is_compared(other: list[Any]) -> None:
    assert not same(steady([chunk("a1"), chunk("a1")]), steady(other), 1e-4)


@pytest.mark.parametrize(
    ("number", "within", "equal"), [(-0.50001, 0, False), (-0.50001, 1e-4, True), (-0.6, 1e-4, False)]
)
def test_numbers_may_differ_only_as_far_as_said(number: float, within: float, equal: bool) -> None:
    assert same([{"logprob": -0.5}], [{"logprob": number}], within) is equal


@pytest.mark.parametrize(("one", "other"), [(1, 1.0), (True, 1), (None, 0), ("1", 1)])
def test_kinds_are_not_mixed(one: object, other: object) -> None:
    assert not same(one, other, 1.0)


def test_what_names_a_model_or_a_token_is_no_id_of_a_call() -> None:
    value = {"id": "smollm2-135m", "logprobs": {"content": [{"id": 7042}]}, "function": {"name": "call_me"}}
    assert steady(value) == value


def event(*words: str, end: str | None = None) -> dict[str, Any]:
    rows = [{"token": word, "logprob": -1.0, "top_logprobs": [{"token": word}]} for word in words]
    choice = {"index": 0, "delta": {"content": "".join(words)}, "logprobs": {"content": rows}, "finish_reason": end}
    return {"id": "x", "object": "chat.completion.chunk", "choices": [choice]}


def test_however_an_engine_cuts_its_stream_what_it_says_is_the_same() -> None:
    one = {"stream": [event("a"), event("b"), event("c", end="length")]}
    assert joined(one) == joined({"stream": [event("a", "b"), event("c", end="length")]})
    (whole,) = joined(one)["stream"]
    assert whole["choices"][0]["delta"]["content"] == "abc"
    assert [row["token"] for row in whole["choices"][0]["logprobs"]["content"]] == ["a", "b", "c"]


@pytest.mark.parametrize(
    "other",
    [
        [event("a", "c"), event("b", end="length")],  # another order
        [event("a", "b"), event("c", end="stop")],
        [event("a", "b", end="length")],
        [event("a", "b"), event("c", end="length"), {"object": "chat.completion.chunk", "choices": [], "usage": {}}],
    ],
)
def test_joined_streams_that_say_something_else_differ(other: list[Any]) -> None:
    assert joined([event("a"), event("b"), event("c", end="length")]) != joined(other)


def test_pieces_of_a_response_are_joined_and_its_other_events_kept() -> None:
    def delta(text: str, number: int) -> dict[str, Any]:
        return {"type": "response.output_text.delta", "sequence_number": number, "delta": text, "logprobs": [text]}

    first, last = (
        {"type": "response.created", "sequence_number": 0, "response": {"id": "x"}},
        {"type": "response.completed", "sequence_number": 9, "response": {"id": "x"}},
    )
    one = joined([first, delta("a", 1), delta("b", 2), last])
    assert one == joined([first, delta("ab", 1) | {"logprobs": ["a", "b"]}, last | {"sequence_number": 2}])
    assert one != joined([first, delta("ab", 1), last])
    assert len(one) == 3
