"""The HTTP routes: a request in, the worker's events out, as JSON or as a stream.

House rules: parsing, rendering and writing replies are done elsewhere; this file connects them. Every error is a JSON object in OpenAI's shape; what went
wrong inside is in the log alone.
"""

from __future__ import annotations

import asyncio
import io
import logging
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
from aiohttp import web
from msgspec.structs import replace

from engines.reference import planted, prompts, protocol, render, replies
from engines.reference.logprobs import Logprobs
from engines.reference.planted import HEALTHY, Plant, plant_of
from engines.reference.refusal import Json, RefusalError, decode
from engines.reference.weights import Loaded, own_version
from engines.reference.work import Event, Generation, PromptRead
from engines.reference.worker import ModelError, Worker

#: A long context as JSON text; vLLM sets no limit, nginx's default of 1 MiB would refuse real prompts.
MAX_BODY = 64 * 2**20

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Engine:
    """What the routes share."""

    loaded: Loaded
    worker: Worker
    bounds: protocol.Bounds
    fingerprint: str
    started: int
    #: The fault in every answer, unless the address names another one.
    plant: Plant = HEALTHY
    planted_routes: bool = False
    full_vocabulary: bool = False


ENGINE: web.AppKey[Engine] = web.AppKey("engine", Engine)


def application(engine: Engine) -> web.Application:
    """Make the aiohttp application of a loaded engine."""
    app = web.Application(middlewares=[_errors], client_max_size=MAX_BODY)
    app[ENGINE] = engine
    app.on_response_prepare.append(_no_banner)
    for below in ("", "/planted/{plant}") if engine.planted_routes else ("",):
        app.router.add_post(f"{below}/v1/chat/completions", _chat)
        app.router.add_post(f"{below}/v1/completions", _completions)
        app.router.add_post(f"{below}/tokenize", _tokenize)
        app.router.add_post(f"{below}/detokenize", _detokenize)
        app.router.add_get(f"{below}/v1/models", _models)
        app.router.add_get(f"{below}/health", _health)
        app.router.add_get(f"{below}/version", _version)
        app.router.add_get(f"{below}/server_info", _server_info)
        if engine.full_vocabulary:
            app.router.add_post(f"{below}/full_logprobs", _full_logprobs)
    return app


def _plant(request: web.Request) -> Plant:
    """Return the fault that the address names, the engine's own where it names none."""
    named = request.match_info.get("plant")
    if named is None:
        return request.app[ENGINE].plant
    try:
        return plant_of(named)
    except ValueError as wrong:
        raise RefusalError(f"planted: {wrong}", param="planted") from None


async def _chat(request: web.Request) -> web.StreamResponse:
    body = await _body(request)
    shown = protocol.shown(body, chat=True)
    return await _answer(request, body, shown, (_chat_ids(request, body),), chat=True)


async def _completions(request: web.Request) -> web.StreamResponse:
    body = await _body(request)
    shown = protocol.shown(body, chat=False)
    return await _answer(request, body, shown, _text_ids(request, body), chat=False)


def _chat_ids(request: web.Request, body: Json) -> tuple[int, ...]:
    loaded = request.app[ENGINE].loaded
    return planted.prompt(render.chat_ids(loaded.tokenizer, prompts.chat(body)), _plant(request), loaded.begin)


def _text_ids(request: web.Request, body: Json) -> tuple[tuple[int, ...], ...]:
    engine, plant = request.app[ENGINE], _plant(request)
    text = prompts.text(body, engine.bounds.vocabulary)
    rendered = render.text_ids(engine.loaded.tokenizer, text)
    if not text.add_special_tokens:
        return rendered  # text to be taken as it is, as ids are
    return tuple(
        planted.prompt(ids, plant, engine.loaded.begin) if isinstance(given, str) else ids
        for given, ids in zip(text.prompts, rendered, strict=True)
    )


async def _answer(
    request: web.Request, body: Json, shown: protocol.Shown, given: tuple[tuple[int, ...], ...], *, chat: bool
) -> web.StreamResponse:
    engine = request.app[ENGINE]
    plant = _plant(request)
    asked = protocol.generation(body, engine.bounds, chat=chat, longest=max(map(len, given)))
    wanted = asked if plant == HEALTHY else replace(asked, plant=plant, opening=engine.loaded.opening)
    reply = replies.Reply(
        id=f"{'chatcmpl' if chat else 'cmpl'}-{uuid.uuid4().hex[:16]}",
        created=int(time.time()),
        model=engine.loaded.name,
        fingerprint=_fingerprint(engine, plant),
        chat=chat,
        n=wanted.n,
        prompts=given,
        shown=shown,
        table=engine.loaded.table,
    )
    return await (_streamed if shown.stream else _whole)(request, reply, wanted)


async def _whole(request: web.Request, reply: replies.Reply, wanted: Generation) -> web.StreamResponse:
    events: list[Event] = [event async for event in request.app[ENGINE].worker.events(reply.prompts, wanted)]
    # A thousand alternatives at a thousand positions take seconds to write: not on the loop.
    written = await asyncio.to_thread(lambda: orjson.dumps(replies.whole(reply, events)))
    return web.Response(body=written, content_type="application/json")


