"""Replies as the bytes of a body.

House rules. Pure. Empty events are tokens without one: they take time and say nothing.
"""

from __future__ import annotations

import orjson

from engines.scripted.engine import Event, Stream, Whole, Writer


def written(answer: Whole) -> tuple[bytes, str]:
    """Return the body of a whole reply and its content type."""
    if isinstance(answer.value, str):
        return answer.value.encode(), "text/plain"
    return orjson.dumps(answer.value), "application/json"


def kind_of(answer: Stream) -> str:
    """Return a stream's content type."""
    return "application/x-ndjson" if answer.lines else "text/event-stream; charset=utf-8"


def framed(writer: Writer, answer: Stream, event: Event) -> bytes:
    """Return the bytes of one event."""
    if not event.value:
        return b""
    data = orjson.dumps(event.value)
    if answer.lines:
        return data + b"\n"
    name = b"event: " + str(event.value.get("type", "error")).encode() + b"\n" if answer.named else b""
    return name + b"data: " + data + writer.trailing + b"\n\n"


def ending(writer: Writer, answer: Stream) -> bytes:
    """Return what ends a stream that is whole."""
    return b"" if answer.lines or answer.named or not writer.done else b"data: [DONE]\n\n"
