"""Text Generation Inference 3: ``/v1`` with at most 5 alternatives on chats, and its own ``/generate``.

House rules. Pure. Sources are its router as ``engines.tgi`` names it: rows have no bytes, values are those after temperature, completions have none; ``presence_penalty`` x is a
repetition penalty of x + 2; ``top_p`` 1 is out of range, ``stop`` a list, ``n``, ``logit_bias`` and ``max_completion_tokens`` are overlooked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from engines.scripted.asked import Asked, Habits, asked, chat_ids
from engines.scripted.engine import Engine, Event, Query, Route, Stream, Whole, Writer
from engines.scripted.generate import Row, Said, Step, scored
from engines.scripted.refused import Refused
from engines.scripted.render import plain_ids
from engines.scripted.vocabulary import FIRST_BYTE
from engines.scripted.writers import openai
from engines.scripted.writers.shape import Shape, entry

Json = dict[str, Any]

HABITS = Habits(most=5, processed=True)
_VERSION = "3.3.6-dev0"
_OVERLOOKED = ("n", "logit_bias", "max_completion_tokens", "presence_penalty", "echo", "prompt_logprobs")


def _rows(engine: Engine, asked: Asked, steps: Sequence[Step], _: int) -> Json | None:
    if not asked.chat:
        return None
    return {"content": [_row(engine, step.row) for step in steps]}


def _row(engine: Engine, row: Row) -> Json:
    listed = [entry(engine, token, value, data=None) for token, value in row.top]
    return {**entry(engine, row.id, row.logprob, data=None), "top_logprobs": listed}


def _fingerprint(*_: Any) -> Json:
    return {"system_fingerprint": f"{_VERSION}-native"}


CHAT = Shape(rows=_rows, reply=_fingerprint, event=_fingerprint)
COMPLETIONS = CHAT


def _generating(*, chat: bool) -> Route:
    route = openai.generating(chat, HABITS, CHAT if chat else COMPLETIONS)

    def reading(engine: Engine, query: Query) -> Whole | Stream:
        try:
            return route(engine, Query(_read(query.body), query.parameters))
        except Refused as refused:
            raise Refused(refused.message, param=refused.param, status=max(refused.status, 422)) from None

    return reading


def _read(body: Json) -> Json:
    given = {name: value for name, value in body.items() if name not in _OVERLOOKED}
    if isinstance(body.get("stop"), str):
        raise Refused("stop: a list of texts is required", status=422)
    if isinstance(body.get("top_p"), int | float) and body["top_p"] >= 1:
        raise Refused("`top_p` must be > 0.0 and < 1.0", status=422)
    if isinstance(body.get("presence_penalty"), int | float):
        given["repetition_penalty"] = body["presence_penalty"] + 2.0
    return given


def _wanted(engine: Engine, body: Json) -> tuple[Asked, Json]:
    parameters = body.get("parameters")
    own: Json = dict(parameters) if isinstance(parameters, dict) else {}
    if not isinstance(body.get("inputs"), str):
        raise Refused("inputs: a text is required", status=422)
    given = {
        **own,
        "prompt": body["inputs"],
        "max_tokens": own.get("max_new_tokens") or 100,
        "logprobs": own.get("top_n_tokens") or 0,
    }
    if own.get("do_sample") is not True and own.get("temperature") is None:
        given["temperature"] = 0
    return asked(engine.script, HABITS, given, chat=False), own


def _generate(engine: Engine, query: Query) -> Whole:
    wanted, own = _wanted(engine, query.body)
    said = engine.whole(wanted)[0]
    value: Json = {"generated_text": said.text()}
    if own.get("details") is True:
        value["details"] = _details(engine, said, prefill=own.get("decoder_input_details") is True)
    return Whole(value, len(said.steps))


def _details(engine: Engine, said: Said, *, prefill: bool) -> Json:
    tokens = [_token(engine, step.row) for step in said.steps]
    before: list[Json] = []
    if prefill:
        rows = scored(engine.toy, said.prompt, 0)
        pairs = zip(said.prompt, rows, strict=True)
        before = [{"id": one, "text": _text(engine, one), "logprob": row and row.logprob} for one, row in pairs]
    tops = [[_token(engine, Row(token, value, 0, ())) for token, value in step.row.top] for step in said.steps]
    ends = {"finish_reason": _reason(said), "generated_tokens": len(said.steps), "seed": None}
    return {**ends, "prefill": before, "tokens": tokens, "top_tokens": tops}


def _reason(said: Said) -> str:
    stop = said.steps[-1].stop if said.steps else None
    return "length" if said.finish == "length" else "stop_sequence" if stop else "eos_token"


def _token(engine: Engine, row: Row) -> Json:
    return {"id": row.id, "text": _text(engine, row.id), "logprob": row.logprob, "special": row.id < FIRST_BYTE}


def _text(engine: Engine, token: int) -> str:
    return engine.toy.table.text_of(token, special=True)


def _generate_stream(engine: Engine, query: Query) -> Stream:
    wanted, _ = _wanted(engine, query.body)
    return Stream(_events(engine, wanted))


def _events(engine: Engine, wanted: Asked) -> Iterator[Event]:
    said: list[Step] = []
    for step in engine.said(wanted, wanted.prompts[0], 0, stream=True):
        said.append(step)
        all_ = Said(wanted.prompts[0], tuple(said))
        details = {"finish_reason": _reason(all_), "generated_tokens": len(said), "seed": None}
        ends = step.finish is not None
        value: Json = {
            "index": len(said),
            "token": _token(engine, step.row),
            "generated_text": all_.text() if ends else None,
        }
        yield Event({**value, "details": details if ends else None}, 1)


def _tokenize(engine: Engine, query: Query) -> Whole:
    text = query.body.get("inputs")
    if not isinstance(text, str):
        raise Refused("inputs: a text is required", status=422)
    return Whole(_spans(engine, plain_ids(engine.script, text)))


def _spans(engine: Engine, ids: tuple[int, ...]) -> list[Json]:
    """Write tokens with the characters they stand for; special ones stand for none, and the tokens of a split character share it."""
    spans, held, at = [], b"", 0
    for token in ids:
        held += engine.toy.table.bytes_of(token)
        try:
            length, whole = len(held.decode()), True
        except UnicodeDecodeError:
            length, whole = 1, False
        spans.append({"id": token, "text": _text(engine, token), "start": at, "stop": at + length})
        if whole:
            at, held = at + length, b""
    return spans


def _chat_tokenize(engine: Engine, query: Query) -> Whole:
    ids = chat_ids(engine.script, query.body)
    return Whole({"tokenize_response": _spans(engine, ids), "templated_text": engine.toy.table.decode(ids)})


def _info(engine: Engine, _: Query) -> Whole:
    script = engine.script
    shown: Json = {
        "model_id": script.model,
        "model_sha": engine.digest("model"),
        "model_pipeline_tag": "text-generation",
    }
    shown |= {"max_concurrent_requests": 128, "max_best_of": 2, "max_stop_sequences": 4}
    shown |= {"max_input_tokens": script.context - 1, "max_total_tokens": script.context, "validation_workers": 2}
    return Whole(
        {
            **shown,
            "max_client_batch_size": 4,
            "router": "text-generation-router",
            "version": _VERSION,
            "sha": "0000000",
            "docker_label": "native",
        }
    )


def _refuse(refused: Refused) -> Json:
    kind = "validation" if refused.status == 422 else "generation"
    return {"error": refused.message, "error_type": kind}


WRITER = Writer(
    "tgi",
    HABITS,
    {
        **openai.routes(HABITS, CHAT, COMPLETIONS, "tgi"),
        "POST /v1/chat/completions": _generating(chat=True),
        "POST /v1/completions": _generating(chat=False),
        "GET /v1/models": openai.models(""),
        "POST /generate": _generate,
        "POST /generate_stream": _generate_stream,
        "POST /tokenize": _tokenize,
        "POST /chat_tokenize": _chat_tokenize,
        "GET /info": _info,
    },
    _refuse,
)
