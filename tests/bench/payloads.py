"""Requests and replies of given sizes, valid for every peer's reader.

House rules. Bytes and nothing else. A body holds the load client's mark (see load.c), an event the engine's stamp (see engine.c).
"""

from __future__ import annotations

import json

from tests.bench.native import Reply

MARK = "@" * 16
STAMP = "0" * 19
_WORDS = "The halo stands beside the sun, twenty two degrees from it, and comes from light bent in crystals of ice. "


def text(length: int) -> str:
    """Prose of so many characters."""
    return (_WORDS * (length // len(_WORDS) + 1))[:length]


def request(size: int, *, stream: bool = False, **more: object) -> bytes:
    """A greedy chat request of ``size`` bytes."""
    body = {
        "model": "bench",
        "messages": [{"role": "user", "content": MARK}],
        "temperature": 0,
        "max_tokens": 128,
        **({"stream": True} if stream else {}),
        **more,
    }
    length = size - len(_dumps(body))
    body["messages"] = [{"role": "user", "content": f"{MARK}{text(max(0, length))}"}]
    return _dumps(body)


def json_reply(size: int, *, delay: int = 0) -> Reply:
    """A whole chat completion of ``size`` bytes."""
    value = {
        "id": "chatcmpl-bench",
        "object": "chat.completion",
        "created": 1700000000,
        "model": "bench",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": "stop"}
        ],
        "usage": {"prompt_tokens": 200, "completion_tokens": 128, "total_tokens": 328},
    }
    value["choices"] = [
        {
            "index": 0,
            "message": {"role": "assistant", "content": text(size - len(_dumps(value)))},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ]
    return Reply("json", _dumps(value), delay=delay)


def sse_reply(events: int, size: int = 235, *, pace: int = 0, ending: str = "") -> Reply:
    """A stream of ``events`` events of ``size`` bytes each (the last with ``ending`` in its text), ``pace`` microseconds apart, then ``[DONE]``."""
    bare = len(_event({"index": 0, "delta": {"content": ""}, "finish_reason": None}))
    parts: list[bytes] = []
    for number in range(events):
        last = number == events - 1
        content = text(max(1, size - bare)) + (ending if last else "")
        parts.append(_event({"index": 0, "delta": {"content": content}, "finish_reason": "stop" if last else None}))
    return Reply("sse", b"".join(parts) + b"data: [DONE]\n\n", pace=pace)


def logprobs_events(positions: int, top: int) -> Reply:
    """A stream with the tokens of ``logprobs_reply``, one an event."""
    choice = json.loads(logprobs_reply(positions, top).body)["choices"][0]
    rows = choice["logprobs"]["content"]
    parts = [
        _event(
            {
                "index": 0,
                "delta": {"content": row["token"]},
                "logprobs": {"content": [row]},
                "finish_reason": "length" if row is rows[-1] else None,
            }
        )
        for row in rows
    ]
    return Reply("sse", b"".join(parts) + b"data: [DONE]\n\n")


def _event(choice: dict[str, object]) -> bytes:
    chunk = {
        "id": "chatcmpl-bench",
        "object": "chat.completion.chunk",
        "created": 1700000000,
        "model": "bench",
        "t": STAMP,
        "choices": [choice],
    }
    return b"data: " + _dumps(chunk) + b"\n\n"


def logprobs_reply(positions: int, top: int, *, as_vllm: bool = False, shift: float = 0.0) -> Reply:
    """A whole chat completion with logprobs of ``positions`` tokens; ``as_vllm`` names the bytes of each and writes all digits, ``shift`` moves every value.

    128 positions with 20 alternatives are about 95 KB, as vLLM writes them 230 KB.
    """
    words = [f" {_WORDS.split()[number % 20][:4].strip(',.')}{number % 97}" for number in range(positions + top)]
    content = []
    for number in range(positions):
        entries = [
            _entry(words[number + rank], -0.8 - 0.61 * rank - shift, as_vllm=as_vllm) for rank in range(top or 1)
        ]
        content.append(entries[0] | {"top_logprobs": entries if top else []})
    value = {
        "id": "chatcmpl-bench",
        "object": "chat.completion",
        "created": 1700000000,
        "model": "bench",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "".join(words[:positions])},
                "logprobs": {"content": content},
                "finish_reason": "length",
            }
        ],
        "usage": {"prompt_tokens": 200, "completion_tokens": positions, "total_tokens": 200 + positions},
    }
    return Reply("json", _dumps(value))


def _entry(token: str, logprob: float, *, as_vllm: bool) -> dict[str, object]:
    if as_vllm:
        return {"token": token, "logprob": logprob - 1.2345678e-7, "bytes": list(token.encode())}
    return {"token": token, "logprob": round(logprob, 4)}


def _dumps(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
