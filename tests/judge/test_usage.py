"""The usage block is found at the end of a body however it was cut, and never in what a model wrote."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.judge.usage import completion, reported

USAGE = {"prompt_tokens": 12, "completion_tokens": 345, "total_tokens": 357}


def body(text: str = "hello", **more: object) -> bytes:
    return orjson.dumps({"choices": [{"message": {"content": text}}], "usage": USAGE} | more)


def test_a_whole_reply() -> None:
    assert reported([(1, body())]) == (12, 345)
    assert reported([(1, body("x" * 50_000, system_fingerprint="fp"))]) == (12, 345)


def test_the_spaces_some_servers_write() -> None:
    assert reported([(1, b'{"usage": {"completion_tokens" : 5, "prompt_tokens": 6}}')]) == (6, 5)


@pytest.mark.parametrize("size", [1, 7, 100])
def test_cut_anywhere(size: int) -> None:
    whole = body("x" * 3000)
    assert reported([(at, whole[at : at + size]) for at in range(0, len(whole), size)]) == (12, 345)


def test_the_last_word_of_a_stream_counts() -> None:
    events = [b'data: {"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":%d}}\n\n' % n for n in range(40)]
    assert reported(list(enumerate([*events, b"data: [DONE]\n\n"]))) == (12, 39)


def test_a_stream_that_says_nothing_is_counted_by_its_events() -> None:
    events = [b'data: {"choices":[{"delta":{"content":"data"}}]}\n\n'] * 9
    assert completion(list(enumerate([*events, b"data: [DONE]\n\n"]))) == 10
    assert completion(list(enumerate([*events, b'data: {"usage":{"completion_tokens":3}}\n\n']))) == 3
    assert completion([(1, b'{"choices": []}')]) == 0
    assert completion([]) == 0


@given(st.text())
def test_nothing_that_a_model_wrote(text: str) -> None:
    forged = text + '{"completion_tokens":99,"prompt_tokens":98}'
    assert reported([(1, orjson.dumps({"content": forged}))]) == (None, None)


@given(st.lists(st.binary(max_size=40)))
def test_any_bytes(pieces: list[bytes]) -> None:
    prompt, completion = reported(list(enumerate(pieces)))
    assert prompt is None or prompt >= 0
    assert completion is None or completion >= 0


def test_what_does_not_say() -> None:
    assert reported([]) == (None, None)
    assert reported([(1, b"\x1f\x8b\x08")]) == (None, None)
    assert reported([(1, b'{"usage": null}')]) == (None, None)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("vllm-cpu-fp32/responses.json", (37, 8)),
        ("vllm-cpu-fp32/responses_tool_stream.sse", (37, 39)),
        ("vllm-cpu-fp32/messages_stream.sse", (37, 8)),
        ("vllm-cpu-fp32/embeddings_list.json", (14, 0)),
        ("vllm-cpu-fp32/rerank.json", (26, None)),
        ("llama.cpp-q4_1/responses_stream.sse", (37, 24)),
        ("llama.cpp-q4_1/messages.json", (37, 24)),  # 36 of them out of the cache
        ("llama.cpp-q4_1/messages_stream.sse", (37, 24)),
        ("llama.cpp-q4_1/embeddings_list.json", (14, None)),
        ("llama.cpp-q4_1/responses_previous.json", (None, None)),
    ],
)
def test_other_routes_as_engines_answer_them(name: str, found: tuple[int | None, int | None]) -> None:
    body = (Path(__file__).parents[1] / "fixtures" / name).read_bytes()
    assert reported([(1, body)]) == found
    assert reported([(at, body[at : at + 3000]) for at in range(0, len(body), 3000)]) == found
