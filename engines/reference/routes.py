"""The HTTP routes: a request in, the worker's events out, as JSON or as a stream.

House rules: parsing, rendering and writing replies are done elsewhere; this file connects them. Every error is a JSON object in OpenAI's shape; what went
wrong inside is in the log alone.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import orjson
from aiohttp import web

from engines.reference import prompts, protocol, render, replies
from engines.reference.refusal import Json, RefusalError, decode
from engines.reference.weights import Loaded, own_version
from engines.reference.work import Event, Generation
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


ENGINE: web.AppKey[Engine] = web.AppKey("engine", Engine)


def application(engine: Engine) -> web.Application:
    """Make the aiohttp application of a loaded engine."""
    app = web.Application(middlewares=[_errors], client_max_size=MAX_BODY)
    app[ENGINE] = engine
    app.on_response_prepare.append(_no_banner)
    app.router.add_post("/v1/chat/completions", _chat)
    app.router.add_post("/v1/completions", _completions)
    app.router.add_post("/tokenize", _tokenize)
    app.router.add_post("/detokenize", _detokenize)
    app.router.add_get("/v1/models", _models)
    app.router.add_get("/health", _health)
    app.router.add_get("/version", _version)
    app.router.add_get("/server_info", _server_info)
    return app


async def _chat(request: web.Request) -> web.StreamResponse:
    engine = request.app[ENGINE]
    body = await _body(request)
    shown = protocol.shown(body, chat=True)
    prompt = render.chat_ids(engine.loaded.tokenizer, prompts.chat(body))
    return await _answer(request, body, shown, (prompt,), chat=True)


async def _completions(request: web.Request) -> web.StreamResponse:
    engine = request.app[ENGINE]
    body = await _body(request)
    shown = protocol.shown(body, chat=False)
    given = render.text_ids(engine.loaded.tokenizer, prompts.text(body, engine.bounds.vocabulary))
    return await _answer(request, body, shown, given, chat=False)


async def _answer(
    request: web.Request, body: Json, shown: protocol.Shown, given: tuple[tuple[int, ...], ...], *, chat: bool
) -> web.StreamResponse:
    engine = request.app[ENGINE]
    wanted = protocol.generation(body, engine.bounds, chat=chat, longest=max(map(len, given)))
    reply = replies.Reply(
        id=f"{'chatcmpl' if chat else 'cmpl'}-{uuid.uuid4().hex[:16]}",
        created=int(time.time()),
        model=engine.loaded.name,
        fingerprint=engine.fingerprint,
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
    tokenizer = engine.loaded.tokenizer
    if "messages" in body:
        ids = render.chat_ids(tokenizer, prompts.chat(body))
    else:
        given = render.text_ids(tokenizer, prompts.text(body, engine.bounds.vocabulary))
        if len(given) != 1:
            raise RefusalError("prompt: one text at a time", param="prompt")
        ids = given[0]
    pieces = render.pieces_of(tokenizer, ids) if body.get("return_token_strs") else None
    return _json({"count": len(ids), "max_model_len": engine.bounds.max_model_len, "tokens": ids, "token_strs": pieces})


async def _detokenize(request: web.Request) -> web.StreamResponse:
    engine = request.app[ENGINE]
    ids = prompts.ids(await _body(request), engine.bounds.vocabulary)
    return _json({"prompt": render.text_of(engine.loaded.tokenizer, ids)})


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
    engine = request.app[ENGINE]
    defaults = engine.bounds.defaults
    sampling = {
        name: getattr(defaults, name) for name in ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
    }
    own = {
        "served_model_name": engine.loaded.name,
        "max_model_len": engine.bounds.max_model_len,
        "vocabulary": engine.bounds.vocabulary,
        "sampling_defaults": sampling,
        "system_fingerprint": engine.fingerprint,
    }
    return _json({**engine.loaded.facts, **own})


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
