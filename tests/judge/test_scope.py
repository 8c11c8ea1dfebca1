"""Which requests are not mirrored, and why."""

from __future__ import annotations

import pytest

from engines.dialect import Endpoint
from proxy.judge.scope import out_of_scope

R, M = Endpoint.RESPONSES, Endpoint.MESSAGES


@pytest.mark.parametrize(
    ("endpoint", "body", "reason"),
    [
        (Endpoint.COMPLETIONS, {"echo": True}, "echo"),
        (Endpoint.COMPLETIONS, {"suffix": "x"}, "infill"),
        (Endpoint.CHAT, {"best_of": 2}, "search"),
        (Endpoint.CHAT, {"tools": [{"type": "function"}]}, None),
        (R, {"input": "x"}, None),
        (R, {"input": "x", "previous_response_id": None, "store": True}, None),
        (R, {"previous_response_id": "resp_1"}, "stored_conversation"),
        (R, {"conversation": {"id": "conv_1"}}, "stored_conversation"),
        (R, {"prompt": {"id": "pmpt_1"}}, "stored_conversation"),
        (R, {"input": [{"type": "item_reference", "id": "x"}]}, "stored_conversation"),
        (R, {"background": True}, "background"),
        (R, {"tools": [{"type": "function", "name": "f"}, {"type": "custom", "name": "g"}]}, None),
        (R, {"tools": [{"type": "web_search"}]}, "server_tools"),
        (R, {"tools": [{"type": "mcp", "server_url": "https://x"}]}, "server_tools"),
        (R, {"tools": [{"type": 5}]}, "server_tools"),
        (R, {"tools": "x"}, None),
        (M, {"messages": []}, None),
        (M, {"tools": [{"name": "f", "input_schema": {}}, {"type": "bash_20250124", "name": "bash"}]}, None),
        (M, {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "server_tools"),
        (M, {"mcp_servers": [{"url": "https://x"}]}, "server_tools"),
        (M, {"container": "c1"}, "server_tools"),
        (Endpoint.EMBEDDINGS, {"echo": True}, None),
        (Endpoint.RERANK, {}, None),
    ],
)
def test_reasons(endpoint, body, reason):
    assert out_of_scope(endpoint, body) == reason
