"""The shapes that all OpenAI-compatible engines share, with the places where they differ as fields.

House rules. Pure. Knows no engine by name: a dialect's writer fills in a ``Shape``. Key order follows the recorded replies, for people who read them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from engines.scripted.asked import Asked
from engines.scripted.engine import Engine, Event
from engines.scripted.generate import Call, Row, Said, Step

Json = dict[str, Any]
Ids = tuple[int, ...]


def nothing(*_: Any) -> Json:
    """Add no field."""
    return {}


def eaten(_: Asked, step: Step) -> bool:
    """Send no event for a token that a parser keeps to itself."""
    return step.eaten and step.finish is None


@dataclass(frozen=True, slots=True)
class Shape:
    """One engine's chat or completions replies.

    ``rows``: a choice's ``logprobs`` from its steps. ``choice``, ``reply``, ``chunk`` and ``event``: fields of its own on a whole choice, a whole reply, a choice of an
    event, an event (which is the ``first``, a ``token``, the ``last`` or the one of ``usage``); ``chunk`` is handed the prompt with a choice's first token. ``first``: the delta of a chat's first event. ``apart``: the finish reason comes in an event of its own. ``silent``: whether a
    token gets no event. ``absent``: there is no key ``logprobs`` where there are none; ``lean``: events hold no nulls. ``counted``: more of
    ``usage``. ``numbered``: calls of whole replies have their place.
    """

    rows: Callable[[Engine, Asked, Sequence[Step], int], Json | None]
    reasoning: str = "reasoning_content"
    message: Callable[[Engine, Asked, Said], Json] = nothing
    choice: Callable[[Engine, Asked, Said], Json] = nothing
    reply: Callable[[Engine, Asked, Sequence[Said]], Json] = nothing
    chunk: Callable[[Engine, Asked, Step, Ids | None], Json] = nothing
    event: Callable[[Engine, Asked, str], Json] = nothing
    first: Json | None = None
    apart: bool = False
    silent: Callable[[Asked, Step], bool] = eaten
    absent: bool = False
    lean: bool = False
    counted: Json = field(default_factory=dict)
    numbered: bool = False


def head(engine: Engine, asked: Asked, kind: str) -> Json:
    """Begin a reply or an event."""
    prefix = "chatcmpl" if asked.chat else "cmpl"
    name = f"{prefix}-{engine.digest(dict(asked.body))[:24]}"
    return {"id": name, "object": kind, "created": engine.started, "model": engine.script.model}


def usage(asked: Asked, said: int) -> Json:
    """Count tokens: of every prompt once, of every choice."""
    before = sum(map(len, asked.prompts))
    return {"prompt_tokens": before, "total_tokens": before + said, "completion_tokens": said}


def whole(engine: Engine, asked: Asked, shape: Shape) -> tuple[Json, int]:
    """Write a reply that is not a stream; and how many tokens it took."""
    said = engine.whole(asked)
    total = sum(len(one.steps) for one in said)
    value = head(engine, asked, "chat.completion" if asked.chat else "text_completion")
    value["choices"] = [_choice(engine, asked, shape, place, one) for place, one in enumerate(said)]
    value["usage"] = {**usage(asked, total), **shape.counted}
    return {**value, **shape.reply(engine, asked, said)}, total


def _choice(engine: Engine, asked: Asked, shape: Shape, place: int, said: Said) -> Json:
    choice: Json = {"index": place}
    rows = None if asked.top is None else shape.rows(engine, asked, said.steps, 0)
    if asked.chat:
        choice["message"] = _message(engine, asked, shape, said)
    else:
        choice["text"] = (engine.toy.table.decode(said.prompt) if asked.echo else "") + said.text()
    if rows is not None or not shape.absent:
        choice["logprobs"] = rows
    choice["finish_reason"] = said.finish
    return {**choice, **shape.choice(engine, asked, said)}


def _message(engine: Engine, asked: Asked, shape: Shape, said: Said) -> Json:
    calls, thought = said.calls, said.text("reasoning")
    content = said.text() if said.text() or not calls else None
    message = {"role": "assistant", "content": content, **shape.message(engine, asked, said)}
    if thought:
        message[shape.reasoning] = thought
    if calls:
        named = [called(said, place, call) for place, call in enumerate(calls)]
        numbers = [{"index": place} if shape.numbered else {} for place in range(len(named))]
        message["tool_calls"] = [{**number, **one} for number, one in zip(numbers, named, strict=True)]
    return message


def called(said: Said, place: int, call: Call) -> Json:
    """Write one tool call."""
    name = f"call_{len(said.prompt)}_{place}"
    return {"id": name, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def stream(engine: Engine, asked: Asked, shape: Shape) -> Iterator[Event]:
    """Write a reply event by event, the choices in turns."""
    common = head(engine, asked, "chat.completion.chunk" if asked.chat else "text_completion")
    total = 0
    running = [
        (place, _chunks(engine, asked, shape, place, prompt))
        for place, prompt in enumerate(prompt for prompt in asked.prompts for _ in range(asked.n))
    ]
    while running:
        left = []
        for place, chunks in running:
            found = next(chunks, None)
            if found is None:
                continue
            left.append((place, chunks))
            at, choice, tokens = found
            total += tokens
            value = {} if choice is None else {**common, "choices": [choice], **shape.event(engine, asked, at)}
            yield Event(value, tokens)
        running = left
    if asked.usage:
        counted = {**usage(asked, total), **shape.counted}
        yield Event({**common, "choices": [], "usage": counted, **shape.event(engine, asked, "usage")})


_Chunks = Iterator[tuple[str, Json | None, int]]


def _chunks(engine: Engine, asked: Asked, shape: Shape, place: int, prompt: tuple[int, ...]) -> _Chunks:
    """Give one choice's events: which one it is, its choice (None: a token without an event), how many tokens came with it."""
    if asked.chat and shape.first is not None:
        yield "first", _chunk(shape, place, {"delta": dict(shape.first)}, None, None, {}), 0
    offset, calls, finish = 0, 0, "length"
    before: Ids | None = prompt
    for step in engine.said(asked, prompt, place % asked.n, stream=True):
        rows = None if asked.top is None else shape.rows(engine, asked, [step], offset)
        offset += len(engine.toy.table.text_of(step.row.id))
        extra = shape.chunk(engine, asked, step, before)
        ends = None if shape.apart else step.finish
        at = "last" if ends else "token"
        before, finish = None, step.finish or "length"
        delta: Json = {"delta": _delta(shape, step, calls)} if asked.chat else {"text": step.text}
        calls += len(step.calls)
        silent = shape.silent(asked, step)
        yield at, None if silent else _chunk(shape, place, delta, rows, ends, extra), 1
    if shape.apart:
        yield "last", _chunk(shape, place, {"delta": {}} if asked.chat else {"text": ""}, None, finish, {}), 0


