"""An HTTP answer of any route to its JSON: one value, or the objects of its events, and what is wrong with it.

House rules. Pure and total, like ``engines.body``, whose labels are used: the transport's own, ``status_<code>``, ``not_json``, ``error_in_body``,
``stream_error``, ``cut``, ``too_large``. What the JSON means is its route's business. Error texts are never passed on: they may quote the prompt.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from engines.body import any_events, is_stream
from engines.dialect import Answer, Json
from engines.lenient_json import NotJson, loads
from proxy.compare.sse import plain_events

_DONE = b"[DONE]"


class Parsed(Struct, frozen=True):
    """``value``: of a reply that is no stream; ``events``: of one that is. ``error``: None when all of it could be read."""

    value: Any = None
    events: tuple[Json, ...] = ()
    error: str | None = None

    @property
    def object(self) -> Json:
        """The value where it is an object, else an empty one."""
        return self.value if isinstance(self.value, dict) else {}


def parsed(answer: Answer) -> Parsed:
    """Read the body. Never raises."""
    if answer.failure is not None and not answer.pieces:
        return Parsed(error=answer.failure)
    if not 200 <= answer.status <= 299:
        return Parsed(error=answer.failure or f"status_{answer.status if 0 <= answer.status <= 999 else 0}")
    found = _stream(answer.body) if is_stream(answer) else _whole(answer.body)
    return found if answer.failure is None else Parsed(found.value, found.events, answer.failure)


def _whole(body: bytes) -> Parsed:
    try:
        value = loads(body)
    except NotJson:
        return Parsed(error="not_json")
    return Parsed(value, error="error_in_body" if isinstance(value, dict) and is_error(value) else None)


def is_error(value: Json) -> bool:
    """Whether an object is an engine's way of saying that it failed."""
    return bool(value.get("error")) or value.get("object") == "error" or value.get("type") == "error"


def _stream(body: bytes) -> Parsed:
    events, error = plain_events(body), None
    if events is None:
        events, error = any_events(body)
    objects: list[Json] = []
    for event in events:
        if not event.dispatched or event.data == _DONE:
            continue
        try:
            value = loads(event.data)
        except NotJson:
            error = error or ("not_json" if event.whole else "cut")
            continue
        if value is None:
            continue
        if not isinstance(value, dict) or event.event == b"error" or is_error(value):
            error = error or "stream_error"
            continue
        objects.append(value)
    if not objects and error is None and body.lstrip().startswith(b"{"):
        return _whole(body)  # JSON under a stream's content type, as some front ends send their errors
    return Parsed(events=tuple(objects), error=error)


def record(value: Any) -> Json:
    """Return an object, or an empty one in place of anything else."""
    return value if isinstance(value, dict) else {}


def records(value: Any) -> list[Json]:
    """Return the objects of a list; nothing of anything else."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def text(value: Any) -> str:
    """Return a text, or an empty one in place of anything else."""
    return value if isinstance(value, str) else ""
