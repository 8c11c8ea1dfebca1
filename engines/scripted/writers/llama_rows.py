"""llama.cpp's logprob rows: ids, true bytes, one row for the tokens of one character.

House rules. Pure. ``engines.rejoin`` describes what the real server does; this does the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engines.scripted.asked import Asked
from engines.scripted.engine import Engine
from engines.scripted.generate import Row, Step
from engines.scripted.vocabulary import END

Json = dict[str, Any]


def rows(engine: Engine, asked: Asked, steps: Sequence[Step], _: int) -> Json | None:
    """Write ``logprobs.content``: the tokens of one character as one row, with the last one's id and values."""
    written = listed(engine, steps)
    return {"content": written} if written or asked.chat else None


def listed(engine: Engine, steps: Sequence[Step]) -> list[Json]:
    """Write one row for each character's tokens; none for those of a matched stop string."""
    written: list[Json] = []
    held = b""
    for step in _outside_stop(steps):
        held += engine.toy.table.bytes_of(step.row.id)
        try:
            text = held.decode()
        except UnicodeDecodeError:
            continue
        written.append(_row(engine, step.row, text, held))
        held = b""
    return written


def _outside_stop(steps: Sequence[Step]) -> Sequence[Step]:
    """Leave out what a matched stop string took: its last token, and those before it whose text was held back."""
    if not steps or not steps[-1].swallowed:
        return steps
    left = list(steps[:-1])
    while left and not left[-1].text:
        left.pop()
    return left


def _row(engine: Engine, row: Row, text: str, data: bytes) -> Json:
    listed = [_entry(engine, token, value) for token, value in row.top]
    return {"id": row.id, "token": text, "bytes": list(data), "logprob": row.logprob, "top_logprobs": listed}


def _entry(engine: Engine, token: int, value: float) -> Json:
    data = engine.toy.table.bytes_of(token)
    return {"id": token, "token": data.decode("utf-8", "ignore"), "bytes": list(data), "logprob": value}


def stream_rows(engine: Engine, _asked: Asked, steps: Sequence[Step], _: int) -> Json | None:
    """Write the rows of one event, none for the end token and for what has no text of its own."""
    if any(step.row.id == END or step.swallowed for step in steps):
        return None
    written = listed(engine, steps)
    return {"content": written} if written else None
