"""A client's schema: what fits, what does not, and what is not to be found out in time. Every hostile one ends soon and fetches nothing."""

from __future__ import annotations

import socket
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.compare.json_schema import LARGEST, fits

WEATHER = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "minLength": 1},
        "unit": {"enum": ["C", "F"]},
        "days": {"$ref": "#/$defs/days"},
    },
    "required": ["city"],
    "additionalProperties": False,
    "$defs": {"days": {"type": "array", "items": {"type": "integer", "minimum": 0}, "uniqueItems": True}},
}


@pytest.mark.parametrize(
    ("value", "verdict"),
    [
        ({"city": "Paris"}, True),
        ({"city": "Paris", "unit": "C", "days": [1, 2]}, True),
        ({"unit": "C"}, False),
        ({"city": ""}, False),
        ({"city": "Paris", "unit": "K"}, False),
        ({"city": "Paris", "days": [1, -2]}, False),
        ({"city": "Paris", "days": [1, 1]}, False),
        ({"city": "Paris", "more": 1}, False),
        ([], False),
    ],
)
def test_an_ordinary_schema(value, verdict):
    assert fits(value, 100, WEATHER) is verdict


@pytest.mark.parametrize("draft", ["draft/2020-12/schema", "draft/2019-09/schema"])
def test_drafts_that_are_known(draft):
    assert fits(1, 1, {"$schema": f"https://json-schema.org/{draft}", "type": "string"}) is False
    assert fits(1, 1, {"$schema": "http://json-schema.org/draft-07/schema#", "type": "integer"}) is True
    assert fits(1, 1, {"$schema": "http://json-schema.org/draft-04/schema#", "type": "integer"}) is None


@pytest.mark.parametrize(
    ("pattern", "text", "verdict"),
    [
        (r"^\d{4}-\d{2}-\d{2}$", "2026-11-30", True),
        (r"^\d{4}-\d{2}-\d{2}$", "today", False),
        ("^[a-z]+$", "abc", True),
        ("^(a+)+$", "a" * 40 + "b", None),
        ("a*a*a*b", "a" * 250, None),
        ("[a-z]+", "a" * 10_000, None),
        ("[", "x", None),
        (5, "x", None),
    ],
)
def test_patterns_are_judged_where_a_search_cannot_take_long(pattern, text, verdict):
    assert fits(text, len(text), {"type": "string", "pattern": pattern}) is verdict


DOUBLING = {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(60)} | {"a60": True}

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
DOUBLING_7 = {f"a{n}": {"$schema": DRAFT_7, "allOf": [{"$ref": f"#/definitions/a{n + 1}"}] * 2} for n in range(60)} | {
    "a60": True
}


def nested(depth, *, name="a"):
    value: dict = {}
    for _ in range(depth):
        value = {"properties": {name: value}}
    return value


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        (1, {"$ref": "#"}),
        (1, {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}),
        (1, {"$ref": "#/$defs/a0", "$defs": DOUBLING}),
        (1, {"$ref": "#/nowhere"}),
        (1, {"$id": "http://127.0.0.1:9/", "type": "integer"}),
        (1, {"$anchor": "x", "$ref": "#x"}),
        (1, {"$dynamicRef": "#x"}),
        ({"a": 1}, {"patternProperties": {"(a+)+$": {}}}),
        ({"a": 1}, {"unevaluatedProperties": False}),
        ([[n] for n in range(20_000)], {"uniqueItems": True}),
        ([[1] * 50] * 500, {"items": {"enum": [[1] * 50 + [n] for n in range(100)]}}),
        (list(range(30_000)), {"allOf": [{"items": {"type": "integer"}}] * 100}),
        (1, {"type": 5}),
        (1, {"type": "colour"}),
        (1, {"minimum": "x"}),
        (1, {"$schema": ["x"]}),
        (1, {"description": "x" * LARGEST}),
        (1, nested(400)),
        (1, "no schema"),
        (1, 5),
        ({"a" * 40 + "!": 1}, {"additionalProperties": False, "patternProperties": {"(a+)+$": {}}}),
        ({"x": "a" * 40 + "!"}, {"properties": {"x": {"$schema": DRAFT_7, "pattern": "(a+)+$"}}}),
        (1, {"$schema": DRAFT_7, "$ref": "#/definitions/a0", "definitions": DOUBLING_7}),
        (1, {"$schema": DRAFT_7, "anyOf": [{"$ref": "#"}, {"$ref": "#"}]}),
        ([0] * 20_000, {"items": {f"a{n}": 0 for n in range(6_000)}}),
        ([[0] * 20_000], {"anyOf": [{"type": "string"}] * 3_000}),
        ("é" * 30_000, {"anyOf": [{"type": "integer"}] * 3_000}),
    ],
    ids=range(27),
)
def test_hostile_and_broken_schemas_are_not_judged_and_end_soon(value, schema):
    began = time.monotonic()
    assert fits(value, 60_000, schema) is None
    assert time.monotonic() - began < 60  # unbounded, some of these take longer than the sun will shine


@pytest.mark.parametrize("address", ["http://127.0.0.1:{port}/schema.json", "file:///etc/passwd", "other.json#/x"])
def test_nothing_is_fetched(address):
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        assert fits(1, 1, {"$ref": address.format(port=server.getsockname()[1])}) is None
        with pytest.raises(BlockingIOError):
            server.accept()


def test_a_value_too_large_is_not_judged_and_true_and_false_are_schemas():
    assert fits([], LARGEST + 1, {"type": "array"}) is None
    assert (fits(1, 1, True), fits(1, 1, False)) == (True, False)


def deeper(frames, schema):
    return fits("x", 3, schema) if not frames else deeper(frames - 1, schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": ["object", "string"], "not": {"$ref": "#"}},
        {"type": "string", "if": {"$ref": "#"}, "then": False},
        {"type": ["string"], "allOf": [{"$ref": "#/allOf/1"}, {"type": "string", "anyOf": [{"$ref": "#"}]}]},
    ],
)
def test_no_schema_comes_near_the_end_of_the_stack(schema, capfd):
    """There the library does not raise but panic, which no ``except Exception`` stops: it would end whoever compares."""
    assert [deeper(frames, schema) for frames in range(40)] == [None] * 40
    assert "panicked" not in capfd.readouterr().err


def test_a_draft_that_is_named_is_charged_for_all_the_way_down():
    tree = {"$schema": DRAFT_7, "properties": {"left": {"$ref": "#"}, "value": {"type": "integer"}}}
    assert fits({"left": {"left": {"value": 1}}}, 40, tree) is True
    assert fits({"left": {"left": {"value": "x"}}}, 40, tree) is False
    assert fits({"left": {"left": {"value": 1}}}, 40, tree, steps=30) is None


def test_the_budget_is_each_ones_own():
    assert fits(1, 1, {"type": "integer"}, steps=0) is None
    assert fits(1, 1, {"type": "integer"}) is True


names = st.sampled_from(
    ["type", "properties", "items", "anyOf", "not", "$ref", "enum", "pattern", "required", "minimum", "a"]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["object", "integer", "#", "#/a", "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(value=values, schema=values)
def test_anything_is_answered(value, schema):
    assert fits(value, 100, schema, steps=300) in (True, False, None)
