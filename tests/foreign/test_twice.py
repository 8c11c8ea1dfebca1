"""What is levelled before two runs of a client are compared, and what is not."""

from __future__ import annotations

from typing import Any

import pytest

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
