"""``transformers serve`` 5.24: text alone, no ``[DONE]``, usage on every stream's last event.

House rules. Pure. Shapes are those of the recorded replies. ``logprobs`` is taken and dropped; prompts are texts; errors are FastAPI's ``detail``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from engines.scripted.asked import Asked, Habits, asked
from engines.scripted.engine import Engine, Event, Query, Route, Stream, Whole, Writer
from engines.scripted.generate import Step
from engines.scripted.refused import Refused
from engines.scripted.writers import openai
from engines.scripted.writers.shape import Shape, stream, usage, whole

Json = dict[str, Any]

HABITS = Habits()


#: OpenAI's fields, and its own; any other is refused. Of these the toy reads what it knows and ignores the rest.
_KNOWN = frozenset(
    [
        "model",
        "messages",
        "prompt",
        "max_tokens",
        "max_completion_tokens",
        "temperature",
        "top_p",
        "n",
        "stop",
        "stream",
        "stream_options",
        "seed",
        "logprobs",
        "top_logprobs",
        "presence_penalty",
        "frequency_penalty",
        "logit_bias",
        "user",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "response_format",
        "metadata",
        "store",
        "echo",
        "service_tier",
        "reasoning_effort",
        "modalities",
        "audio",
        "prediction",
        "functions",
        "function_call",
        "suffix",
        "best_of",
        "generation_config",
    ]
)


def _silent(asked: Asked, step: Step) -> bool:
    del asked
    return not (step.text or step.calls)


def _event(_: Engine, asked: Asked, __: str) -> Json:
    return {"system_fingerprint": ""} if asked.chat else {}


CHAT = Shape(
    rows=lambda *_: None,
    first={"role": "assistant"},
    event=_event,
    apart=True,
    silent=_silent,
    absent=True,
    lean=True,
)
COMPLETIONS = replace(CHAT, first=None)


def _generating(*, chat: bool) -> Route:
    shape = CHAT if chat else COMPLETIONS

    def route(engine: Engine, query: Query) -> Whole | Stream:
        body = query.body
        unknown = sorted(body.keys() - _KNOWN)
        if unknown:
            raise Refused(f"Unexpected fields in the request: {{{', '.join(unknown)}}}", status=422)
        if body.get("model") not in (None, engine.script.model):
            raise Refused("Server is pinned to another model.")
        if body.get("echo"):
            raise Refused("echo is not supported.")
        if not chat and not isinstance(body.get("prompt"), str):
            raise Refused("prompt must be a string.")
        kept = {name: value for name, value in body.items() if name not in ("logprobs", "n", "prompt_logprobs", "echo")}
        wanted = asked(engine.script, HABITS, kept, chat=chat)
        if wanted.stream:
            return Stream(_stream(engine, replace(wanted, usage=False), shape))
        value, tokens = whole(engine, wanted, shape)
        return Whole(value, tokens)

    return route


def _stream(engine: Engine, wanted: Asked, shape: Shape) -> Iterator[Event]:
    said = 0
    for event in stream(engine, wanted, shape):
        said += event.tokens
        ends = any(one.get("finish_reason") for one in event.value.get("choices", ()))
        yield Event({**event.value, "usage": usage(wanted, said)}, event.tokens) if ends else event


def _refuse(refused: Refused) -> Json:
    return {"detail": refused.message}


WRITER = Writer(
    "transformers",
    HABITS,
    {
        **{
            name: route
            for name, route in openai.routes(HABITS, CHAT, COMPLETIONS, "local").items()
            if "/v1/responses" in name
        },
        "POST /v1/chat/completions": _generating(chat=True),
        "POST /v1/completions": _generating(chat=False),
        "GET /v1/models": openai.models("local", status={"value": "loaded"}),
        "GET /health": openai.constant({"status": "ok"}),
    },
    _refuse,
    {"server": "uvicorn"},
    done=False,
)
