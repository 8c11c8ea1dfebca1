"""Ollama: ``/v1`` with logprobs on chats alone, and its own ``/api`` routes.

House rules. Pure. Sources are its packages as ``engines.ollama`` names them: temperature and top_p are 1 where a request has none, ``n``, ``logit_bias``, ``top_k``, ``min_p`` and
``max_completion_tokens`` are overlooked, rows without alternatives have no such key, the end token has no row, and one row stands for the tokens of one character.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from engines.scripted.asked import Asked, Habits, asked
from engines.scripted.engine import Engine, Event, Query, Route, Stream, Whole, Writer
from engines.scripted.generate import Said, Step
from engines.scripted.refused import Refused
from engines.scripted.render import template_of
from engines.scripted.vocabulary import END
from engines.scripted.writers import openai
from engines.scripted.writers.llama_rows import listed
from engines.scripted.writers.shape import Shape

Json = dict[str, Any]

HABITS = Habits(most=20)
_OVERLOOKED = (
    "n",
    "logit_bias",
    "top_k",
    "min_p",
    "max_completion_tokens",
    "echo",
    "prompt_logprobs",
    "return_token_ids",
)
_VERSION = "0.33.0"


def _rows(engine: Engine, asked: Asked, steps: Sequence[Step], _: int) -> Json | None:
    if not asked.chat:
        return None
    written = _plain(engine, asked, steps)
    return {"content": written} if written else None


def _plain(engine: Engine, asked: Asked, steps: Sequence[Step]) -> list[Json]:
    rows = listed(engine, [step for step in steps if step.row.id != END])
    return [_row(row, asked.top or 0) for row in rows]


def _row(row: Json, top: int) -> Json:
    written = _entry(row)
    return {**written, "top_logprobs": [_entry(one) for one in row["top_logprobs"]]} if top else written


def _entry(row: Json) -> Json:
    """Write a row without its id; bytes are those of the shown text, so a part of a character becomes U+FFFD."""
    text = bytes(row["bytes"]).decode("utf-8", "replace")
    return {"token": text, "logprob": row["logprob"], "bytes": list(text.encode())}


def _fingerprint(*_: Any) -> Json:
    return {"system_fingerprint": "fp_ollama"}


def _event(_: Engine, __: Asked, at: str) -> Json:
    """Put a usage of zeros into every event of a completion but the last one, as the engine does."""
    nothing = {"usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}}
    return {"system_fingerprint": "fp_ollama", **({} if at == "usage" else nothing)}


def _silent(_: Asked, step: Step) -> bool:
    return step.finish is None and not (step.text or step.calls)


CHAT = Shape(
    rows=_rows, reasoning="reasoning", reply=_fingerprint, event=_fingerprint, apart=True, silent=_silent, absent=True
)
COMPLETIONS = replace(CHAT, event=_event)


def _generating(*, chat: bool) -> Route:
    route = openai.generating(chat, HABITS, CHAT if chat else COMPLETIONS)

    def overlooking(engine: Engine, query: Query) -> Whole | Stream:
        kept = {name: value for name, value in query.body.items() if name not in _OVERLOOKED}
        return route(engine, Query(kept, query.parameters))

    return overlooking


def _native(*, chat: bool) -> Route:
    def route(engine: Engine, query: Query) -> Whole | Stream:
        try:
            wanted = _wanted(engine, query.body, chat=chat)
        except Refused as refused:
            return Whole({"error": refused.message}, status=refused.status)
        if query.body.get("stream") is not False:
            return Stream(_lines(engine, wanted), lines=True)
        said = engine.whole(wanted)[0]
        value = _part(engine, wanted, said.text(), said.text("reasoning"), said.steps)
        return Whole({**value, **_done(wanted, said)}, len(said.steps))

    return route


def _wanted(engine: Engine, body: Json, *, chat: bool) -> Asked:
    openai.served(engine, body)
    options = body.get("options")
    given: Json = dict(options) if isinstance(options, dict) else {}
    given |= {"max_tokens": given.get("num_predict") or 1 << 20, "logprobs": body.get("logprobs")}
    given |= {"top_logprobs": body.get("top_logprobs"), "tools": body.get("tools")}
    given |= (
        {"messages": body.get("messages")} if chat else {"messages": [{"role": "user", "content": body.get("prompt")}]}
    )
    return asked(engine.script, replace(HABITS, temperature=0.8, top_p=0.9, top_k=40), given, chat=True)


def _part(engine: Engine, wanted: Asked, text: str, thought: str, steps: Sequence[Step]) -> Json:
    message: Json = {"role": "assistant", "content": text, **({"thinking": thought} if thought else {})}
    calls = [call for step in steps for call in step.calls]
    if calls:
        message["tool_calls"] = [{"function": {"name": one.name, "arguments": one.arguments}} for one in calls]
    value: Json = {"model": engine.script.model, "created_at": "2026-01-01T00:00:00Z", "message": message}
    return {**value, **({} if wanted.top is None else {"logprobs": _plain(engine, wanted, steps)}), "done": False}


def _done(wanted: Asked, said: Said) -> Json:
    counts = {"prompt_eval_count": len(wanted.prompts[0]), "eval_count": len(said.steps)}
    return {"done": True, "done_reason": "length" if said.finish == "length" else "stop", "total_duration": 0, **counts}


def _lines(engine: Engine, wanted: Asked) -> Iterator[Event]:
    said: list[Step] = []
    for step in engine.said(wanted, wanted.prompts[0], 0, stream=True):
        said.append(step)
        content, thought = (step.text if step.channel == name else "" for name in ("content", "reasoning"))
        value = _part(engine, wanted, content, thought, [step])
        yield Event(value if step.text or step.calls else {}, 1)
    yield Event({**_part(engine, wanted, "", "", []), **_done(wanted, Said(wanted.prompts[0], tuple(said)))})


def _show(engine: Engine, query: Query) -> Whole:
    name = query.body.get("model") or query.body.get("name")
    if name != engine.script.model:
        return Whole({"error": "model not found"}, status=404)
    template = template_of(engine.script)
    details = {"format": "gguf", "family": "toy", "parameter_size": "1K", "quantization_level": "F32"}
    shown: Json = {"template": template.turn + template.open, "parameters": _parameters(engine), "details": details}
    info = {"general.architecture": "toy", "toy.context_length": engine.script.context}
    return Whole({**shown, "model_info": info, "capabilities": ["completion", "tools"]})


def _parameters(engine: Engine) -> str:
    own = engine.script.defaults
    values = {"temperature": own.temperature, "top_p": own.top_p, "top_k": own.top_k, "min_p": own.min_p}
    return "\n".join(f"{name:30} {value}" for name, value in values.items() if value is not None)


def _ps(engine: Engine, _: Query) -> Whole:
    name = engine.script.model
    model = {"name": name, "model": name, "digest": engine.digest("model"), "size": 1024, "size_vram": 0}
    return Whole({"models": [{**model, "context_length": engine.script.context}]})


def _tags(engine: Engine, _: Query) -> Whole:
    return Whole({"models": [{"name": engine.script.model, "model": engine.script.model}]})


def _refuse(refused: Refused) -> Json:
    kind = "not_found_error" if refused.status == 404 else "invalid_request_error"
    return {"error": {"message": refused.message, "type": kind, "param": None, "code": None}}


WRITER = Writer(
    "ollama",
    HABITS,
    {
        **openai.routes(HABITS, CHAT, COMPLETIONS, "library"),
        "POST /v1/chat/completions": _generating(chat=True),
        "POST /v1/completions": _generating(chat=False),
        "POST /api/chat": _native(chat=True),
        "POST /api/generate": _native(chat=False),
        "POST /api/show": _show,
        "GET /api/version": openai.constant({"version": _VERSION}),
        "GET /api/ps": _ps,
        "GET /api/tags": _tags,
    },
    _refuse,
)
