"""What a text that should be JSON is worth."""

from __future__ import annotations

import pytest

from proxy.compare.comparison import Validity
from proxy.compare.json_validity import Expected, call_validity, calls_validity, reply_validity, validity
from proxy.compare.token_stream import ToolCall

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


@pytest.mark.parametrize(
    ("text", "schema", "found"),
    [
        ('{"city": "Paris"}', CITY, Validity.VALID),
        (' {"city": "Paris"}\n', CITY, Validity.VALID),
        ('{"city": 5}', CITY, Validity.AGAINST_SCHEMA),
        ("[1]", None, Validity.VALID),
        ('{"city": "Paris"}', {"$ref": "http://127.0.0.1:9/"}, Validity.UNJUDGED),
        ('```json\n{"city": "Paris"}\n```', CITY, Validity.NOT_JSON),
        ('{"city": "Paris"', CITY, Validity.NOT_JSON),
        ('{"x": NaN}', None, Validity.NOT_JSON),
        ("", None, Validity.NOT_JSON),
        ("[" * 100_000, None, Validity.NOT_JSON),
        ("\ud800", None, Validity.NOT_JSON),
    ],
)
def test_texts(text, schema, found):
    assert validity(text, schema) is found


def test_json_mode_promises_an_object():
    assert reply_validity('{"a": 1}', Expected(json=True)) is Validity.VALID
    assert reply_validity("[1]", Expected(json=True)) is Validity.AGAINST_SCHEMA
    assert reply_validity("[1]", Expected(json=True, schema={"type": "array"})) is Validity.VALID


@pytest.mark.parametrize(
    ("name", "arguments", "found"),
    [
        ("weather", '{"city": "Paris"}', Validity.VALID),
        ("weather", "{}", Validity.AGAINST_SCHEMA),
        ("weather", "", Validity.AGAINST_SCHEMA),
        ("time", "", Validity.VALID),
        ("time", "[]", Validity.AGAINST_SCHEMA),
        ("weather", '{"city": ', Validity.NOT_JSON),
        ("wether", '{"city": "Paris"}', Validity.UNKNOWN_TOOL),
    ],
)
def test_calls(name, arguments, found):
    assert call_validity(ToolCall(name, arguments), Expected({"weather": CITY, "time": None})) is found


def test_the_calls_of_a_reply_share_what_one_may_cost():
    call, expected = ToolCall("weather", '{"city": "Paris"}'), Expected({"weather": CITY})
    assert calls_validity((call,) * 20, expected) == (Validity.VALID,) * 20
    assert set(calls_validity((call,) * 5_000, expected)) == {Validity.UNJUDGED}
    assert calls_validity((), expected) == ()
