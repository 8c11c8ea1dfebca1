"""Each route is asked and read in its own way; a dialect has its say on chat and completions alone."""

from __future__ import annotations

import pytest

from engines.dialect import Answer, Endpoint
from engines.endpoints import speaking
from engines.registry import NAMES, dialect

BODY = {"model": "m", "stream": True}


@pytest.mark.parametrize("name", NAMES)
def test_a_dialect_adds_nothing_elsewhere(name):
    speaks = dialect(name)
    assert speaking.ask(speaks, Endpoint.RESPONSES, BODY, 5) == BODY | {"store": False}
    for endpoint in (Endpoint.MESSAGES, Endpoint.EMBEDDINGS, Endpoint.RERANK, Endpoint.SCORE):
        shaped = speaking.ask(speaks, endpoint, BODY, 5)
        assert (shaped, shaped is BODY) == (BODY, False)


def test_a_chat_is_asked_as_the_dialect_asks():
    vllm = dialect("vllm")
    body = {"messages": []}
    assert speaking.ask(vllm, Endpoint.CHAT, body, 5) == vllm.ask(Endpoint.CHAT, body, 5) != body


@pytest.mark.parametrize(
    ("endpoint", "body", "found"),
    [
        (Endpoint.CHAT, b'{"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]}', (1, 0, 0)),
        (Endpoint.RESPONSES, b'{"output": [], "status": "completed"}', (1, 0, 0)),
        (Endpoint.MESSAGES, b'{"content": [], "stop_reason": "end_turn"}', (1, 0, 0)),
        (Endpoint.EMBEDDINGS, b'{"data": [{"embedding": [1.0]}]}', (0, 1, 0)),
        (Endpoint.RERANK, b'{"results": [{"index": 0, "relevance_score": 1}]}', (0, 0, 1)),
        (Endpoint.SCORE, b'{"data": [{"index": 0, "score": 1}]}', (0, 0, 1)),
    ],
)
def test_every_route_has_its_reader(endpoint, body, found):
    reply = speaking.read(dialect("vllm"), endpoint, {}, Answer(200, (), ((0, body),)))
    assert reply.error is None
    assert (len(reply.choices), len(reply.vectors), len(reply.scores)) == found


def test_no_reader_mistakes_another_routes_reply():
    chat = Answer(200, (), ((0, b'{"choices": [{"message": {"content": "x"}}]}'),))
    for endpoint in (Endpoint.RESPONSES, Endpoint.MESSAGES, Endpoint.EMBEDDINGS, Endpoint.RERANK, Endpoint.SCORE):
        assert speaking.read(dialect("vllm"), endpoint, {}, chat).error is not None
