"""Starts the reference engine: binds, loads, serves until a signal, says one line when it is ready.

The port is taken before the model is loaded, so that a port in use is known at once and not half a minute later.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import signal
import socket
import time
from typing import Any

import orjson
from aiohttp import web

from engines.reference.generate import Cached
from engines.reference.options import EngineStartError, ReferenceOptions
from engines.reference.protocol import Bounds
from engines.reference.routes import Engine, application
from engines.reference.weights import Loaded, load, own_version
from engines.reference.worker import Worker

#: Seconds in which open replies may still end after a signal.
GRACE = 5.0

_log = logging.getLogger(__name__)


def serve(options: ReferenceOptions) -> None:
    """Serve until SIGINT or SIGTERM. Raises EngineStartError with one clear line when the engine cannot start."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.WARNING)
    asyncio.run(_serve(options))


async def _serve(options: ReferenceOptions) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    with bound(options.host, options.port) as listener:
        worker = Worker(lambda: _checked(load(options)))
        loading = asyncio.ensure_future(worker.start())
        stopping = asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait((loading, stopping), return_when=asyncio.FIRST_COMPLETED)
            if not loading.done():
                return
            runner = web.AppRunner(
                application(_engine(loading.result(), worker, options)),
                handler_cancellation=True,
                shutdown_timeout=GRACE,
                access_log=None,
            )
            await runner.setup()
            await web.SockSite(runner, listener).start()
            host, port = listener.getsockname()[:2]
            facts = loading.result().facts
            shown = f"[{host}]" if ":" in host else host
            said = f"ready: http://{shown}:{port} (model {loading.result().name}, {facts['dtype']}, {facts['device']})"
            if warning := _warning(options):
                _log.warning(warning)
            print(f"parhelion reference engine {said}", flush=True)  # noqa: T201 - the promised line
            await stopping
            await runner.cleanup()
        finally:
            loading.cancel()
            stopping.cancel()
            await worker.close()


def bound(host: str, port: int) -> socket.socket:
    """Take a listening address; EngineStartError when it is in use or not this machine's."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind)
    except OSError as failed:
        raise EngineStartError(f"--host {host}: {failed.strerror}") from failed
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
        # Listening from now on makes a second server on this port fail too; early clients wait in the backlog until the model is there.
        listener.listen(128)
    except OSError as failed:
        listener.close()
        raise EngineStartError(f"cannot listen on {host}:{port}: {failed.strerror}; choose another --port") from failed
    return listener


def _checked(loaded: Loaded) -> Loaded:
    """Run two tokens through the model: a model without a usable KV cache is refused now and not in the first request."""
    import torch

    with torch.inference_mode():
        sequence = Cached(loaded)
        try:
            sequence.extend([0], keep=1)
            logits = sequence.extend([0], keep=1)
        except (TypeError, AttributeError, RuntimeError) as failed:
            raise EngineStartError(f"this model does not run here: {' '.join(str(failed).split())[:300]}") from failed
    if logits.shape != (1, loaded.vocabulary):
        raise EngineStartError(
            f"this model gives logits of shape {logits.shape}, expected (1, {loaded.vocabulary}): it is no causal language model"
        )
    return loaded


def _engine(loaded: Loaded, worker: Worker, options: ReferenceOptions) -> Engine:
    bounds = Bounds(
        min(options.max_logprobs, loaded.vocabulary), loaded.vocabulary, loaded.max_model_len, loaded.defaults
    )
    return Engine(
        loaded,
        worker,
        bounds,
        f"parhelion-reference-{own_version()}-{_digest(loaded.facts)}",
        int(time.time()),
        plant=options.plant,
        planted_routes=options.planted_routes,
        full_vocabulary=options.full_vocabulary,
    )


def _warning(options: ReferenceOptions) -> str | None:
    """Say that faults are in the answers, or can be asked for; None for an engine that is only itself."""
    if spelling := options.plant.spelling:
        return f"faults are planted in every answer ({spelling}): for trials alone, never for users"
    if options.planted_routes:
        return "faults are planted in what is asked below /planted/: for trials alone, never for users"
    return None


def _digest(facts: Any) -> str:
    return hashlib.sha256(orjson.dumps(dict(facts), option=orjson.OPT_SORT_KEYS)).hexdigest()[:8]
