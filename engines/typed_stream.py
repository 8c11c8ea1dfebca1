"""Streams of content read straight into typed events and rows: all events in one go, and merged column by column.

House rules. Those of ``typed``: total, and only a short cut. The usual stream: every event one line of ``data: {...}``, one choice, content and nothing else in its
deltas.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from engines.typed import LabelRow, Logprobs, SpelledRow, TextRow, Way, columns, is_text, way
from proxy.compare.sse import MAX_EVENT

Json = dict[str, Any]
R = TypeVar("R")


class _Delta(Struct, gc=False):
    """What an event adds. A field that is None may not be there as anything else."""

    content: str | None = None
    reasoning: None = None
    reasoning_content: None = None
    refusal: None = None
    tool_calls: None = None
    function_call: None = None


class _Choice(Struct, Generic[R]):
    delta: _Delta
    logprobs: Logprobs[R] | None = None
    index: int | None = None
    finish_reason: Any = None
    token_ids: list[Any] | None = None
    prompt_token_ids: Any = None
    text: None = None
    message: None = None


class _Event(Struct, Generic[R]):
    choices: list[_Choice[R]]
    usage: dict[str, Any] | None = None
    model: Any = None
    system_fingerprint: Any = None
    prompt_token_ids: Any = None
    object: str | None = None
    error: None = None


_DECODERS: dict[Way, msgspec.json.Decoder[Any]] = {
    Way.LABEL: msgspec.json.Decoder(_Event[LabelRow]),
    Way.TEXT: msgspec.json.Decoder(_Event[TextRow]),
    Way.SPELLED: msgspec.json.Decoder(_Event[SpelledRow]),
}
_DONE = b"\n\ndata: [DONE]\n\n"


def stream(body: bytes, *, rows_shown: bool) -> tuple[Json, str | None] | None:
    """Return what ``stream.merge`` makes of the events, its rows as ``Columns``; None when they are to be read the long way.

    ``rows_shown``: the events have rows; else it is quicker not to look for them.
    """
    called = (way(body) if rows_shown else None) or Way.TEXT
    events = _events(body, _DECODERS[called])
    if events is None or any(len(event.choices) > 1 or event.object == "error" for event in events):
        return None
    said = [event.choices[0] for event in events if event.choices]
    if not said or len({choice.index or 0 for choice in said}) > 1:
        return None
    rows: list[Any] = []
    texts: list[str | None] = []
    for choice in said:
        if choice.logprobs is not None:
            its = choice.logprobs.content
            rows += its
            texts += [choice.delta.content] if len(its) == 1 else [None] * len(its)
    tokens = columns(rows, called, texts)
    if tokens is None:
        return None
    merged: Json = {
        "index": said[0].index or 0,
        "finish_reason": _last([choice.finish_reason for choice in said]),
        "logprobs": {"content": tokens} if rows else None,
        "token_ids": _joined([choice.token_ids for choice in said]),
        "prompt_token_ids": _first([choice.prompt_token_ids for choice in said]),
        "message": {"content": "".join([choice.delta.content or "" for choice in said])},
    }
    cut = merged["finish_reason"] is None and not body.endswith(_DONE)
    return {**_head(events), "choices": [merged]}, "cut" if cut else None


def _events(body: bytes, decoder: msgspec.json.Decoder[Any]) -> list[Any] | None:
    r"""Decode every event of a stream that is nothing but ``data: {...}\n\n`` and perhaps ``[DONE]``.

    Where they lie: copies of the lines would cost a third of what decoding does.
    """
    end = len(body) - (len(_DONE) if body.endswith(_DONE) else 2)
    if not body.endswith(b"\n\n") or len(body) > MAX_EVENT // 2 or b"\r" in body or not is_text(body):
        return None
    events: list[Any] = []
    view, at = memoryview(body), 0
    try:
        while at < end:
            stop = body.find(b"\n", at, end)
            stop = end if stop < 0 else stop
            if not body.startswith(b"data: {", at) or not body.startswith(b"}\n\n", stop - 1):
                return None
            events.append(decoder.decode(view[at + 6 : stop]))
            at = stop + 2
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None
    return events


def _head(events: list[Any]) -> Json:
    usage: Json = {}
    for event in events:
        if event.usage is not None:
            usage.update({name: part for name, part in event.usage.items() if part is not None})
    return {
        "usage": usage,
        "model": _last([event.model for event in events]),
        "system_fingerprint": _last([event.system_fingerprint for event in events]),
        "prompt_token_ids": _first([event.prompt_token_ids for event in events]),
    }


def _first(values: list[Any]) -> Any:
    return next((value for value in values if value is not None), None)


def _last(values: list[Any]) -> Any:
    return _first(values[::-1])


def _joined(lists: list[list[Any] | None]) -> list[Any] | None:
    known = [one for one in lists if one is not None]
    return [item for one in known for item in one] if known else None