def _delta(shape: Shape, step: Step, before: int) -> Json:
    if step.calls:
        return {
            "tool_calls": [
                {
                    "index": before + place,
                    "id": f"call_{before + place}",
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for place, call in enumerate(step.calls)
            ]
        }
    if step.eaten and not step.finish:
        return {}
    return {shape.reasoning if step.channel == "reasoning" else "content": step.text}


def _chunk(shape: Shape, place: int, delta: Json, rows: Json | None, finish: str | None, extra: Json) -> Json:
    chunk: Json = {"index": place, **delta}
    if rows is not None or not (shape.absent or shape.lean):
        chunk["logprobs"] = rows
    if finish is not None or not shape.lean:
        chunk["finish_reason"] = finish
    return {**chunk, **extra}


def entry(engine: Engine, token: int, logprob: float, *, as_id: bool = False, data: bytes | None = b"") -> Json:
    """Write one token with its logprob; ``data`` None leaves ``bytes`` out, empty takes those of its text."""
    text = f"token_id:{token}" if as_id else engine.toy.table.text_of(token, special=True)
    written: Json = {"token": text, "logprob": logprob}
    if data is not None:
        written["bytes"] = list(data or text.encode())
    return written


def chat_rows(engine: Engine, asked: Asked, steps: Sequence[Step], _: int) -> Json:
    """Write ``logprobs.content``: bytes are those of the decoded text."""
    return {"content": [_row(engine, asked, step.row) for step in steps]}


def _row(engine: Engine, asked: Asked, row: Row) -> Json:
    return {
        **entry(engine, row.id, row.logprob, as_id=asked.as_ids),
        "top_logprobs": [entry(engine, token, value, as_id=asked.as_ids) for token, value in row.top],
    }


def legacy_rows(engine: Engine, asked: Asked, steps: Sequence[Step], offset: int) -> Json:
    """Write the parallel arrays of completions; equal texts collapse, as they do in the engines."""
    lists: Json = {"text_offset": [], "token_logprobs": [], "tokens": [], "top_logprobs": []}
    for step in steps:
        add_row(engine, asked, lists, step.row.id, step.row, offset)
        offset += len(engine.toy.table.text_of(step.row.id))
    return lists


def add_row(engine: Engine, asked: Asked, lists: Json, token: int, row: Row | None, offset: int) -> None:
    """Add one token to the parallel arrays; ``row`` None is a null."""
    lists["text_offset"].append(offset)
    lists["tokens"].append(_label(engine, token, asked))
    lists["token_logprobs"].append(None if row is None else row.logprob)
    if row is None:
        lists["top_logprobs"].append(None)
        return
    best: Json = {_label(engine, row.id, asked): row.logprob}
    for other, value in row.top:
        best.setdefault(_label(engine, other, asked), value)
    lists["top_logprobs"].append(best)


def _label(engine: Engine, token: int, asked: Asked) -> str:
    return f"token_id:{token}" if asked.as_ids else engine.toy.table.text_of(token, special=True)
