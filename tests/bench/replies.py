"""Pairs of replies to one request, in the shapes in which engines write them: what the comparator is measured with.

House rules. Bytes and nothing else, the same every time. Both replies of a pair say the same tokens; their values differ by a little noise, as two kernels' do.
"""

from __future__ import annotations

import math
import random
import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import orjson

#: Of every reply.
TOKENS = 128
_TOP = 20


@dataclass(frozen=True)
class Case:
    """One shape of replies, the primary's and the shadow's, and the goal in tokens a second. ``mode``: what is known of both arms' logprobs."""

    name: str
    goal: int | None
    primary: bytes
    shadow: bytes
    stream: bool = False
    mode: str = "raw"


@lru_cache(1)
def cases() -> tuple[Case, ...]:
    """Every shape that has a goal, and others that are usual."""
    mine, theirs = _rows(0.0), _rows(1e-4)
    bare, its = ([{**row, "top": []} for row in rows] for rows in (mine, theirs))
    plain = [{"text": row["text"]} for row in mine]
    first, second = _whole(_spelled(mine)), _whole(_spelled(theirs))
    ids = _whole(_labelled(mine)), _whole(_labelled(theirs))
    text = _events(plain)
    return (
        Case("20 alternatives as vLLM writes them", 75_000, first, second),
        Case("20 alternatives, compact", 120_000, _whole(_compact(mine)), _whole(_compact(theirs))),
        Case("chosen tokens only", 200_000, _whole(_compact(bare)), _whole(_compact(its))),
        Case("streams of text", 700_000, text, _events(plain, "c2"), stream=True),
        Case("equal bytes", 2_000_000, text, text, stream=True),
        Case("equal bytes with 20 alternatives", None, first, _whole(_spelled(mine), "c2")),
        Case("20 alternatives by id, as vLLM is asked for them", None, *ids),
        Case("the same streamed", None, _events(_labelled(mine)), _events(_labelled(theirs)), stream=True),
        Case("20 alternatives in another order", None, first, _whole(_spelled(_rows(0.02)))),
        Case("20 alternatives, two of them others", None, first, _whole(_spelled(_with_others(_rows(0.01))))),
        Case("20 alternatives, logprob modes unknown", None, first, second, mode="unknown"),
        Case("chosen tokens against 20 alternatives", None, _whole(_spelled(bare)), second),
        Case("whole replies of text", None, _whole(plain), _whole(plain, "c2")),
    )


def _rows(noise: float) -> list[dict[str, Any]]:
    """Rows of the same tokens, whose values differ by ``noise``."""
    draw = random.Random(7)
    jitter = random.Random(8)
    rows = []
    for number in range(TOKENS):
        ids = draw.sample(range(1000, 50_000), _TOP)
        logits = sorted((draw.gauss(0.0, 3.0) for _ in ids), reverse=True)
        total = math.log(math.fsum(map(math.exp, logits)) / 0.98)  # the rest of the vocabulary has the other 2 %
        values = [logit - total + jitter.gauss(0.0, noise) for logit in logits]
        listed = sorted(((i, f" wa{i}", v) for i, v in zip(ids, values, strict=True)), key=lambda one: -one[2])
        rows.append(
            {
                "text": f" wa{ids[0]}",
                "id": ids[0],
                "top": listed,
                "logprob": values[0],
                "number": number,
            }
        )
    return rows


def _with_others(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same rows with other tokens as the two least likely, as two engines list them."""
    return [
        {**row, "top": [*row["top"][:-2], *((i + 50_000, f" wb{i}", value) for i, _, value in row["top"][-2:])]}
        for row in rows
    ]


def _written(value: float) -> float:
    """As an engine writes a float32: all digits of its double."""
    return float(struct.unpack("f", struct.pack("f", value))[0])


def _entry(token: str, value: float, spelled: str) -> dict[str, Any]:
    return {"token": token, "logprob": _written(value), "bytes": list(spelled.encode())}


def _spelled(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Tokens by text with their bytes: 232 KB with 20 alternatives."""
    return [
        {
            "text": row["text"],
            "row": {
                **_entry(row["text"], row["logprob"], row["text"]),
                "top_logprobs": [_entry(text, value, text) for _, text, value in row["top"]],
            },
        }
        for row in rows
    ]


def _labelled(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Tokens written as ids: what vLLM answers to what its dialect asks."""
    return [
        {
            "text": row["text"],
            "id": row["id"],
            "row": {
                **_entry(f"token_id:{row['id']}", row["logprob"], row["text"]),
                "top_logprobs": [_entry(f"token_id:{i}", value, f"token_id:{i}") for i, _, value in row["top"]],
            },
        }
        for row in rows
    ]


def _compact(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Tokens by text, without bytes."""
    return [
        {
            "text": row["text"],
            "row": {
                "token": row["text"],
                "logprob": round(row["logprob"], 5),
                "top_logprobs": [{"token": text, "logprob": round(value, 5)} for _, text, value in row["top"]],
            },
        }
        for row in rows
    ]


def _logprobs(pieces: list[dict[str, Any]]) -> dict[str, Any] | None:
    rows = [piece["row"] for piece in pieces if "row" in piece]
    return {"content": rows} if rows else None


def _ids(pieces: list[dict[str, Any]]) -> list[int] | None:
    return [piece["id"] for piece in pieces] if "id" in pieces[0] else None


def _usage() -> dict[str, int]:
    return {"prompt_tokens": 9, "completion_tokens": TOKENS, "total_tokens": 9 + TOKENS}


def _whole(pieces: list[dict[str, Any]], name: str = "c1") -> bytes:
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": "".join(piece["text"] for piece in pieces)},
        "logprobs": _logprobs(pieces),
        "finish_reason": "length",
        "token_ids": _ids(pieces),
    }
    return orjson.dumps({"id": name, "object": "chat.completion", "model": "m", "choices": [choice], "usage": _usage()})


def _events(pieces: list[dict[str, Any]], name: str = "c1") -> bytes:
    events = []
    for number, piece in enumerate(pieces):
        last = number == len(pieces) - 1
        choice = {
            "index": 0,
            "delta": {"content": piece["text"]},
            "logprobs": _logprobs([piece]),
            "finish_reason": "length" if last else None,
            "token_ids": _ids([piece]),
        }
        events.append({"id": name, "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]})
    events.append(
        {"id": name, "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [], "usage": _usage()}
    )
    return b"".join(b"data: " + orjson.dumps(event) + b"\n\n" for event in events) + b"data: [DONE]\n\n"
