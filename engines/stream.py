"""A stream's events merged into the one object the same request gets without ``stream``.

House rules. Pure and total. Only merging happens here: what a field means is ``choices``' business. Tolerated, since engines do them
all: several tokens in an event, tokens without text and text without tokens, empty ``choices``, ``null`` events, unknown fields, a
missing ``[DONE]``, usage on any event. Where only the event knows something of a row (its channel, its text), the row is
given it under a private key.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from engines.lenient_json import NotJson, loads
from engines.rows import ROW_CHANNEL, ROW_TEXT, whole
from proxy.compare.sse import Event
from proxy.compare.token_stream import Channel

Json = dict[str, Any]

_DONE = b"[DONE]"
_LEGACY = ("tokens", "token_logprobs", "top_logprobs", "token_ids")
#: Lists of a choice of which each event brings a part; the second and third are LMDeploy's.
_LISTS = ("token_ids", "output_ids", "output_token_logprobs")


@dataclass
class _Choice:
    content: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    refusal: list[str] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    rows: list[Any] = field(default_factory=list)
    legacy: dict[str, list[Any]] = field(default_factory=dict)
    lists: dict[str, list[Any]] = field(default_factory=dict)
    prompt_token_ids: Any = None
    tools: dict[int, Json] = field(default_factory=dict)
    finish_reason: Any = None
    chat: bool = False


def merge(events: Iterable[Event]) -> tuple[Json, str | None]:
    """Return the merged object, and why it is not a whole reply (None: it is): ``stream_error``, ``not_json``, ``cut``, ``no_choices``."""
    head: Json = {}
    choices: dict[int, _Choice] = {}
    error: str | None = None
    done = False
    for event in events:
        if not event.dispatched:
            continue
        if event.data == _DONE:
            done = True
            continue
        try:
            value = loads(event.data)
        except NotJson:
            error = error or (("not_json" if event.whole else "cut") if event.event != b"error" else "stream_error")
            continue
        if value is None:
            continue
        if not isinstance(value, dict) or _is_error(value) or event.event == b"error":
            error = error or "stream_error"
            continue
        _take_event(head, choices, value)
    if error is None and not choices:
        error = "no_choices"
    if error is None and not done and any(choice.finish_reason is None for choice in choices.values()):
        error = "cut"
    head["choices"] = [_whole(index, choice) for index, choice in sorted(choices.items())]
    return head, error


def _is_error(value: Json) -> bool:
    return bool(value.get("error")) or value.get("object") == "error"


def _take_event(head: Json, choices: dict[int, _Choice], value: Json) -> None:
    for key, item in value.items():
        if key == "choices" or item is None:
            continue
        if key == "usage" and isinstance(item, dict):
            known, told = head.get("usage"), {name: part for name, part in item.items() if part is not None}
            if isinstance(known, dict):
                known.update(told)
            else:
                head["usage"] = told
        elif key == "prompt_token_ids":
            head.setdefault(key, item)
        else:
            head[key] = item
    listed = value.get("choices")
    for place, choice in enumerate(listed if isinstance(listed, list) else ()):
        if isinstance(choice, dict):
            index = whole(choice.get("index"))
            index = place if index is None else index
            into = choices.get(index)
            if into is None:
                into = choices[index] = _Choice()
            _take_choice(into, choice)


def _take_choice(into: _Choice, choice: Json) -> None:
    channel, text = Channel.CONTENT, choice.get("text")
    if isinstance(text, str):
        into.text.append(text)
    delta = choice.get("delta")
    if isinstance(delta, dict):
        into.chat = True
        channel, text = _take_delta(into, delta)
    if isinstance(choice.get("message"), dict):  # a stream that ends with a whole message, or is one
        into.chat = True
        channel, text = _take_delta(into, choice["message"])
    logprobs = choice.get("logprobs")
    if isinstance(logprobs, int | float) and not isinstance(logprobs, bool):
        logprobs = _single(choice, logprobs, text)
    _take_logprobs(into, logprobs, channel, text)
    for name in _LISTS:
        if isinstance(choice.get(name), list):
            into.lists.setdefault(name, []).extend(choice[name])
    if into.prompt_token_ids is None:
        into.prompt_token_ids = choice.get("prompt_token_ids")
    if choice.get("finish_reason") is not None:
        into.finish_reason = choice["finish_reason"]


def _single(choice: Json, logprob: float, text: Any) -> Json:
    """Return Together's way of an event, one token with its value as ``logprobs`` and its id in the delta, as arrays."""
    delta = choice.get("delta")
    known = delta.get("token_id") if isinstance(delta, dict) else None
    shown = text if isinstance(text, str) else ""
    return {
        "tokens": [shown],
        "token_logprobs": [logprob],
        "token_ids": [known],
        "top_logprobs": [choice.get("top_logprobs")],
    }


