"""SGLang: the baseline with ids on whole replies, and its own ``/generate`` with the prompt's values.

House rules. Pure. Shapes are those of its protocol files as ``engines.sglang`` describes them: rows of ``/generate`` are ``[logprob, id, text]``, the first of the
prompt's is null, a stream's texts are cumulative. Values of a sampled reply are those after temperature.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from engines.scripted.asked import Asked, Habits, asked, chat_ids, known, within
from engines.scripted.engine import Engine, Event, Query, Stream, Whole, Writer
from engines.scripted.generate import Row, Said, Step, scored
from engines.scripted.refused import Refused
from engines.scripted.render import plain_ids, template_of
from engines.scripted.writers import openai
from engines.scripted.writers.shape import Shape, chat_rows, legacy_rows

Json = dict[str, Any]

HABITS = Habits(most=None, processed=True)
_VERSION = "0.5.23"


def _rows(engine: Engine, asked: Asked, steps: Sequence[Step], offset: int) -> Json:
    lists = legacy_rows(engine, asked, steps, offset)
    return {**lists, "text_offset": [-1] * len(lists["tokens"])}


def _choice(_: Engine, asked: Asked, said: Said) -> Json:
    last = said.steps[-1] if said.steps else None
    value: Json = {"matched_stop": None if last is None else last.stop}
    if asked.ids and asked.chat:
        value |= {"prompt_token_ids": list(said.prompt), "response_token_ids": said.ids}
    elif asked.ids:
        value |= {"prompt_token_ids": list(said.prompt), "token_ids": said.ids}
    return value


def _chunk(_: Engine, asked: Asked, step: Step, prompt: tuple[int, ...] | None) -> Json:
    del prompt
    value: Json = {"matched_stop": step.stop}
    if asked.ids and not asked.chat:
        value["token_ids"] = [step.row.id]
    return value


def _reply(*_: Any) -> Json:
    return {"metadata": {"weight_version": "default"}}


def _check(asked: Asked) -> None:
    if asked.chat and asked.stream and asked.ids:
        raise Refused("return_token_ids is not supported with stream", param="return_token_ids")
    if asked.body.get("top_k") == 0:
        raise Refused("top_k must be -1 or at least 1", param="top_k")


_COUNTED = {"prompt_tokens_details": None, "completion_tokens_details": None, "reasoning_tokens": 0}

CHAT = Shape(
    message=lambda *_: {"reasoning_content": None},
    counted=_COUNTED,
    numbered=True,
    rows=chat_rows,
    first={"role": "assistant", "content": ""},
    choice=_choice,
    reply=_reply,
    chunk=_chunk,
    apart=True,
)
COMPLETIONS = replace(CHAT, rows=_rows, first=None)


def _generate(engine: Engine, query: Query) -> Whole | Stream:
    """Answer ``/generate`` for one prompt."""
    body = query.body
    table = engine.toy.table
    if isinstance(body.get("input_ids"), list):
        prompt: Any = list(known(body["input_ids"], "input_ids", len(table)))
    elif isinstance(body.get("text"), str):
        prompt = body["text"]
    else:
        raise Refused("either text or input_ids is required")
    wanted = _asked(engine, body, prompt)
    if wanted.stream:
        return Stream(_generated_stream(engine, wanted))
    said = engine.whole(wanted)[0]
    return Whole(_generated(engine, wanted, said.steps), len(said.steps))


def _asked(engine: Engine, body: Json, prompt: Any) -> Asked:
    parameters = body.get("sampling_params")
    given = dict(parameters) if isinstance(parameters, dict) else {}
    top = body.get("top_logprobs_num")
    if body.get("return_logprob") is True:
        given["logprobs"] = top if isinstance(top, int) else 0
    given |= {"prompt": prompt, "max_tokens": given.get("max_new_tokens", 128), "stream": body.get("stream")}
    wanted = asked(engine.script, HABITS, given, chat=False)
    return replace(wanted, body=body)


def _generated(engine: Engine, wanted: Asked, said: Sequence[Step]) -> Json:
    prompt = wanted.prompts[0]
    finish = (said[-1].finish if said else None) or "length"
    matched = {"matched": said[-1].stop or 0} if finish == "stop" else {"length": wanted.limit}
    meta: Json = {"id": engine.digest(dict(wanted.body)), "finish_reason": {"type": finish, **matched}}
    meta |= {"prompt_tokens": len(prompt), "weight_version": "default", "total_retractions": 0}
    if wanted.top is not None:
        rows = [step.row for step in said]
        meta["input_token_logprobs"], best = _input(engine, wanted)
        meta["output_token_logprobs"] = [_triple(engine, wanted, row.logprob, row.id) for row in rows]
        if wanted.top:
            meta["input_top_logprobs"] = best
            meta["output_top_logprobs"] = [_best(engine, wanted, row) for row in rows]
    meta |= {"completion_tokens": len(said), "cached_tokens": 0, "e2e_latency": 0.0}
    text = "".join(step.text for step in said)
    return {"text": text, "output_ids": [step.row.id for step in said], "meta_info": meta}


def _input(engine: Engine, wanted: Asked) -> tuple[list[Any], list[Any]]:
    """Return the rows of the prompt from ``logprob_start_len`` on; the first one has no value, as nothing was computed before it."""
    prompt, start = wanted.prompts[0], wanted.body.get("logprob_start_len", -1)
    if not isinstance(start, int) or start < 0 or start >= len(prompt):
        return [], []
    top = within(engine.script, HABITS, wanted.top or 0, "top_logprobs_num")
    rows = list(scored(engine.toy, prompt, top, start))
    first = [[None, prompt[start], _text(engine, wanted, prompt[start])]]
    tokens = [_triple(engine, wanted, row.logprob, row.id) for row in rows[1:] if row is not None]
    return first + tokens, [None, *(_best(engine, wanted, row) for row in rows[1:] if row is not None)]


def _best(engine: Engine, wanted: Asked, row: Row) -> list[Any]:
    return [_triple(engine, wanted, value, token) for token, value in row.top]


def _triple(engine: Engine, wanted: Asked, logprob: float, token: int) -> list[Any]:
    return [logprob, token, _text(engine, wanted, token)]


def _text(engine: Engine, wanted: Asked, token: int) -> str | None:
    shown = wanted.body.get("return_text_in_logprobs") is True
    return engine.toy.table.text_of(token, special=True) if shown else None


def _generated_stream(engine: Engine, wanted: Asked) -> Iterator[Event]:
    said: list[Step] = []
    for step in engine.said(wanted, wanted.prompts[0], 0, stream=True):
        said.append(step)
        value = _generated(engine, wanted, said)
        if step.finish is None:
            value["meta_info"]["finish_reason"] = None
        yield Event(value, 1)


def _tokenize(engine: Engine, query: Query) -> Whole:
    body, script = query.body, engine.script
    if "messages" in body:
        ids = chat_ids(script, body)
    elif isinstance(body.get("prompt"), str):
        ids = plain_ids(script, body["prompt"], special=body.get("add_special_tokens") is not False)
    else:
        raise Refused("prompt: a text is required", param="prompt")
    return Whole({"tokens": list(ids), "count": len(ids), "max_model_len": script.context})


def _detokenize(engine: Engine, query: Query) -> Whole:
    table = engine.toy.table
    return Whole({"text": table.decode(known(query.body.get("tokens"), "tokens", len(table)))})


def _server_info(engine: Engine, _: Query) -> Whole:
    script = engine.script
    template = template_of(script)
    shown: Json = {"model_path": script.model, "served_model_name": script.model, "tokenizer_path": script.model}
    shown |= {"dtype": engine.dtype, "quantization": None, "kv_cache_dtype": "auto", "context_length": script.context}
    shown |= {"attention_backend": "torch_native", "sampling_backend": "pytorch", "disable_radix_cache": False}
    shown |= {"tp_size": 1, "pp_size": 1, "dp_size": 1, "random_seed": engine.started, "port": 0, "host": "127.0.0.1"}
    shown |= {"enable_deterministic_inference": False, "enable_fp32_lm_head": False, "chunked_prefill_size": -1}
    shown |= {"sampling_defaults": "model", "chat_template": template.turn, "api_key": None, "admin_api_key": None}
    shown |= {"disable_cuda_graph": True, "version": _VERSION, "internal_states": [{"last_gen_throughput": 0.0}]}
    return Whole(shown)


def _model_info(engine: Engine, _: Query) -> Whole:
    name = engine.script.model
    return Whole({"model_path": name, "tokenizer_path": name, "is_generation": True, "weight_version": "default"})


def _models(engine: Engine, _: Query) -> Whole:
    entry: Json = {"id": engine.script.model, "object": "model", "created": engine.started, "owned_by": "sglang"}
    entry |= {"root": engine.script.model, "parent": None, "max_model_len": engine.script.context}
    return Whole({"object": "list", "data": [entry]})


def _refuse(refused: Refused) -> Json:
    """Write an error: flat, as its ``ErrorResponse`` is."""
    kind = "NotFound" if refused.status == 404 else "BadRequestError"
    flat = {"object": "error", "message": refused.message, "type": kind}
    return {**flat, "param": refused.param, "code": refused.status}


WRITER = Writer(
    "sglang",
    HABITS,
    {
        **openai.routes(HABITS, CHAT, COMPLETIONS, "sglang"),
        "POST /v1/chat/completions": openai.generating(True, HABITS, CHAT, _check),
        "POST /v1/completions": openai.generating(False, HABITS, COMPLETIONS, _check),
        "POST /generate": _generate,
        "GET /v1/models": _models,
        "GET /server_info": _server_info,
        "GET /get_server_info": _server_info,
        "GET /model_info": _model_info,
        "GET /get_model_info": _model_info,
        "POST /tokenize": _tokenize,
        "POST /v1/tokenize": _tokenize,
        "POST /detokenize": _detokenize,
        "POST /v1/detokenize": _detokenize,
    },
    _refuse,
    {"server": "uvicorn"},
)
