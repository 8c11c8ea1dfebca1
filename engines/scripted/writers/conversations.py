"""``/v1/responses`` and ``/v1/messages``: the same chat in the words of OpenAI's and Anthropic's other interfaces.

House rules. Pure. Text, reasoning, tool calls and usage; the streams have the events that readers need, and no others.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from engines.scripted.asked import Asked, Habits, asked, tools_of
from engines.scripted.engine import Engine, Event, Query, Route, Stream, Whole
from engines.scripted.generate import Call, Said
from engines.scripted.refused import Refused

Json = dict[str, Any]


def routes(habits: Habits) -> Mapping[str, Route]:
    """Return the routes; ``habits`` are those of the dialect's chats."""
    return {
        "POST /v1/responses": lambda engine, query: _responses(habits, engine, query),
        "POST /v1/messages": lambda engine, query: _messages(habits, engine, query),
    }


def _responses(habits: Habits, engine: Engine, query: Query) -> Whole | Stream:
    body = query.body
    given = body.get("input")
    listed = [{"role": "user", "content": given}] if isinstance(given, str) else given
    if not isinstance(listed, list):
        raise Refused("input: a text or a list of items is required", param="input")
    messages = [{"role": "system", "content": body["instructions"]}] if body.get("instructions") else []
    messages += [one for one in listed if isinstance(one, dict) and one.get("role")]
    chat = {**body, "messages": messages, "max_tokens": body.get("max_output_tokens"), "n": None, "stop": None}
    chat["tools"] = [{"type": "function", "function": one} for one in tools_of(body) or ()] or None
    wanted, said = _chatted(habits, engine, chat)
    name = engine.digest(body)[:24]
    output: list[Json] = []
    if said.text("reasoning"):
        thought = [{"type": "reasoning_text", "text": said.text("reasoning")}]
        output.append({"type": "reasoning", "id": f"rs_{name}", "summary": [], "content": thought})
    if said.text():
        content: list[Json] = [{"type": "output_text", "text": said.text(), "annotations": []}]
        message: Json = {"type": "message", "id": f"msg_{name}", "status": "completed", "role": "assistant"}
        output.append({**message, "content": content})
    for place, call in enumerate(said.calls):
        output.append({"type": "function_call", "id": f"fc_{place}", "call_id": f"call_{place}", **_named(call)})
    cut = said.finish == "length"
    value: Json = {"id": f"resp_{name}", "object": "response", "created_at": engine.started}
    value |= {"status": "incomplete" if cut else "completed", "model": engine.script.model, "output": output}
    value["incomplete_details"] = {"reason": "max_output_tokens"} if cut else None
    value["usage"] = _in_and_out(wanted, said) | {"total_tokens": len(wanted.prompts[0]) + len(said.steps)}
    if body.get("stream") is not True:
        return Whole(value, len(said.steps))
    return Stream(_response_events(value, said), named=True)


def _response_events(value: Json, said: Said) -> Iterator[Event]:
    """Give the events of each item in turn: it begins, its text or arguments grow, it is done."""
    kind = "response.completed" if value["status"] == "completed" else "response.incomplete"
    begun = {**value, "status": "in_progress", "output": []}
    numbered = [
        *(Event({"type": f"response.{name}", "response": begun}) for name in ("created", "in_progress")),
        *(event for place, item in enumerate(value["output"]) for event in _item_events(item, place, said)),
        Event({"type": kind, "response": value}),
    ]
    for number, event in enumerate(numbered):
        yield Event({**event.value, "sequence_number": number}, event.tokens)


