"""llama.cpp's server: ids in every row, one row for the tokens of one character, its own ``/completion``.

House rules. Pure. Shapes and key order are those of the recorded replies. The tokens of a matched stop string get no row; in a stream the end token gets
none either. Timings are zeros: the clock is the edge's business.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from engines.scripted.asked import Asked, Habits, asked, known, messages_of, sampling_of, tools_of
from engines.scripted.engine import Engine, Event, Query, Route, Stream, Whole, Writer
from engines.scripted.generate import Said, Step
from engines.scripted.refused import Refused
from engines.scripted.render import template_of, text_of
from engines.scripted.vocabulary import END, SPECIAL, START
from engines.scripted.writers import openai
from engines.scripted.writers.llama_native import BUILD, SETTINGS, completion, native, timings
from engines.scripted.writers.llama_rows import rows, stream_rows
from engines.scripted.writers.shape import Shape, eaten, stream, usage, whole

Json = dict[str, Any]

HABITS = Habits(temperature=0.8, top_p=0.95, top_k=40, min_p=0.05, bare=20)


def _counted(value: Json) -> Json:
    order = ("completion_tokens", "prompt_tokens", "total_tokens")
    return {name: value[name] for name in order} | {"prompt_tokens_details": {"cached_tokens": 0}}


def _reply(engine: Engine, asked: Asked, said: Sequence[Said]) -> Json:
    before, after = sum(map(len, asked.prompts)), sum(len(one.steps) for one in said)
    value: Json = {
        "system_fingerprint": BUILD,
        "usage": _counted(usage(asked, after)),
        "timings": timings(before, after),
    }
    if asked.body.get("verbose") is True:
        value["__verbose"] = native(engine, asked, said[0])
    return value


def _event(*_: Any) -> Json:
    return {"system_fingerprint": BUILD}


CHAT = Shape(
    rows=rows, first={"role": "assistant", "content": None}, reply=_reply, event=_event, apart=True, absent=True
)
COMPLETIONS = replace(CHAT, first=None, absent=False)


def _generating(*, chat: bool) -> Route:
    shape = CHAT if chat else COMPLETIONS

    def route(engine: Engine, query: Query) -> Whole | Stream:
        wanted = _asked(engine, query.body, chat=chat)
        if wanted.stream:
            return Stream(_stream(engine, wanted, replace(shape, rows=stream_rows, silent=_silent)))
        value, tokens = whole(engine, wanted, shape)
        return Whole(value, tokens)

    return route


def _asked(engine: Engine, body: Json, *, chat: bool) -> Asked:
    """Read a body: any model's name is taken; echo and prompt_logprobs are ignored; max_tokens 0 is 1, -1 is no limit."""
    given = {name: value for name, value in body.items() if name not in ("echo", "prompt_logprobs")}
    for name in ("max_tokens", "max_completion_tokens"):
        if given.get(name) == 0:
            given[name] = 1
        elif given.get(name) == -1:
            del given[name]
    if given.get("max_tokens") is None and not chat and engine.script.differences.max_tokens is None:
        given["max_tokens"] = engine.script.defaults.max_tokens_completions or 1 << 20  # n_predict is unlimited
    if chat and body.get("stream") is True and body.get("tools") and body.get("logprobs"):
        raise Refused("logprobs is not supported with tools + stream")
    if chat and body.get("logprobs") is None and body.get("top_logprobs"):
        raise Refused("top_logprobs requires logprobs to be set to true")
    wanted = asked(engine.script, HABITS, given, chat=chat)
    if wanted.n > 1:
        raise Refused("Only one completion choice is allowed")
    return replace(wanted, top=wanted.top or None)  # none asked for is none given


def _silent(asked: Asked, step: Step) -> bool:
    """Send no event for the end token, for what is held back, and for what a parser eats."""
    return not (step.text or step.calls) or eaten(asked, step)


