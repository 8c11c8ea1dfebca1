"""vLLM 0.32: token ids, scoring of the prompt, the chosen token first in every list.

House rules. Pure. Shapes and key order are those of the recorded replies. A list is the chosen token, then the best, cut to the number asked for: a chosen token
that is not among the best pushes the last of them out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from engines.scripted.asked import Asked, Habits, chat_ids, known
from engines.scripted.engine import Engine, Query, Whole, Writer
from engines.scripted.generate import Row, Said, Step, scored
from engines.scripted.refused import Refused
from engines.scripted.render import plain_ids
from engines.scripted.writers import openai
from engines.scripted.writers.shape import Shape, add_row, entry, legacy_rows

Json = dict[str, Any]

HABITS = Habits(most=20)
_VERSION = "0.32.0"


def chat_rows(engine: Engine, asked: Asked, steps: Sequence[Step], _: int) -> Json:
    """Write rows whose list is led by the chosen token; a part of a character has no text and no bytes."""
    return {"content": [_row(engine, asked, step.row) for step in steps]}


def _row(engine: Engine, asked: Asked, row: Row) -> Json:
    own = _text(engine, row.id)
    best = [(row.id, row.logprob), *without_first(row.top, row.id)][: asked.top or 0]
    listed = [
        entry(engine, token, value, as_id=True) if asked.as_ids else _entry(engine, token, value)
        for token, value in best
    ]
    text = f"token_id:{row.id}" if asked.as_ids else own
    return {"token": text, "logprob": row.logprob, "bytes": list(own.encode()), "top_logprobs": listed}


def _entry(engine: Engine, token: int, value: float) -> Json:
    text = _text(engine, token)
    return {"token": text, "logprob": value, "bytes": list(text.encode())}


def _text(engine: Engine, token: int) -> str:
    text = engine.toy.table.text_of(token, special=True)
    return "" if "\ufffd" in text else text


def without_first(top: Sequence[tuple[int, float]], token: int) -> list[tuple[int, float]]:
    """Leave the first entry of a token out of a list."""
    at = next((place for place, (one, _) in enumerate(top) if one == token), len(top))
    return [*top[:at], *top[at + 1 :]]


def _choice(engine: Engine, asked: Asked, said: Said) -> Json:
    stop = said.steps[-1].stop if said.steps else None
    ids = said.ids if asked.ids else None
    if asked.chat:
        return {"stop_reason": stop, "token_ids": ids, "routed_experts": None}
    extra: Json = {"stop_reason": stop, "token_ids": ids, "prompt_logprobs": _scored(engine, asked, said.prompt)}
    extra |= {"prompt_token_ids": list(said.prompt) if asked.ids else None, "routed_experts": None}
    if asked.echo and asked.top is not None:
        extra["logprobs"] = _echoed(engine, asked, said)
    return extra


def _echoed(engine: Engine, asked: Asked, said: Said) -> Json:
    lists: Json = {"text_offset": [], "token_logprobs": [], "tokens": [], "top_logprobs": []}
    rows = [*scored(engine.toy, said.prompt, asked.top or 0), *(step.row for step in said.steps)]
    offset = 0
    for token, row in zip((*said.prompt, *said.ids), rows, strict=True):
        add_row(engine, asked, lists, token, row, offset)
        offset += len(engine.toy.table.text_of(token))
    return lists


def _scored(engine: Engine, asked: Asked, prompt: tuple[int, ...]) -> list[Json | None] | None:
    wanted = asked.top if asked.echo and asked.scored is None else asked.scored
    if wanted is None:
        return None
    return [
        None if row is None else {str(one): _ranked(engine, one, value, rank) for one, value, rank in _ranks(row)}
        for row in scored(engine.toy, prompt, wanted)
    ]


def _ranks(row: Row) -> list[tuple[int, float, int]]:
    best = [(token, value, place + 1) for place, (token, value) in enumerate(row.top)]
    return [(row.id, row.logprob, row.rank), *(one for one in best if one[0] != row.id)]


def _ranked(engine: Engine, token: int, value: float, rank: int) -> Json:
    return {"logprob": value, "rank": rank, "decoded_token": _text(engine, token)}


def _chunk(_: Engine, asked: Asked, step: Step, prompt: tuple[int, ...] | None) -> Json:
    ids = [step.row.id] if asked.ids else None
    ends = step.finish is not None
    if asked.chat:
        return {**({"stop_reason": step.stop} if ends else {}), "token_ids": ids}
    before = list(prompt) if asked.ids and prompt is not None else None
    return {"stop_reason": step.stop, "prompt_token_ids": before, "token_ids": ids}


def _silent(asked: Asked, step: Step) -> bool:
    """Keep what a parser eats from clients that did not ask for ids."""
    return step.eaten and step.finish is None and not asked.ids


def _fingerprint(engine: Engine) -> str:
    return f"vllm-{_VERSION}-{engine.digest('config', engine.script.differences.precision)[:8]}"


def _reply(engine: Engine, asked: Asked, said: Sequence[Said]) -> Json:
    counted = {"prompt_tokens_details": None, "completion_tokens_details": None}
    before, after = sum(map(len, asked.prompts)), sum(len(one.steps) for one in said)
    usage = {"prompt_tokens": before, "total_tokens": before + after, "completion_tokens": after, **counted}
    value: Json = {"service_tier": None, "system_fingerprint": _fingerprint(engine), "usage": usage}
    if asked.chat:
        value["prompt_logprobs"] = _scored(engine, asked, asked.prompts[0])
        value["prompt_token_ids"] = list(asked.prompts[0]) if asked.ids else None
        value["prompt_text"] = None
    return {**value, "kv_transfer_params": None, "ec_transfer_params": None, "metrics": None}


def _event(engine: Engine, asked: Asked, at: str) -> Json:
    if at == "first":
        return {"prompt_token_ids": list(asked.prompts[0]) if asked.ids else None, "prompt_text": None}
    ends = at == "usage" or (at == "last" and not asked.usage)
    return {"system_fingerprint": _fingerprint(engine)} if ends else {}


def check(asked: Asked) -> None:
    """Refuse what is refused here. Raises Refused."""
    if asked.stream and asked.scored is not None:
        raise Refused("prompt_logprobs are not available when stream is true", param="prompt_logprobs")


def tokenize(engine: Engine, query: Query) -> Whole:
    """Answer ``/tokenize``: a chat, or a text."""
    body, script = query.body, engine.script
    if "messages" in body:
        ids = chat_ids(script, body)
    elif isinstance(body.get("prompt"), str):
        ids = plain_ids(script, body["prompt"], special=body.get("add_special_tokens") is not False)
    else:
        raise Refused("prompt: a text is required", param="prompt")
    return Whole({"count": len(ids), "max_model_len": script.context, "tokens": list(ids), "token_strs": None})


def detokenize(engine: Engine, query: Query) -> Whole:
    """Answer ``/detokenize``."""
    table = engine.toy.table
    return Whole({"prompt": table.decode(known(query.body.get("tokens"), "tokens", len(table)))})


def _models(engine: Engine, _: Query) -> Whole:
    entry: Json = {"id": engine.script.model, "object": "model", "created": engine.started, "owned_by": "vllm"}
    entry |= {"root": engine.script.model, "parent": None, "max_model_len": engine.script.context}
    permission: Json = {"id": "modelperm-1", "object": "model_permission", "created": engine.started}
    permission |= {"allow_create_engine": False, "allow_sampling": True, "allow_logprobs": True}
    permission |= {"allow_search_indices": False, "allow_view": True, "allow_fine_tuning": False}
    permission |= {"organization": "*", "group": None, "is_blocking": False}
    return Whole({"object": "list", "data": [{**entry, "permission": [permission]}]})


def _metrics(engine: Engine, _: Query) -> Whole:
    blocks = engine.script.context // 16
    labels = f'block_size="16",cache_dtype="auto",enable_prefix_caching="True",num_gpu_blocks="{blocks}"'
    return Whole(f"# TYPE vllm:cache_config_info gauge\nvllm:cache_config_info{{{labels}}} 1.0\n")


def _refuse(refused: Refused) -> Json:
    """Write an error; FastAPI's own where no route was found."""
    routed = refused.param is not None or refused.status not in (404, 405)
    return openai.refuse(refused) if routed else {"detail": refused.message}


CHAT = Shape(
    rows=chat_rows,
    reasoning="reasoning",
    first={"role": "assistant", "content": ""},
    message=lambda *_: {"refusal": None, "annotations": None, "audio": None, "function_call": None, "reasoning": None},
    choice=_choice,
    reply=_reply,
    chunk=_chunk,
    event=_event,
    silent=_silent,
)
COMPLETIONS = replace(CHAT, rows=legacy_rows)

WRITER = Writer(
    "vllm",
    HABITS,
    {
        **openai.routes(HABITS, CHAT, COMPLETIONS, "vllm"),
        "POST /v1/chat/completions": openai.generating(True, HABITS, CHAT, check),
        "POST /v1/completions": openai.generating(False, HABITS, COMPLETIONS, check),
        "GET /v1/models": _models,
        "GET /version": openai.constant({"version": _VERSION}),
        "GET /metrics": _metrics,
        "POST /tokenize": tokenize,
        "POST /detokenize": detokenize,
    },
    _refuse,
    {"server": "uvicorn"},
)
