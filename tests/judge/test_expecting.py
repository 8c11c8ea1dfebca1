"""What a request lets one expect of its reply."""

from __future__ import annotations

import pytest

from engines.dialect import Endpoint
from proxy.compare.json_validity import Expected
from proxy.judge.expecting import expected

CITY = {"type": "object", "required": ["city"]}
CHAT, R, M = Endpoint.CHAT, Endpoint.RESPONSES, Endpoint.MESSAGES


@pytest.mark.parametrize(
    ("endpoint", "body", "wanted"),
    [
        (CHAT, {"messages": []}, Expected()),
        (CHAT, {"tools": [{"type": "function", "function": {"name": "f", "parameters": CITY}}]}, Expected({"f": CITY})),
        (CHAT, {"functions": [{"name": "f"}]}, Expected({"f": None})),
        (CHAT, {"response_format": {"type": "json_object"}}, Expected(json=True)),
        (CHAT, {"response_format": {"type": "text"}}, Expected()),
        (
            CHAT,
            {"response_format": {"type": "json_schema", "json_schema": {"schema": CITY}}},
            Expected(json=True, schema=CITY),
        ),
        (CHAT, {"guided_json": CITY}, Expected(json=True, schema=CITY)),
        (CHAT, {"structured_outputs": {"json": CITY}}, Expected(json=True, schema=CITY)),
        (Endpoint.COMPLETIONS, {"json_schema": CITY}, Expected(json=True, schema=CITY)),
        (
            R,
            {"tools": [{"type": "function", "name": "f", "parameters": CITY}, {"type": "custom", "name": "g"}]},
            Expected({"f": CITY, "g": None}),
        ),
        (R, {"text": {"format": {"type": "json_schema", "schema": CITY}}}, Expected(json=True, schema=CITY)),
        (R, {"text": {"verbosity": "low"}}, Expected()),
        (
            M,
            {"tools": [{"name": "f", "input_schema": CITY}, {"type": "bash_20250124", "name": "bash"}]},
            Expected({"f": CITY, "bash": None}),
        ),
        (M, {"output_format": {"type": "json_schema", "schema": CITY}}, Expected(json=True, schema=CITY)),
        (M, {"output_config": {"format": {"type": "json_schema", "schema": CITY}}}, Expected(json=True, schema=CITY)),
        (Endpoint.EMBEDDINGS, {"tools": [{"name": "f"}]}, Expected()),
        (CHAT, {"tools": "x", "response_format": 5}, Expected()),
        (CHAT, {"tools": [None, {"function": 5}, {"function": {"name": 5}}], "structured_outputs": [1]}, Expected()),
        (R, {"text": "x", "tools": [[]]}, Expected()),
    ],
)
def test_requests(endpoint, body, wanted):
    assert expected(endpoint, body) == wanted
