"""Questions to a running engine, for the tests of the reference engine and of vLLM beside it."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any, NamedTuple

MODEL = "smollm2-135m"
QUESTIONS = (
    "Name three things a lighthouse keeper does on a foggy night.",
    "Explain in two sentences why ice floats on water.",
    "Write a Python function that counts the vowels in a word.",
    "Repeat exactly: 🎉 naïve café Ω 日本語",
    "What is 14 times 12? Show each step.",
    "Write a limerick about a baker in Kiel.",
)


class Decoded(NamedTuple):
    """An engine's greedy answer: ids, values, and each row's alternatives as (id, value) pairs."""

    prompt: list[int]
    ids: list[int]
    values: list[float]
    tops: list[list[tuple[int, float]]]


def ask(
    url: str, path: str, body: Any = None, *, raw: bytes | None = None, kind: str = "application/json"
) -> tuple[int, Any]:
    """POST (or GET without a body): status and decoded JSON."""
    data = raw if raw is not None else None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + path, data, {"content-type": kind} if data is not None else {})
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.status, json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, json.loads(refused.read())


def chat(url: str, text: str = "What is the capital of France?", **fields: Any) -> Any:
    """A greedy chat; its reply."""
    body = {"model": MODEL, "messages": [{"role": "user", "content": text}], "temperature": 0, **fields}
    status, reply = ask(url, "/v1/chat/completions", body)
    assert status == 200, reply
    return reply


def complete(url: str, prompt: Any = "The capital of France is", **fields: Any) -> Any:
    """A greedy completion; its reply."""
    status, reply = ask(url, "/v1/completions", {"model": MODEL, "prompt": prompt, "temperature": 0, **fields})
    assert status == 200, reply
    return reply


def stream(url: str, path: str, body: Any) -> list[Any]:
    """The chunks of a streamed reply, which must end with [DONE]."""
    request = urllib.request.Request(
        url + path, json.dumps({**body, "stream": True}).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        events = answer.read().decode().split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""]
    return [json.loads(event.removeprefix("data: ")) for event in events[:-2]]


def decode(url: str, text: str, tokens: int) -> Decoded:
    """A greedy answer by ids."""
    reply = chat(
        url,
        text,
        max_tokens=tokens,
        logprobs=True,
        top_logprobs=5,
        return_token_ids=True,
        return_tokens_as_token_ids=True,
    )
    choice = reply["choices"][0]
    rows = choice["logprobs"]["content"]
    tops = [
        [(int(entry["token"].removeprefix("token_id:")), entry["logprob"]) for entry in row["top_logprobs"]]
        for row in rows
    ]
    return Decoded(reply["prompt_token_ids"], choice["token_ids"], [row["logprob"] for row in rows], tops)


def score(url: str, prompt: list[int], ids: list[int], top: int = 0) -> list[dict[str, Any]]:
    """Rows of given ids after a prompt, in one pass."""
    reply = complete(url, prompt + ids, max_tokens=1, prompt_logprobs=top)
    return reply["choices"][0]["prompt_logprobs"][len(prompt) :]


def values(rows: list[dict[str, Any]], ids: list[int]) -> list[float]:
    """The values of the ids themselves."""
    return [row[str(token)]["logprob"] for row, token in zip(rows, ids, strict=True)]