def _item_events(item: Json, place: int, said: Said) -> Iterator[Event]:
    at: Json = {"item_id": item["id"], "output_index": place}
    empty = {**item, "content": []} if "content" in item else {**item, "arguments": ""}
    yield Event({"type": "response.output_item.added", "output_index": place, "item": empty})
    if item["type"] == "function_call":
        growing, ends = "response.function_call_arguments", {"arguments": item["arguments"], "name": item["name"]}
        yield Event({"type": f"{growing}.delta", **at, "delta": item["arguments"]})
    else:
        (part,) = item["content"]
        channel = "content" if part["type"] == "output_text" else "reasoning"
        growing, ends = f"response.{part['type']}", {"content_index": 0, "text": part["text"]}
        at["content_index"] = 0
        yield Event({"type": "response.content_part.added", **at, "part": {**part, "text": ""}})
        for step in said.steps:
            if step.channel == channel and step.text:
                yield Event({"type": f"{growing}.delta", **at, "delta": step.text}, 1)
    yield Event({"type": f"{growing}.done", **at, **ends})
    yield Event({"type": "response.output_item.done", "output_index": place, "item": item})


def _messages(habits: Habits, engine: Engine, query: Query) -> Whole | Stream:
    body = query.body
    if not isinstance(body.get("max_tokens"), int):
        raise Refused("max_tokens: Field required", param="max_tokens")
    messages = body.get("messages")
    system = [{"role": "system", "content": body["system"]}] if body.get("system") else []
    chat = {**body, "messages": [*system, *messages] if isinstance(messages, list) else None, "n": None}
    chat |= {"stop": body.get("stop_sequences"), "logprobs": None}
    chat["tools"] = [
        {"type": "function", "function": {"name": one.get("name"), "parameters": one.get("input_schema")}}
        for one in tools_of(body) or ()
    ] or None
    wanted, said = _chatted(habits, engine, chat)
    content: list[Json] = []
    if said.text("reasoning"):
        content.append({"type": "thinking", "thinking": said.text("reasoning"), "signature": ""})
    if said.text():
        content.append({"type": "text", "text": said.text()})
    for place, call in enumerate(said.calls):
        content.append({"type": "tool_use", "id": f"toolu_{place}", "name": call.name, "input": _read(call.arguments)})
    last = said.steps[-1].stop if said.steps else None
    reason = {"length": "max_tokens", "tool_calls": "tool_use"}.get(
        said.finish, "stop_sequence" if last else "end_turn"
    )
    head: Json = {"id": f"msg_{engine.digest(body)[:24]}", "type": "message", "role": "assistant"}
    head |= {"model": engine.script.model, "content": content, "stop_reason": reason, "stop_sequence": last}
    head["usage"] = _in_and_out(wanted, said)
    return (
        Stream(_message_events(head, said), named=True) if body.get("stream") is True else Whole(head, len(said.steps))
    )


def _message_events(value: Json, said: Said) -> Iterator[Event]:
    yield Event({"type": "message_start", "message": {**value, "content": [], "stop_reason": None}})
    kinds = {"text": ("text_delta", "text"), "thinking": ("thinking_delta", "thinking")}
    for place, block in enumerate(value["content"]):
        empty = {**block, **{name: "" for name in ("text", "thinking") if name in block}}
        yield Event({"type": "content_block_start", "index": place, "content_block": empty})
        if block["type"] in kinds:
            kind, name = kinds[block["type"]]
            channel = "content" if name == "text" else "reasoning"
            for step in said.steps:
                if step.channel == channel and step.text:
                    delta = {"type": kind, name: step.text}
                    yield Event({"type": "content_block_delta", "index": place, "delta": delta}, 1)
        yield Event({"type": "content_block_stop", "index": place})
    ends = {"stop_reason": value["stop_reason"], "stop_sequence": value["stop_sequence"]}
    yield Event({"type": "message_delta", "delta": ends, "usage": value["usage"]})
    yield Event({"type": "message_stop"})


def _chatted(habits: Habits, engine: Engine, chat: Json) -> tuple[Asked, Said]:
    wanted = asked(engine.script, habits, {**chat, "logprobs": None, "stream": None}, chat=True)
    return wanted, engine.whole(wanted)[0]


def _in_and_out(wanted: Asked, said: Said) -> Json:
    return {"input_tokens": len(wanted.prompts[0]), "output_tokens": len(said.steps)}


def _named(call: Call) -> Json:
    return {"name": call.name, "arguments": call.arguments, "status": "completed"}


def _read(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return {"raw": arguments}  # what a broken call looks like here: this API has no room for text