def _take_delta(into: _Choice, delta: Json) -> tuple[Channel, Any]:
    """Add a delta; returns the channel its tokens belong to, and its text."""
    content = delta.get("content")
    if len(delta) == 1 and isinstance(content, str):  # nearly every event
        into.content.append(content)
        return Channel.CONTENT, content
    reasoning = delta.get("reasoning") or delta.get("reasoning_content")
    calls = delta.get("tool_calls")
    if isinstance(content, str):
        into.content.append(content)
    if isinstance(reasoning, str):
        into.reasoning.append(reasoning)
    if isinstance(delta.get("refusal"), str):
        into.refusal.append(delta["refusal"])
    if isinstance(delta.get("function_call"), dict):  # the older form of one call
        calls = [{"index": 0, "function": delta["function_call"]}]
    if isinstance(calls, dict):  # TGI before 3 sends one call by itself
        calls = [calls]
    for place, call in enumerate(calls if isinstance(calls, list) else ()):
        if isinstance(call, dict):
            _take_call(into.tools, call, place)
    if isinstance(content, str) and content:
        return Channel.CONTENT, content
    if isinstance(reasoning, str) and reasoning:
        return Channel.REASONING, reasoning
    return (Channel.TOOL, None) if calls else (Channel.CONTENT, content)


def _take_call(tools: dict[int, Json], call: Json, place: int) -> None:
    index = whole(call.get("index"))
    merged = tools.setdefault(place if index is None else index, {"function": {"name": "", "arguments": []}})
    if merged.get("id") is None:
        merged["id"] = call.get("id")
    function = call.get("function")
    if isinstance(function, dict):
        if isinstance(function.get("name"), str):
            merged["function"]["name"] = merged["function"]["name"] or function["name"]
        if isinstance(function.get("arguments"), str):
            merged["function"]["arguments"].append(function["arguments"])


def _take_logprobs(into: _Choice, logprobs: Any, channel: Channel, text: Any) -> None:
    if not isinstance(logprobs, dict):
        return
    rows = logprobs.get("content")
    if isinstance(rows, list):
        for row in rows:
            if isinstance(row, dict) and channel is not Channel.CONTENT:
                row[ROW_CHANNEL] = channel
            if isinstance(row, dict) and len(rows) == 1 and isinstance(text, str):
                row[ROW_TEXT] = (text,)
        into.rows += rows
    tokens = logprobs.get("tokens")
    if isinstance(tokens, list):
        for name in _LEGACY:
            column = logprobs.get(name)
            fits = isinstance(column, list) and len(column) == len(tokens)
            into.legacy.setdefault(name, []).extend(column if fits else [None] * len(tokens))  # type: ignore[arg-type] # a list when it fits


def _whole(index: int, choice: _Choice) -> Json:
    """Return the choice in the shape it has in a reply that is not a stream."""
    logprobs: Json | None = dict(choice.legacy) if choice.legacy else None
    if choice.rows:
        logprobs = {**(logprobs or {}), "content": choice.rows}
    merged: Json = {
        "index": index,
        "finish_reason": choice.finish_reason,
        "logprobs": logprobs,
        "token_ids": None,
        **choice.lists,
        "prompt_token_ids": choice.prompt_token_ids,
    }
    if not choice.chat:
        merged["text"] = "".join(choice.text)
        return merged
    calls = [
        {**call, "function": {**call["function"], "arguments": "".join(call["function"]["arguments"])}}
        for _, call in sorted(choice.tools.items())
    ]
    merged["message"] = {
        "content": "".join(choice.content),
        "reasoning": "".join(choice.reasoning),
        "refusal": "".join(choice.refusal),
        "tool_calls": calls,
    }
    return merged
