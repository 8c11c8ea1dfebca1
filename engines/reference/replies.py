"""Whole replies and stream chunks of both endpoints, from the worker's events.

One ``Reply`` describes a request's answer; the functions write it as vLLM writes it (its shapes are what people's clients read): ids in ``token_ids``, the end
token as a row, a first chat chunk with the role, usage in a last chunk without choices.

House rules: pure; no sockets, no clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

from engines.reference.protocol import Shown
from engines.reference.refusal import Json
from engines.reference.row_json import chat_row, completion_rows, prompt_rows
from engines.reference.tokens import TextStream, TokenTable
from engines.reference.work import Event, PromptRead, Step


class Reply(Struct, frozen=True, kw_only=True):
    """What all parts of one answer share. ``prompts`` are the token ids of each prompt, ``n`` the choices of each."""

    id: str
    created: int
    model: str
    fingerprint: str
    chat: bool
    n: int
    prompts: tuple[tuple[int, ...], ...]
    shown: Shown
    table: TokenTable

    @property
    def prompt_tokens(self) -> int:
        """Tokens of all prompts, each counted once."""
        return sum(len(prompt) for prompt in self.prompts)


def whole(reply: Reply, events: Iterable[Event]) -> Json:
    """Write the reply to a request without ``stream``."""
    read: dict[int, PromptRead] = {}
    steps: dict[int, list[Step]] = {place: [] for place in range(len(reply.prompts) * reply.n)}
    for event in events:
        match event:
            case PromptRead():
                read[event.prompt] = event
            case Step():
                steps[event.index].append(event)
    body: Json = {
        **_head(reply, "chat.completion" if reply.chat else "text_completion"),
        "choices": [_choice(reply, place, own, read.get(place // reply.n)) for place, own in steps.items()],
        "usage": usage(reply, sum(step.token is not None for own in steps.values() for step in own)),
        "system_fingerprint": reply.fingerprint,
    }
    if reply.chat:
        first = read.get(0)
        body["prompt_logprobs"] = prompt_rows(first.rows if first else None, reply.table)
        body["prompt_token_ids"] = list(reply.prompts[0]) if reply.shown.ids else None
    return body


class Chunks:
    """The chunks of a stream: ``push`` gives those that an event makes, ``end`` the last ones."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self._read: dict[int, PromptRead] = {}
        self._before: dict[int, int] = {}
        self._produced = 0

    def push(self, event: Event) -> list[Json]:
        """Write what one event adds; one chunk a token, and one that opens each choice."""
        match event:
            case PromptRead():
                self._read[event.prompt] = event
                return []
            case Step():
                made = [] if event.index in self._before else self._open(event.index)
                self._produced += event.token is not None
                return [*made, _chunk(self._reply, _moved(event, self._before[event.index]))]

    def end(self) -> list[Json]:
        """Write the usage chunk if it was asked for."""
        if not self._reply.shown.usage:
            return []
        counted = usage(self._reply, self._produced)
        return [
            {
                **_head(self._reply, _kind(self._reply)),
                "choices": [],
                "usage": counted,
                "system_fingerprint": self._reply.fingerprint,
            }
        ]

    def _open(self, index: int) -> list[Json]:
        reply, place = self._reply, index // self._reply.n
        self._before[index] = 0
        ids = list(reply.prompts[place]) if reply.shown.ids else None
        if reply.chat:
            choice: Json = {
                "index": index,
                "delta": {"role": "assistant", "content": ""},
                "logprobs": None,
                "finish_reason": None,
            }
            return [{**_head(reply, _kind(reply)), "choices": [choice], "prompt_token_ids": ids}]
        if not reply.shown.echo and ids is None:
            return []
        echoed = echo(reply.prompts[place], self._read.get(place), reply.table) if reply.shown.echo else []
        rows = (
            completion_rows(echoed, reply.table, as_id=reply.shown.tokens_as_ids)
            if reply.shown.rows and echoed
            else None
        )
        text = "".join(step.text for step in echoed)
        self._before[index] = len(text)
        choice = {"index": index, "text": text, "logprobs": rows, "finish_reason": None, "stop_reason": None}
        return [{**_head(reply, _kind(reply)), "choices": [choice | {"prompt_token_ids": ids, "token_ids": None}]}]


def usage(reply: Reply, produced: int) -> Json:
    """Count tokens as OpenAI does: prompts once, all choices together."""
    return {
        "prompt_tokens": reply.prompt_tokens,
        "total_tokens": reply.prompt_tokens + produced,
        "completion_tokens": produced,
    }


def _head(reply: Reply, kind: str) -> Json:
    return {"id": reply.id, "object": kind, "created": reply.created, "model": reply.model}


def _kind(reply: Reply) -> str:
    return "chat.completion.chunk" if reply.chat else "text_completion"


def _choice(reply: Reply, place: int, steps: Sequence[Step], read: PromptRead | None) -> Json:
    text = "".join(step.text for step in steps)
    last = steps[-1]
    ids = [step.token for step in steps if step.token is not None]
    choice: Json = {"index": place}
    if reply.chat:
        choice["message"] = {"role": "assistant", "content": text, "refusal": None, "reasoning": None, "tool_calls": []}
        choice["logprobs"] = _chat_rows(reply, steps)
    else:
        prompt = reply.prompts[place // reply.n]
        echoed = echo(prompt, read, reply.table) if reply.shown.echo else []
        before = "".join(step.text for step in echoed)
        choice["text"] = before + text
        rows = [*echoed, *(_moved(step, len(before)) for step in steps)]
        choice["logprobs"] = (
            completion_rows(rows, reply.table, as_id=reply.shown.tokens_as_ids) if reply.shown.rows else None
        )
        choice["prompt_logprobs"] = prompt_rows(read.rows if read else None, reply.table)
        choice["prompt_token_ids"] = list(prompt) if reply.shown.ids else None
    choice |= {
        "finish_reason": last.finish,
        "stop_reason": last.stop_reason,
        "token_ids": ids if reply.shown.ids else None,
    }
    return choice


def _chunk(reply: Reply, step: Step) -> Json:
    ids = [step.token] if reply.shown.ids and step.token is not None else None
    choice: Json = {"index": step.index}
    if reply.chat:
        choice |= {"delta": {"content": step.text}, "logprobs": _chat_rows(reply, [step])}
    else:
        rows = completion_rows([step], reply.table, as_id=reply.shown.tokens_as_ids) if reply.shown.rows else None
        choice |= {"text": step.text, "logprobs": rows}
    choice |= {"finish_reason": step.finish, "stop_reason": step.stop_reason, "token_ids": ids}
    return {**_head(reply, _kind(reply)), "choices": [choice]}


def _chat_rows(reply: Reply, steps: Sequence[Step]) -> Json | None:
    if not reply.shown.rows:
        return None
    return {
        "content": [
            chat_row(step.row, reply.table, as_id=reply.shown.tokens_as_ids) for step in steps if step.row is not None
        ]
    }


def echo(prompt: Sequence[int], read: PromptRead | None, table: TokenTable) -> list[Step]:
    """Make steps of a prompt's tokens, so that an echoed prompt is written by the same code as what follows it."""
    shown = TextStream()
    rows = read.rows if read and read.rows is not None else (None,) * len(prompt)
    steps = []
    for token, row in zip(prompt, rows, strict=True):
        offset = shown.length
        steps.append(Step(0, token, row, shown.push(table.data(token)), offset))
    return steps


def _moved(step: Step, by: int) -> Step:
    return msgspec.structs.replace(step, offset=step.offset + by) if by else step