async def _streamed(request: web.Request, reply: replies.Reply, wanted: Generation) -> web.StreamResponse:
    response = web.StreamResponse(
        headers={"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}
    )
    chunks = replies.Chunks(reply)
    await response.prepare(request)
    try:
        async for event in request.app[ENGINE].worker.events(reply.prompts, wanted):
            await response.write(b"".join(map(_event, chunks.push(event))))
        await response.write(b"".join(map(_event, chunks.end())))
    except (ModelError, RefusalError) as failed:
        # The status has gone out already: say it inside the stream, as vLLM does.
        await response.write(_event(_internal(str(failed))))
    await response.write(b"data: [DONE]\n\n")
    await response.write_eof()
    return response


def _event(chunk: Json) -> bytes:
    return b"data: " + orjson.dumps(chunk) + b"\n\n"


async def _tokenize(request: web.Request) -> web.StreamResponse:
    engine = request.app[ENGINE]
    body = await _body(request)
    if "messages" in body:
        ids = _chat_ids(request, body)
    else:
        given = _text_ids(request, body)
        if len(given) != 1:
            raise RefusalError("prompt: one text at a time", param="prompt")
        ids = given[0]
    pieces = render.pieces_of(engine.loaded.tokenizer, ids) if body.get("return_token_strs") else None
    return _json({"count": len(ids), "max_model_len": engine.bounds.max_model_len, "tokens": ids, "token_strs": pieces})


async def _detokenize(request: web.Request) -> web.StreamResponse:
    engine = request.app[ENGINE]
    ids = prompts.ids(await _body(request), engine.bounds.vocabulary)
    return _json({"prompt": render.text_of(engine.loaded.tokenizer, ids)})


async def _full_logprobs(request: web.Request) -> web.StreamResponse:
    """Every token's value at the places of ``tokens`` from ``start`` on, as an ``.npy`` array of float64: (positions, vocabulary)."""
    engine = request.app[ENGINE]
    ids, asked = protocol.whole(await _body(request), engine.bounds)
    wanted = replace(asked, plant=_plant(request), opening=engine.loaded.opening)
    read = [event async for event in engine.worker.events((ids,), wanted) if isinstance(event, PromptRead)]
    return web.Response(body=await asyncio.to_thread(_npy, read[0].whole), content_type="application/octet-stream")


def _npy(array: Logprobs | None) -> bytes:
    assert array is not None
    written = io.BytesIO()
    np.save(written, array, allow_pickle=False)
    return written.getvalue()


async def _models(request: web.Request) -> web.StreamResponse:
    engine = request.app[ENGINE]
    model = {
        "id": engine.loaded.name,
        "object": "model",
        "created": engine.started,
        "owned_by": "parhelion",
        "root": engine.loaded.facts["model"],
        "parent": None,
        "max_model_len": engine.bounds.max_model_len,
    }
    return _json({"object": "list", "data": [model]})


async def _health(request: web.Request) -> web.StreamResponse:
    return web.Response(status=200 if request.app[ENGINE].worker.alive else 503)


async def _version(_: web.Request) -> web.StreamResponse:
    return _json({"version": own_version(), "engine": "parhelion-reference"})


async def _server_info(request: web.Request) -> web.StreamResponse:
    engine, plant = request.app[ENGINE], _plant(request)
    defaults = engine.bounds.defaults
    sampling = {
        name: getattr(defaults, name) for name in ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
    }
    own = {
        "served_model_name": engine.loaded.name,
        "max_model_len": engine.bounds.max_model_len,
        "vocabulary": engine.bounds.vocabulary,
        "sampling_defaults": sampling,
        "tie_break": f"{plant.ties} id",
        "planted": plant.spelling or None,
        "system_fingerprint": _fingerprint(engine, plant),
    }
    return _json({**engine.loaded.facts, **own})


def _fingerprint(engine: Engine, plant: Plant) -> str:
    return engine.fingerprint if plant == HEALTHY else f"{engine.fingerprint}.planted"


async def _body(request: web.Request) -> Json:
    body = decode(await request.read(), request.content_type)
    protocol.model_of(body, request.app[ENGINE].loaded.name)
    return body


def _json(value: Any, status: int = 200) -> web.Response:
    return web.Response(body=orjson.dumps(value), status=status, content_type="application/json")


def _internal(message: str) -> Json:
    return {"error": {"message": message, "type": "InternalServerError", "param": None, "code": 500}}


@web.middleware
async def _errors(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    try:
        return await handler(request)
    except RefusalError as refused:
        return _json(refused.body, refused.status)
    except ModelError as failed:
        return _json(_internal(str(failed)), 500)
    except web.HTTPException as answered:
        error = {
            "message": answered.reason,
            "type": answered.reason.replace(" ", ""),
            "param": None,
            "code": answered.status,
        }
        response = _json({"error": error}, answered.status)
        if "Allow" in answered.headers:
            response.headers["Allow"] = answered.headers["Allow"]
        return response
    except Exception:  # noqa: BLE001 - a client sees JSON whatever went wrong; the log has the cause
        _log.exception("a request failed inside the server")
        return _json(_internal("internal error; the server's log says more"), 500)


async def _no_banner(_: web.Request, response: web.StreamResponse) -> None:
    response.headers.popall("Server", None)
