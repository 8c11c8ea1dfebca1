"""An HTTP answer to one JSON object in the shape of a reply that is not a stream, or to the reason why there is none.

House rules. Pure and total: any status and any bytes give an object (perhaps empty) and a bounded label: the transport's own (``refused``,
``reset``, ``timeout``, ...), ``status_<code>``, ``not_json``, ``error_in_body``, ``no_choices``, ``stream_error``, ``cut``, ``too_large``. Error *texts* are never
passed on: they may quote the prompt.
"""

from __future__ import annotations

from typing import Any

from engines import typed, typed_stream
from engines.condense import condensed, shows_rows
from engines.dialect import Answer
from engines.lenient_json import NotJson, loads
from engines.stream import merge
from proxy.compare.sse import Event, SseReader, SseTooLarge, plain_events

Json = dict[str, Any]

_START = 64  # bytes that tell events from another body


def document(answer: Answer, *, columns: bool = False) -> tuple[Json, str | None]:
    """Return the reply as one object, and the error label (None: a whole reply).

    ``columns``: rows of the usual shape may be ``Columns``, and fields that no reader looks at left out.
    """
    if answer.failure is not None and not answer.pieces:
        return {}, answer.failure
    if not 200 <= answer.status <= 299:
        return {}, answer.failure or f"status_{answer.status if 0 <= answer.status <= 999 else 0}"
    value, error = _stream(answer, columns=columns) if is_stream(answer) else _object(answer, columns=columns)
    return value, answer.failure or error


def is_stream(answer: Answer) -> bool:
    """Whether the body is server-sent events: by its declared type, else by its first bytes."""
    declared = next((value for name, value in answer.headers if name == "content-type"), "").lower()
    if "event-stream" in declared:
        return True
    start = b""
    for _, piece in answer.pieces:  # it may have come byte by byte
        start += piece[:_START]
        if len(start) >= _START:
            break
    return start[:_START].removeprefix(b"\xef\xbb\xbf").lstrip().startswith((b"data:", b"event:", b":"))


def _stream(answer: Answer, *, columns: bool = False) -> tuple[Json, str | None]:
    body = answer.body
    rows = shows_rows(body)
    shorter = body if rows else condensed(body)
    if columns and shorter is body and (found := typed_stream.stream(body, rows_shown=rows)) is not None:
        return found
    events, error = plain_events(shorter), None
    if events is None:
        events, error = any_events(shorter)
    value, merge_error = merge(events)
    if not value["choices"] and merge_error == "no_choices" and body.lstrip().startswith(b"{"):
        return _object(answer)  # JSON under a stream's content type, as some front ends send their errors
    return value, error or merge_error


def any_events(body: bytes) -> tuple[list[Event], str | None]:
    """Read server-sent events as they are framed; those before one that is too large, and then ``too_large``."""
    reader = SseReader()
    events: list[Event] = []
    try:
        events += reader.feed(body)
        events += reader.finish()
    except SseTooLarge:
        return events, "too_large"
    return events, None


def _object(answer: Answer, *, columns: bool = False) -> tuple[Json, str | None]:
    body = answer.body
    try:
        value = (typed.whole(body) if columns else None) or loads(body)
    except NotJson:
        return {}, "not_json"
    if not isinstance(value, dict):
        return {}, "no_choices"
    if value.get("error") or value.get("object") == "error":
        return value, "error_in_body"
    choices = value.get("choices")
    if not isinstance(choices, list) or not any(isinstance(choice, dict) for choice in choices):
        return value, "no_choices"
    return value, None
