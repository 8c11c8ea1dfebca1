"""Invariant: every dialect reads any reply without raising, the same in any split, into text that can be written; ids and counts are whole numbers."""

from __future__ import annotations

import json
import math
from pathlib import Path

import msgspec

from engines.dialect import Answer, Endpoint
from engines.registry import dialect
from engines.rows import LISTED
from proxy.compare.token_stream import Reply
from tests.fuzz.target import Target, bytewise, halves

_DIALECTS = tuple(dialect(name) for name in ("openai", "vllm", "llama_cpp", "transformers", "reference"))
_KINDS = ("application/json", "text/event-stream")
_FIXTURES = Path(__file__).parents[1] / "fixtures"
_SEEDS = (
    "vllm-cpu-bf16/chat_return_token_ids.json", "vllm-cpu-bf16/chat_stream_return_token_ids.sse", "vllm-cpu-bf16/completions_logprobs.json",
    "llama.cpp-q4_1/chat_logprobs.json", "llama.cpp-q4_1/chat_stream.sse", "llama.cpp-q4_1/completions_stream_logprobs.sse",
)  # fmt: skip
_LONGEST = 1500
#: What is read into columns, whole and as an event.
_COLUMNS = (
    b'{"choices":[{"index":0,"message":{"content":"a b"},"logprobs":{"content":[{"token":"a","logprob":-0.5,"top_logprobs":[{"token":"a","logprob":-0.5},'
    b'{"token":" b","logprob":-1.5}]},{"token":" b","logprob":-0.1,"top_logprobs":[]}]}}]}'
)
_ASKED = {"model": "m", "logprobs": True, "top_logprobs": 2, "n": 1, "messages": []}


def read(number: int, endpoint: Endpoint, kind: str, pieces: list[bytes]) -> Reply:
    """What a dialect makes of it; all pieces arrive at once."""
    answer = Answer(200, (("content-type", kind),), tuple((7, piece) for piece in pieces))
    asked = dict(_ASKED, stream=kind == _KINDS[1])
    return _DIALECTS[number].read(endpoint, asked, answer)


def sound(reply: Reply) -> None:
    """Assert what everything behind a dialect relies on."""
    msgspec.json.encode(reply, enc_hook=tuple)  # no lone surrogate, nothing that is not a value
    for choice in reply.choices:
        assert isinstance(choice.index, int)
        assert choice.count is None or choice.count >= 0
        for token in choice.tokens:
            assert token.id is None or (isinstance(token.id, int) and token.id >= 0)
            assert (
                token.logprob is None or LISTED[0] < token.logprob <= LISTED[1]
            )  # logits are kept, to be known as such
            places = [one.logprob for one in token.top]
            assert all(math.isfinite(one) for one in places)
            assert places == sorted(places, reverse=True)


def check(data: bytes) -> None:
    """The first byte chooses dialect, endpoint and content type; read whole, in two pieces and byte by byte."""
    choice, body = (data[0], data[1:]) if data else (0, b"")
    endpoint = Endpoint.CHAT if choice & 1 else Endpoint.COMPLETIONS
    kind = _KINDS[choice >> 1 & 1]
    number = (choice >> 2) % len(_DIALECTS)
    whole = read(number, endpoint, kind, [body])
    sound(whole)
    same = msgspec.json.encode(whole, enc_hook=tuple)
    for pieces in (halves(body), bytewise(body)):
        assert msgspec.json.encode(read(number, endpoint, kind, pieces), enc_hook=tuple) == same


def small(value: object) -> object:
    """A JSON value with the first two entries of each list."""
    if isinstance(value, list):
        return [small(one) for one in value[:2]]
    return {key: small(one) for key, one in value.items()} if isinstance(value, dict) else value


def _seeds() -> tuple[bytes, ...]:
    found = [bytes([1]) + _COLUMNS, bytes([3]) + b"data: " + _COLUMNS.replace(b"message", b"delta") + b"\n\n"]
    for number, name in enumerate(_SEEDS):
        body = (_FIXTURES / name).read_bytes()
        stream, chat = name.endswith(".sse"), "/chat" in name
        body = (
            b"\n\n".join(body.split(b"\n\n")[:3]) + b"\n\n" if stream else json.dumps(small(json.loads(body))).encode()
        )
        found.append(bytes([chat | stream << 1 | (number % len(_DIALECTS)) << 2]) + body[:_LONGEST])
    return tuple(found)


TARGET = Target(
    check,
    seeds=_seeds(),
    words=(
        b"null", b"-1", b"1e999", b"NaN", b'"\\ud800"', b"[]", b"{}", b"[[", b"true", b"18446744073709551616", b'"choices"', b'"logprobs"', b'"content"',
        b'"tokens"', b'"token_ids"', b'"usage"', b'"delta"', b'"message"', b'"bytes"', b"data: ", b"\n\n", b"data: [DONE]\n\n",
    ),
    longest=_LONGEST,
)  # fmt: skip
