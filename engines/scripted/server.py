"""The aiohttp edge: bytes in, bytes out, time kept, faults done.

House rules. The only file here that knows sockets and clocks. ``/scripted/script`` takes another script while it runs, ``/scripted/requests`` tells which bodies came
last; both are for tests and belong to no dialect.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web

from engines.scripted.engine import Engine, Event, Stream, Whole, Writer
from engines.scripted.faults import Ailments
from engines.scripted.model import Toy
from engines.scripted.refused import Refused
from engines.scripted.routes import served
from engines.scripted.script import Fault, Script
from engines.scripted.script_load import ScriptError, read
from engines.scripted.wire import ending, framed, kind_of, written
from engines.scripted.writers.registry import writer as writer_of

#: As the reference engine's bound for one body.
MAX_BODY = 64 << 20
#: Bodies that ``/scripted/requests`` remembers.
_REMEMBERED = 1000
#: How long what hangs hangs.
_LONG = 3600.0
_GARBAGE = b"\x00\xff\xfe not what was asked for \x00{[\r\n\r\n" * 3


@dataclass(slots=True)
class Served:
    """What the edge keeps: the engine of the script in force, faults counted, requests remembered."""

    writer: Writer
    engine: Engine
    ailments: Ailments
    requests: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    #: Stops listening, so that whoever comes next is refused.
    deaf: Callable[[], Awaitable[None]] | None = None


SERVED: web.AppKey[Served] = web.AppKey("served", Served)


def application(script: Script, dialect: str) -> web.Application:
    """Make the aiohttp application of one scripted engine. Raises KeyError for an unknown dialect."""
    app = web.Application(client_max_size=MAX_BODY)
    app[SERVED] = Served(writer_of(dialect), _engine(script), Ailments(script.faults))
    app.on_response_prepare.append(_headers)
    app.router.add_put("/scripted/script", _rescript)
    app.router.add_get("/scripted/requests", _requests)
    app.router.add_route("*", "/{path:.*}", _serve)
    return app


def serve(script: Script, dialect: str, host: str, port: int) -> None:
    """Serve until SIGINT or SIGTERM; says one line when ready. Raises OSError when the address cannot be had."""
    asyncio.run(_run(script, dialect, host, port))


async def _run(script: Script, dialect: str, host: str, port: int) -> None:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    app = application(script, dialect)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1.0, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
        app[SERVED].deaf = site.stop
        bound = runner.addresses[0]
        shown = f"[{bound[0]}]" if ":" in bound[0] else bound[0]
        said = f"ready: http://{shown}:{bound[1]} (dialect {dialect}, model {script.model})"
        print(f"parhelion scripted engine {said}", flush=True)  # noqa: T201 - the promised line
        await stop.wait()
    finally:
        await runner.cleanup()


def _engine(script: Script) -> Engine:
    return Engine(script, Toy(script), int(time.time()))


async def _rescript(request: web.Request) -> web.Response:
    """Take another script from now on; what is running goes on with the old one."""
    here = request.app[SERVED]
    try:
        script = await asyncio.to_thread(read, await request.read())
    except ScriptError as wrong:
        return web.json_response({"error": str(wrong)}, status=400)
    here.engine, here.ailments = _engine(script), Ailments(script.faults)
    return web.json_response({"model": script.model})


async def _requests(request: web.Request) -> web.Response:
    return web.json_response(list(request.app[SERVED].requests))


async def _serve(request: web.Request) -> web.StreamResponse:
    here = request.app[SERVED]
    key = here.engine.script.api_key
    if key is not None and request.headers.get("Authorization") != f"Bearer {key}":
        refused = Refused("Unauthorized", status=401)
        return _json(here.writer.refuse(refused), 401)
    body = await request.read()
    if request.method == "POST":
        here.requests.append({"path": request.path, "body": _shown(body)})
    fault = here.ailments.next(request.path)
    early = await _before(request, fault)
    if early is not None:
        return early
    answer = await asyncio.to_thread(
        served, here.engine, here.writer, request.method, request.path, dict(request.query), body
    )
    timing = here.engine.script.timing
    if isinstance(answer, Whole):
        await asyncio.sleep(timing.first + timing.token * answer.tokens)
        return await _whole(request, answer, fault)
    return await _streamed(request, answer, fault)


def _shown(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None


async def _before(request: web.Request, fault: Fault) -> web.Response | None:
    """Do the faults that need no reply."""
    here = request.app[SERVED]
    faults = here.ailments.faults
    match fault:
        case "hang":
            await asyncio.sleep(_LONG)
        case "status":
            return _json(here.writer.refuse(Refused("planted", status=faults.status)), faults.status)
        case "empty":
            return _json({})
        case "garbage":
            return web.Response(body=_GARBAGE, content_type="application/json")
        case "reset" | "refuse":
            if fault == "refuse" and here.deaf is not None:
                deaf, here.deaf = here.deaf, None  # once: others come on connections that were open
                await deaf()
            _abort(request)
            return web.Response()
    return None


async def _whole(request: web.Request, answer: Whole, fault: Fault) -> web.StreamResponse:
    data, kind = written(answer)
    if fault not in ("cut", "drip", "error_event"):
        return web.Response(body=data, status=answer.status, content_type=kind)
    if fault == "error_event":
        return _json(request.app[SERVED].writer.refuse(Refused("planted", status=500)), 500)
    response = web.StreamResponse(status=answer.status, headers={"content-type": kind})
    response.content_length = len(data)
    await response.prepare(request)
    if fault == "drip":
        await _drip(response, data)
    else:
        await response.write(data[: len(data) // 2])
        _abort(request)
    return response


async def _streamed(request: web.Request, answer: Stream, fault: Fault) -> web.StreamResponse:
    here, timing = request.app[SERVED], request.app[SERVED].engine.script.timing
    response = web.StreamResponse(headers={"content-type": kind_of(answer), "cache-control": "no-cache"})
    await response.prepare(request)
    await asyncio.sleep(timing.first)
    for place, event in enumerate(answer.events):
        # Also without a pause: a client that has gone is noticed, and others get their turn.
        await asyncio.sleep(timing.token * event.tokens)
        if fault in ("cut", "error_event") and place >= here.ailments.faults.at:
            return await _broken(request, response, answer, fault)
        data = framed(here.writer, answer, event)
        if fault == "drip":
            await _drip(response, data)
        elif data:
            await response.write(data)
    if fault != "no_done":
        await response.write(ending(here.writer, answer))
    await response.write_eof()
    return response


async def _broken(
    request: web.Request, response: web.StreamResponse, answer: Stream, fault: Fault
) -> web.StreamResponse:
    if fault == "cut":
        _abort(request)
        return response
    writer = request.app[SERVED].writer
    error = Event(writer.refuse(Refused("planted", status=500)))
    await response.write(framed(writer, answer, error) + ending(writer, answer))
    await response.write_eof()
    return response


async def _drip(response: web.StreamResponse, data: bytes) -> None:
    """One byte a second."""
    for place in range(len(data)):
        await response.write(data[place : place + 1])
        await asyncio.sleep(1.0)


def _abort(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()


def _json(value: Any, status: int = 200) -> web.Response:
    return web.Response(body=orjson.dumps(value), status=status, content_type="application/json")


async def _headers(request: web.Request, response: web.StreamResponse) -> None:
    response.headers.popall("Server", None)
    response.headers.update(request.app[SERVED].writer.headers)
