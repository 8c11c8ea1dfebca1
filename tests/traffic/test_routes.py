"""Which routes are mirrored: the allow-list as it stands on the wire, nothing decoded."""

from __future__ import annotations

import pytest

from proxy.traffic.routes import route_of


@pytest.mark.parametrize(
    ("path", "endpoint", "mirrored", "generates"),
    [
        ("/v1/chat/completions", "chat_completions", True, True),
        ("/chat/completions", "chat_completions", True, True),
        ("/openai/deployments/x/chat/completions", "chat_completions", True, True),
        ("/v1/completions", "completions", True, True),
        ("/api/chat", "chat_completions", True, False),
        ("/api/generate", "chat_completions", True, False),
        ("/api/pull", "other", False, False),
        ("/api/embed", "other", False, False),
        ("/v1/responses", "responses", True, False),
        ("/v1/messages", "messages", True, False),
        ("/v1/embeddings", "embeddings", True, False),
        ("/v2/rerank", "rerank", True, False),
        ("/v1/reranking", "rerank", True, False),
        ("/score", "score", True, False),
        ("/tokenize", "tokenize", False, False),
        ("/detokenize", "tokenize", False, False),
        ("/v1/models", "models", False, False),
        ("/v1/models/a/b", "models", False, False),
        ("/v1/threads/1/messages", "other", False, False),
        ("/v1/messages/count_tokens", "other", False, False),
        ("/v1/chat/completions/", "other", False, False),
        ("/v1/chat%2Fcompletions", "other", False, False),
        ("/V1/CHAT/COMPLETIONS", "other", False, False),
        ("/update_weights", "other", False, False),
        ("/sleep", "other", False, False),
        ("*", "other", False, False),
    ],
)
def test_routes(path: str, endpoint: str, mirrored: bool, generates: bool) -> None:
    route = route_of(path.encode())
    assert (route.endpoint, route.mirrored, route.generates) == (endpoint, mirrored, generates)
