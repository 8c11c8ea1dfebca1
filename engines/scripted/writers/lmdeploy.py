"""LMDeploy on its PyTorch engine with ``--logprobs-mode``: ids on chats, tokens as the vocabulary spells them, the chosen one left out of its list.

House rules. Pure. Sources are its protocol and serving files as ``engines.lmdeploy`` names them. ``most_alternatives: 0`` in a script is an engine started without logprobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from engines.scripted.asked import Asked, Habits, asked, known
from engines.scripted.engine import Engine, Query, Whole, Writer
from engines.scripted.generate import Said, Step, scored
from engines.scripted.refused import Refused
from engines.scripted.render import ids_of, plain_ids
from engines.scripted.writers import openai
from engines.scripted.writers.shape import Shape

Json = dict[str, Any]

HABITS = Habits(temperature=0.8, top_k=50, most=20, penalties=False)

_PLAIN = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
#: Byte-level BPE's letter for each byte (GPT-2's): printable Latin-1 is itself, the others are U+0100 and on.
_LETTERS = {byte: chr(byte) for byte in _PLAIN} | {
    byte: chr(0x100 + place) for place, byte in enumerate(sorted(set(range(0x100)) - set(_PLAIN)))
}


def _rows(engine: Engine, asked: Asked, steps: Sequence[Step], _: int) -> Json:
    del asked
    return {
        "content": [
            {
                **_entry(engine, step.row.id, step.row.logprob),
                "top_logprobs": [_entry(engine, *one) for one in step.row.top if one[0] != step.row.id],
            }
            for step in steps
        ]
    }


def _entry(engine: Engine, token: int, logprob: float) -> Json:
    piece = "".join(_LETTERS[byte] for byte in engine.toy.table.data[token])
    return {"token": piece, "logprob": logprob, "bytes": list(piece.encode())}


def _choice(_: Engine, asked: Asked, said: Said) -> Json:
    pairs = [[step.row.logprob, step.row.id] for step in said.steps]
    own = asked.body.get("return_logprob") is True
    told = {"output_ids": said.ids if asked.ids else None, "output_token_logprobs": pairs if own else None}
    return {**told, "routed_experts": None}


def _chunk(_: Engine, asked: Asked, step: Step, __: tuple[int, ...] | None) -> Json:
    return {"output_ids": [step.row.id]} if asked.ids else {}


def _check(asked: Asked) -> None:
    if not asked.chat and asked.top is not None and asked.stream:
        raise Refused("logprobs is removed", param="logprobs")


CHAT = Shape(
    rows=_rows,
    first={"role": "assistant", "content": ""},
    message=lambda *_: {"reasoning_content": None, "tool_calls": None},
    choice=_choice,
    counted={"prompt_tokens_details": None, "completion_tokens_details": None},
    chunk=_chunk,
    lean=True,
)
COMPLETIONS = replace(CHAT, rows=lambda *_: None, first=None, choice=lambda *_: {}, chunk=lambda *_: {})


def _encode(engine: Engine, query: Query) -> Whole:
    body = query.body
    if not isinstance(body.get("input"), str):
        raise Refused("input: a text is required", param="input")
    if body.get("do_preprocess") is True:
        ids = ids_of(engine.script, [{"role": "user", "content": body["input"]}], None)
    else:
        ids = plain_ids(engine.script, body["input"], special=body.get("add_bos") is not False)
    return Whole({"input_ids": list(ids), "length": len(ids)})


def _generate(engine: Engine, query: Query) -> Whole:
    """Answer ``/generate``, whole: a prompt's ids, the reply's ids, and with ``return_logprob`` pairs of value and id."""
    body, size = query.body, len(engine.toy.table)
    given = body.get("prompt") if body.get("input_ids") is None else list(known(body["input_ids"], "input_ids", size))
    top = body.get("top_logprobs_num")
    limit = body.get("max_tokens")
    chat = {**body, "prompt": given, "logprobs": top if body.get("return_logprob") else None, "stream": None}
    wanted = asked(engine.script, HABITS, {**chat, "max_tokens": 1 if limit == 0 else limit}, chat=False)
    said = engine.whole(wanted)[0]
    steps = () if limit == 0 else said.steps
    meta: Json = {"finish_reason": {"type": said.finish}, "prompt_tokens": len(said.prompt)}
    meta["completion_tokens"] = len(steps)
    if body.get("return_logprob") is True:
        meta["output_token_logprobs"] = [[step.row.logprob, step.row.id] for step in steps]
        start = body.get("logprob_start_len")
        if isinstance(start, int) and 0 <= start < len(said.prompt):
            rows = [row for row in scored(engine.toy, said.prompt, wanted.top or 0, start + 1) if row is not None]
            meta["input_token_logprobs"] = [[row.logprob, row.id] for row in rows]
            meta["input_top_logprobs"] = [[[value, token] for token, value in row.top] for row in rows]
    text = "".join(step.text for step in steps)
    return Whole({"text": text, "output_ids": [step.row.id for step in steps], "meta_info": meta}, len(steps))


def _metrics(engine: Engine, _: Query) -> Whole:
    labels = f'dtype="{engine.dtype}",enable_prefix_caching="False",quant_policy="0",session_len="{engine.script.context}",tp="1"'
    return Whole(f"# TYPE lmdeploy:backend_config_info gauge\nlmdeploy:backend_config_info{{{labels}}} 1.0\n")


def _refuse(refused: Refused) -> Json:
    """Write an error: flat, with the code as a number."""
    flat = {"message": refused.message, "type": "invalid_request_error", "code": refused.status}
    return {**flat, "param": refused.param, "object": "error"}


WRITER = Writer(
    "lmdeploy",
    HABITS,
    {
        **openai.routes(HABITS, CHAT, COMPLETIONS, "lmdeploy"),
        "POST /v1/completions": openai.generating(False, HABITS, COMPLETIONS, _check),
        "POST /v1/encode": _encode,
        "POST /generate": _generate,
        "GET /metrics": _metrics,
    },
    _refuse,
    {"server": "uvicorn"},
)
