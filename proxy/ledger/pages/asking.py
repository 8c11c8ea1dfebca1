"""A client's request, made readable: messages in their order, the other fields beside them, the whole as JSON below.

House rules. Pure. The body is whatever somebody sent: what does not have the usual shape is shown as the JSON it is. Every text is cut at a length that a page can bear, and says so.
"""

from __future__ import annotations

import json
from typing import Any

from msgspec import Struct

#: Characters of one text, of the JSON as a whole; messages that are shown.
TEXT, RAW, MESSAGES = 4_000, 20_000, 50
_SAID = ("messages", "prompt", "input", "query", "documents", "text_1", "text_2", "instructions", "system")


class Part(Struct, frozen=True):
    """One piece of a message. ``kind``: text, or the word for what it is; ``left_out``: characters that are not shown."""

    kind: str
    text: str
    left_out: int = 0


class Said(Struct, frozen=True):
    """One message: who says what."""

    who: str
    parts: tuple[Part, ...]


class Asking(Struct, frozen=True):
    """The request. ``messages_left_out``: how many are not shown, from the middle."""

    said: tuple[Said, ...]
    fields: tuple[tuple[str, str], ...]
    raw: Part
    messages_left_out: int = 0


def asking(body: str) -> Asking:
    """Read a body as it was recorded."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return Asking((), (), _part(body, "raw", RAW))
    if not isinstance(found, dict):
        return Asking((), (), _part(body, "raw", RAW))
    said = [message for name in _SAID if name in found for message in _messages(name, found[name])]
    left_out = max(0, len(said) - MESSAGES)
    if left_out:
        said = said[: MESSAGES // 2] + said[-MESSAGES // 2 :]
    fields = tuple((_cut(name), _cut(_json(value))) for name, value in list(found.items())[:60] if name not in _SAID)
    return Asking(tuple(said), fields, _part(_json(found, indent=2), "raw", RAW), left_out)


def _messages(name: str, value: Any) -> list[Said]:
    if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
        return [_message(name, one) for one in value]
    if isinstance(value, list) and len(value) > 1 and all(isinstance(one, str) for one in value):
        return [Said(f"{name} {at}", (_part(one),)) for at, one in enumerate(value)]
    return [Said(name, tuple(_content(value)))]


def _message(name: str, one: dict[str, Any]) -> Said:
    parts = _content(one["content"]) if one.get("content") is not None else []
    if "content" not in one and "text" in one:
        parts = _content(one["text"])
    for key in ("reasoning_content", "reasoning", "refusal", "tool_calls", "function_call", "arguments", "output"):
        if one.get(key):
            parts.append(_part(one[key] if isinstance(one[key], str) else _json(one[key]), key.replace("_", " ")))
    who = one.get("role") or one.get("type") or name
    beside = one.get("name") or one.get("tool_call_id") or one.get("call_id")
    return Said(_cut(f"{who} ({beside})" if beside else f"{who}"), tuple(parts))


def _content(value: Any) -> list[Part]:
    if isinstance(value, str):
        return [_part(value)]
    if not isinstance(value, list):
        return [_part(_json(value), "JSON")]
    parts = []
    for one in value[:MESSAGES]:
        text = one if isinstance(one, str) else one.get("text") if isinstance(one, dict) else None
        kind = (
            "text" if isinstance(text, str) else str(one.get("type", "part"))[:40] if isinstance(one, dict) else "JSON"
        )
        parts.append(_part(text, "text") if isinstance(text, str) else _part(_json(one), kind))
    return parts


def _part(text: str, kind: str = "text", longest: int = TEXT) -> Part:
    return Part(kind, text[:longest], max(0, len(text) - longest))


def _json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _cut(text: str, longest: int = 300) -> str:
    return text if len(text) <= longest else f"{text[:longest]}… ({len(text) - longest:,} more characters)"
