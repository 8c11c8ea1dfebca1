"""Replies of ``/v1/messages`` (Anthropic's shape) as one stream of text: whole, or from its events.

House rules. Pure and total. Both forms become the same content blocks first, and only those are interpreted. Source of the shapes: Anthropic's published API
description; recorded replies of vLLM and llama.cpp. A tool's input is JSON there and no text, so its arguments are written canonically, in whichever way they
came. Input tokens are told in three parts (read from a cache, written to it, neither), which are added up.
"""

from __future__ import annotations

from typing import Any

import orjson

from engines.dialect import Answer, Json
from engines.endpoints.parsed import Parsed, parsed, record, records, text
from engines.rows import whole
from proxy.compare.findings import canonical
from proxy.compare.token_stream import Reply, TokenStream, ToolCall

_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}
_INPUT = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
#: What a delta of each kind adds, and to which field of its block.
_DELTAS = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
#: Where a tool's input stands as text.
_WRITTEN = "partial_json"


def read(request: Json, answer: Answer) -> Reply:
    """Read an answer. Never raises; a reply that is no usable answer has ``error`` set."""
    del request  # nothing in it changes how a reply reads
    found = parsed(answer)
    message, error = _merged(found) if found.events else (found.object, found.error)
    if error is None and not isinstance(message.get("content"), list):
        error = "no_choices"
    usage = record(message.get("usage"))
    count = whole(usage.get("output_tokens"))
    given = [whole(usage.get(name)) for name in _INPUT]
    return Reply(
        choices=(_stream(message, count),) if isinstance(message.get("content"), list) else (),
        prompt_tokens=None if given[0] is None else sum(part or 0 for part in given),
        completion_tokens=count,
        cached_tokens=given[2],
        model=text(message.get("model")) or None,
        error=error,
    )


def _merged(found: Parsed) -> tuple[Json, str | None]:
    """Return the message that a stream's events add up to, and what is wrong with it."""
    message: Json = {}
    blocks: dict[int, Json] = {}
    pieces: dict[int, dict[str, list[str]]] = {}
    ended = False
    for event in found.events:
        place = whole(event.get("index"))
        match event.get("type"):
            case "message_start":
                message = dict(record(event.get("message")))
                blocks.update(enumerate(dict(block) for block in records(message.get("content"))))
            case "content_block_start":
                blocks[len(blocks) if place is None else place] = dict(record(event.get("content_block")))
            case "content_block_delta":
                at = max(blocks, default=0) if place is None else place
                _add(blocks.setdefault(at, {}), pieces.setdefault(at, {}), record(event.get("delta")))
            case "message_delta":
                message.update({key: value for key, value in record(event.get("delta")).items() if value is not None})
                message["usage"] = {**record(message.get("usage")), **_known(event.get("usage"))}
            case "message_stop":
                ended = True
            case _:
                pass  # pings, the ends of blocks, and what is not known
    message["content"] = [_joined(block, pieces.get(at, {})) for at, block in sorted(blocks.items())]
    cut = None if ended or message.get("stop_reason") is not None else "cut"
    return message, found.error or cut


def _known(usage: Any) -> Json:
    return {name: value for name, value in record(usage).items() if value is not None}


def _add(block: Json, pieces: dict[str, list[str]], delta: Json) -> None:
    name = _DELTAS.get(text(delta.get("type")))
    said = delta.get(name) if name is not None else None
    if name is not None and isinstance(said, str):
        block.setdefault("type", {"text": "text", "thinking": "thinking"}.get(name, "tool_use"))
        pieces.setdefault(name, []).append(said)


def _joined(block: Json, pieces: dict[str, list[str]]) -> Json:
    return block | {name: text(block.get(name)) + "".join(said) for name, said in pieces.items()}


def _stream(message: Json, count: int | None) -> TokenStream:
    blocks = records(message.get("content"))
    reason = message.get("stop_reason")
    finish = _REASONS.get(reason, "other") if isinstance(reason, str) else None
    return TokenStream(
        text="".join(text(block.get("text")) for block in blocks if block.get("type") == "text"),
        reasoning="".join(text(block.get("thinking")) for block in blocks if block.get("type") == "thinking"),
        tool_calls=tuple(_call(block) for block in blocks if block.get("type") == "tool_use"),
        finish_reason=finish,
        count=count,
        refused=finish == "content_filter",
    )


def _call(block: Json) -> ToolCall:
    written = block.get(_WRITTEN)
    given = block.get("input")
    arguments = written if isinstance(written, str) and written else _dumped(given if given is not None else {})
    return ToolCall(
        text(block.get("name")), canonical(arguments).decode(errors="replace"), text(block.get("id")) or None
    )


def _dumped(value: Any) -> str:
    try:
        return orjson.dumps(value).decode()
    except orjson.JSONEncodeError:  # NaN is not refused, but what nests too deeply is
        return ""
