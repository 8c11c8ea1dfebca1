"""Our reference engine: vLLM's shapes with true bytes, lists of exactly the best, and a footprint under its own names.

House rules. Pure. What ``engines.reference`` does differently from vLLM, and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from engines.scripted.asked import Asked, Habits, sampling_of
from engines.scripted.engine import Engine, Query, Whole
from engines.scripted.generate import Step
from engines.scripted.writers import openai, vllm
from engines.scripted.writers.shape import entry

Json = dict[str, Any]

HABITS = Habits(most=1000)


def _rows(engine: Engine, asked: Asked, steps: Sequence[Step], _: int) -> Json:
    return {
        "content": [
            {
                **_entry(engine, asked, step.row.id, step.row.logprob),
                "top_logprobs": [_entry(engine, asked, token, value) for token, value in step.row.top],
            }
            for step in steps
        ]
    }


def _entry(engine: Engine, asked: Asked, token: int, logprob: float) -> Json:
    return {**entry(engine, token, logprob, as_id=asked.as_ids), "bytes": list(engine.toy.table.data[token])}


def _server_info(engine: Engine, _: Query) -> Whole:
    script = engine.script
    sampling = sampling_of(script, HABITS, {})
    defaults = {name: getattr(sampling, name) for name in ("temperature", "top_p", "top_k", "min_p")}
    shown: Json = {"engine": "parhelion-reference", "model": script.model, "dtype": engine.dtype, "device": "cpu"}
    shown |= {"max_model_len": script.context, "vocabulary": len(engine.toy.table), "served_model_name": script.model}
    return Whole({**shown, "sampling_defaults": {**defaults, "repetition_penalty": 1.0}})


def _models(engine: Engine, _: Query) -> Whole:
    entry: Json = {"id": engine.script.model, "object": "model", "created": engine.started, "owned_by": "parhelion"}
    entry |= {"root": engine.script.model, "parent": None, "max_model_len": engine.script.context}
    return Whole({"object": "list", "data": [entry]})


CHAT = replace(vllm.CHAT, rows=_rows)

WRITER = replace(
    vllm.WRITER,
    name="reference",
    habits=HABITS,
    routes={
        **{name: route for name, route in vllm.WRITER.routes.items() if name != "GET /metrics"},
        "POST /v1/chat/completions": openai.generating(True, HABITS, CHAT, vllm.check),
        "POST /v1/completions": openai.generating(False, HABITS, vllm.COMPLETIONS, vllm.check),
        "GET /v1/models": _models,
        "GET /version": openai.constant({"version": "0.1.0", "engine": "parhelion-reference"}),
        "GET /server_info": _server_info,
    },
    headers={},
)
