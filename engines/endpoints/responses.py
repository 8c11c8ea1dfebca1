"""Replies of ``/v1/responses`` as one stream of text: whole, or from its events.

House rules. Pure and total. Both forms become the same list of output items first, and only that is interpreted, so that a stream reads as the whole reply
does. Source of the shapes: OpenAI's published API description; recorded replies of vLLM and llama.cpp (which gives its events no ``output_index``, and
says ``completed`` where the limit was hit).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from engines.dialect import Answer, Json
from engines.endpoints.parsed import Parsed, parsed, record, records, text
from engines.rows import whole
from proxy.compare.token_stream import Reply, TokenStream, ToolCall

#: Events that end a stream and carry the whole response.
_LAST = frozenset({"response.completed", "response.incomplete", "response.failed", "response.cancelled"})
#: What a delta of each kind adds to.
_DELTAS = {
    "response.output_text.delta": "output_text",
    "response.refusal.delta": "refusal",
    "response.reasoning_text.delta": "reasoning_text",
    "response.reasoning_summary_text.delta": "summary_text",
    "response.function_call_arguments.delta": "arguments",
    "response.custom_tool_call_input.delta": "input",
}
_REASONS = {"max_output_tokens": "length", "max_tokens": "length", "content_filter": "content_filter"}


@dataclass
class _Item:
    """An output item as its events tell of it: as it was added, what was added to it since, and as it was when done."""

    added: Json = field(default_factory=dict)
    parts: dict[str, list[str]] = field(default_factory=dict)
    done: Json | None = None


def read(request: Json, answer: Answer) -> Reply:
    """Read an answer. Never raises; a reply that is no usable answer has ``error`` set."""
    found = parsed(answer)
    response, error = _merged(found) if found.events else (found.object, found.error)
    if error is None and not isinstance(response.get("output"), list):
        error = "cut" if found.events else "no_choices"
    usage = record(response.get("usage"))
    count = whole(usage.get("output_tokens"))
    error = error or _unfinished(response)
    return Reply(
        choices=() if "output" not in response else (_stream(request, response, count),),
        prompt_tokens=whole(usage.get("input_tokens")),
        completion_tokens=count,
        cached_tokens=whole(record(usage.get("input_tokens_details")).get("cached_tokens")),
        model=text(response.get("model")) or None,
        error=error,
    )


def _unfinished(response: Json) -> str | None:
    """Say why a response is none yet, or never will be: ``finish_<status>``."""
    status = response.get("status")
    return f"finish_{status}" if status in ("failed", "cancelled", "queued", "in_progress") else None


def _merged(found: Parsed) -> tuple[Json, str | None]:
    """Return the response that a stream's events add up to, and what is wrong with it."""
    items: dict[Any, _Item] = {}
    last: Json | None = None
    for event in found.events:
        kind = text(event.get("type"))
        if kind in _LAST:
            last = record(event.get("response"))
        elif kind in ("response.output_item.added", "response.output_item.done"):
            item = record(event.get("item"))
            into = items.setdefault(_key(event, item.get("id"), items), _Item())
            if kind.endswith("added"):
                into.added = item
            else:
                into.done = item
        elif kind in _DELTAS and isinstance(event.get("delta"), str):
            into = items.setdefault(_key(event, event.get("item_id"), items), _Item())
            into.parts.setdefault(_DELTAS[kind], []).append(event["delta"])
    output = [_item(one) for one in items.values()]
    if last is None:
        return {"output": output}, found.error or "cut"
    return {**last, "output": output or last.get("output")}, found.error


def _key(event: Json, identity: Any, items: dict[Any, _Item]) -> Any:
    """Return what tells an item from others: its place, its id, else that it is the one being written."""
    place = whole(event.get("output_index"))
    if place is not None:
        return place
    return identity if isinstance(identity, str) else next(reversed(items), None)


def _item(one: _Item) -> Json:
    """Return one item in the shape it has in a whole reply. What was streamed counts; what came only at the end fills in."""
    item = {**one.added, **(one.done or {})}
    joined = {name: "".join(pieces) for name, pieces in one.parts.items()}
    for name in ("arguments", "input"):
        if name in joined:
            item[name] = joined.pop(name)
            item.setdefault("type", "function_call" if name == "arguments" else "custom_tool_call")
    if summary := joined.pop("summary_text", None):
        item["summary"] = [{"type": "summary_text", "text": summary}]
        item.setdefault("type", "reasoning")
    if joined:
        item["content"] = [
            {"type": kind, "refusal" if kind == "refusal" else "text": said} for kind, said in joined.items()
        ]
        item.setdefault("type", "reasoning" if "reasoning_text" in joined else "message")
    return item


def _stream(request: Json, response: Json, count: int | None) -> TokenStream:
    items = records(response.get("output"))
    calls = tuple(call for item in items if (call := _call(item)) is not None)
    parts = [part for item in items if item.get("type") == "message" for part in records(item.get("content"))]
    refusals = [text(part.get("refusal")) for part in parts if part.get("type") == "refusal"]
    finish = _finish(request, response, called=bool(calls), count=count)
    return TokenStream(
        text="".join(text(part.get("text")) for part in parts if part.get("type") == "output_text") + "".join(refusals),
        reasoning="".join(_reasoning(item for item in items if item.get("type") == "reasoning")),
        tool_calls=calls,
        finish_reason=finish,
        count=count,
        refused=bool(refusals) or finish == "content_filter",
    )


def _reasoning(items: Iterable[Json]) -> Iterable[str]:
    """Yield what a model thought: in its own words where they are shown, else as summarised."""
    for item in items:
        own = [text(part.get("text")) for part in records(item.get("content"))]
        yield from own or [text(part.get("text")) for part in records(item.get("summary"))]


def _call(item: Json) -> ToolCall | None:
    match item.get("type"):
        case "function_call":
            return ToolCall(text(item.get("name")), text(item.get("arguments")), text(item.get("call_id")) or None)
        case "custom_tool_call":
            return ToolCall(text(item.get("name")), text(item.get("input")), text(item.get("call_id")) or None)
        case _:
            return None


def _finish(request: Json, response: Json, *, called: bool, count: int | None) -> str | None:
    """Return the finish reason in chat's words.

    An engine that says ``completed`` after as many tokens as it was allowed has most likely hit the limit: then nothing after it is a difference.
    """
    limit = whole(request.get("max_output_tokens"))
    match response.get("status"):
        case "completed":
            if limit is not None and count is not None and count >= limit:
                return "length"
            return "tool_calls" if called else "stop"
        case "incomplete":
            reason = record(response.get("incomplete_details")).get("reason")
            return _REASONS.get(reason, "other") if isinstance(reason, str) else "other"
        case _:
            return None
