"""Invariant: the readers of every other route read any reply without raising, the same in any split, into text that can be written and numbers that are finite."""

from __future__ import annotations

import json
import math
from pathlib import Path

import msgspec

from engines.dialect import Answer, Endpoint
from engines.endpoints import speaking
from engines.registry import dialect
from proxy.compare.token_stream import Reply
from tests.fuzz.dialects import small
from tests.fuzz.target import Target, bytewise, halves

_ENDPOINTS = (Endpoint.RESPONSES, Endpoint.MESSAGES, Endpoint.EMBEDDINGS, Endpoint.RERANK)
_KINDS = ("application/json", "text/event-stream")
_FIXTURES = Path(__file__).parents[1] / "fixtures"
_SEEDS = (
    (Endpoint.RESPONSES, "llama.cpp-q4_1/responses.json"), (Endpoint.RESPONSES, "llama.cpp-q4_1/responses_limit_stream.sse"),
    (Endpoint.RESPONSES, "vllm-cpu-fp32/responses_tool.json"), (Endpoint.MESSAGES, "llama.cpp-q4_1/messages.json"),
    (Endpoint.MESSAGES, "llama.cpp-q4_1/messages_limit_stream.sse"), (Endpoint.EMBEDDINGS, "vllm-cpu-fp32/embeddings_list.json"),
    (Endpoint.RERANK, "vllm-cpu-fp32/rerank.json"), (Endpoint.RERANK, "vllm-cpu-fp32/score.json"),
)  # fmt: skip
_LONGEST = 1500
_ASKED = {"model": "m", "max_output_tokens": 4}
_VLLM = dialect("vllm")


def read(endpoint: Endpoint, kind: str, pieces: list[bytes]) -> Reply:
    """What is made of it; all pieces arrive at once."""
    answer = Answer(200, (("content-type", kind),), tuple((7, piece) for piece in pieces))
    return speaking.read(_VLLM, endpoint, _ASKED, answer)


def plain(reply: Reply) -> bytes:
    """The reply as JSON, which no lone surrogate and nothing that is no value survives; its numbers are finite."""
    vectors = [list(vector) for vector in reply.vectors]
    assert all(math.isfinite(element) for vector in vectors for element in vector)
    assert all(math.isfinite(one.value) and one.index >= 0 for one in reply.scores)
    assert reply.error is None or (not reply.vectors and not reply.scores)
    return msgspec.json.encode([msgspec.structs.replace(reply, vectors=()), vectors])


def check(data: bytes) -> None:
    """The first byte chooses route and content type; read whole, in two pieces and byte by byte."""
    choice, body = (data[0], data[1:]) if data else (0, b"")
    endpoint, kind = _ENDPOINTS[choice & 3], _KINDS[choice >> 2 & 1]
    same = plain(read(endpoint, kind, [body]))
    for pieces in (halves(body), bytewise(body)):
        assert plain(read(endpoint, kind, pieces)) == same


def _seeds() -> tuple[bytes, ...]:
    found = []
    for endpoint, name in _SEEDS:
        body = (_FIXTURES / name).read_bytes()
        stream = name.endswith(".sse")
        body = (
            b"\n\n".join(body.split(b"\n\n")[:6]) + b"\n\n" if stream else json.dumps(small(json.loads(body))).encode()
        )
        found.append(bytes([_ENDPOINTS.index(endpoint) | stream << 2]) + body[:_LONGEST])
    return tuple(found)


TARGET = Target(
    check,
    seeds=_seeds(),
    words=(
        b"null", b"-1", b"1e999", b"NaN", b'"\\ud800"', b"[]", b"{}", b"[[", b"true", b'"output"', b'"content"', b'"type"', b'"delta"', b'"embedding"',
        b'"index"', b'"score"', b'"results"', b'"scores"', b'"data"', b'"usage"', b'"status"', b'"input"', b'"partial_json"', b"data: ", b"\n\n", b"event: ",
    ),
    longest=_LONGEST,
)  # fmt: skip