def _stream(engine: Engine, wanted: Asked, shape: Shape) -> Iterator[Event]:
    """Put timings on the last event, and on completions the usage too, which there has no event of its own."""
    before, after = sum(map(len, wanted.prompts)), 0
    for event in stream(engine, wanted, shape):
        after += event.tokens
        ends = event.value.get("usage") or any(one.get("finish_reason") for one in event.value.get("choices", ()))
        if not ends:
            yield event
            continue
        extra = {"timings": timings(before, after)}
        counted = {"usage": _counted(usage(wanted, after))}
        if not wanted.chat:
            if event.value["choices"]:
                yield Event({**event.value, **counted, **extra}, event.tokens)
        elif event.value["choices"] and not wanted.usage:
            yield Event({**event.value, **extra}, event.tokens)
        else:
            yield event if event.value["choices"] else Event({**event.value, **counted, **extra}, event.tokens)


def _refuse(refused: Refused) -> Json:
    kind = {404: "not_found_error", 401: "authentication_error"}.get(refused.status, "invalid_request_error")
    return {"error": {"code": refused.status, "message": refused.message, "type": kind}}


def _template(engine: Engine, query: Query) -> Whole:
    body = query.body
    tools = tools_of(body)
    opened = body.get("add_generation_prompt") is not False
    continued = body.get("continue_final_message") is True
    text = text_of(engine.script, messages_of(body), tools, opened=opened and not continued, continued=continued)
    # The tokenizer adds the BOS that the text leaves out.
    return Whole({"prompt": text.removeprefix(SPECIAL[START])})


def _tokenize(engine: Engine, query: Query) -> Whole:
    body = query.body
    content = body.get("content")
    if not isinstance(content, str):
        raise Refused('"content" is required')
    table = engine.toy.table
    ids = table.encode(content, special=body.get("parse_special") is not False)
    if body.get("add_special") is True and template_of(engine.script).bos:
        ids = (START, *ids)
    if body.get("with_pieces") is not True:
        return Whole({"tokens": list(ids)})
    return Whole({"tokens": [{"id": one, "piece": table.text_of(one, special=True)} for one in ids]})


def _detokenize(engine: Engine, query: Query) -> Whole:
    table = engine.toy.table
    return Whole({"content": table.decode(known(query.body.get("tokens"), "tokens", len(table)))})


def _props(engine: Engine, _: Query) -> Whole:
    script = engine.script
    defaults = sampling_of(script, HABITS, {})
    own = {"temperature": defaults.temperature, "top_k": defaults.top_k, "top_p": defaults.top_p}
    template = template_of(script)
    shown: Json = {"default_generation_settings": {"params": {**SETTINGS, **own, "min_p": defaults.min_p}}}
    shown["default_generation_settings"]["n_ctx"] = script.context
    shown |= {"total_slots": 1, "model_alias": script.model, "model_ftype": "F32", "model_path": f"{script.model}.gguf"}
    shown |= {"modalities": {"vision": False, "video": False, "audio": False}, "media_marker": "<__media__>"}
    shown |= {
        "endpoint_slots": False,
        "endpoint_props": False,
        "endpoint_metrics": False,
        "ui": False,
        "ui_settings": {},
    }
    shown |= {"chat_template": f"{template.turn}{template.open}", "chat_template_caps": {"supports_system_role": True}}
    shown |= {"bos_token": SPECIAL[START], "eos_token": SPECIAL[END], "build_info": BUILD, "is_sleeping": False}
    return Whole({**shown, "cors_proxy_enabled": False})


def _models(engine: Engine, _: Query) -> Whole:
    name = engine.script.model
    meta = {"vocab_type": 2, "n_vocab": len(engine.toy.table), "n_ctx": engine.script.context, "ftype": "F32"}
    entry = {"id": name, "aliases": [name], "tags": [], "object": "model", "created": engine.started}
    return Whole(
        {
            "models": [{"name": name, "model": name}],
            "object": "list",
            "data": [{**entry, "owned_by": "llamacpp", "meta": meta}],
        }
    )


WRITER = Writer(
    "llama_cpp",
    HABITS,
    {
        **openai.routes(HABITS, CHAT, COMPLETIONS, "llamacpp"),
        "POST /v1/chat/completions": _generating(chat=True),
        "POST /v1/completions": _generating(chat=False),
        "POST /completion": completion,
        "GET /v1/models": _models,
        "GET /props": _props,
        "GET /health": openai.constant({"status": "ok"}),
        "POST /apply-template": _template,
        "POST /tokenize": _tokenize,
        "POST /detokenize": _detokenize,
    },
    _refuse,
    {"server": "llama.cpp"},
)
