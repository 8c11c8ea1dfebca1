"""One thread that owns the model and carries out one request after the other.

House rules: the only file that crosses between the event loop and the thread. The thread never touches the loop but through ``call_soon_threadsafe``; the loop
never touches the model. A request whose reader has gone is left at the next token.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field

from engines.reference.generate import AbandonedError, run
from engines.reference.refusal import RefusalError
from engines.reference.weights import Loaded
from engines.reference.work import Event, Generation

#: Requests that may wait for the one worker; the next is told to come back later.
MAX_WAITING = 256

_log = logging.getLogger(__name__)


class ModelError(Exception):
    """The model failed on a request; the log says how."""


@dataclass(slots=True)
class _Job:
    prompts: tuple[tuple[int, ...], ...]
    wanted: Generation
    loop: asyncio.AbstractEventLoop
    #: Events, then None at the end or an exception.
    events: asyncio.Queue[Event | ModelError | None] = field(default_factory=asyncio.Queue)
    gone: threading.Event = field(default_factory=threading.Event)

    def give(self, item: Event | ModelError | None) -> None:
        # A closed loop has no reader any more.
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self.events.put_nowait, item)


class Worker:
    """The thread and its queue. ``start`` loads the model in the thread itself, where torch's settings belong."""

    def __init__(self, load: Callable[[], Loaded]) -> None:
        self._load = load
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._current: _Job | None = None
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    async def start(self) -> Loaded:
        """Start the thread; returns what it has loaded, or raises what loading raised."""
        ready: asyncio.Future[Loaded] = asyncio.get_running_loop().create_future()
        self._thread = threading.Thread(
            target=self._run, args=(ready, asyncio.get_running_loop()), name="torch", daemon=True
        )
        self._thread.start()
        return await ready

    @property
    def alive(self) -> bool:
        """True while requests are carried out."""
        return self._thread is not None and self._thread.is_alive()

    async def events(self, prompts: tuple[tuple[int, ...], ...], wanted: Generation) -> AsyncIterator[Event]:
        """Carry out one request. Leaving the iteration early (a client that went away) gives the work up.

        Raises RefusalError (503) when too many wait, ModelError when the model fails.
        """
        if self._jobs.qsize() >= MAX_WAITING:
            raise RefusalError(
                "too many requests are waiting; try again later", status=503, kind="ServiceUnavailableError"
            )
        job = _Job(prompts, wanted, asyncio.get_running_loop())
        self._jobs.put(job)
        try:
            while (item := await job.events.get()) is not None:
                if isinstance(item, ModelError):
                    raise item
                yield item
        finally:
            job.gone.set()

    async def close(self) -> None:
        """End the thread at the next token."""
        self._closing.set()
        self._jobs.put(None)
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, 5)

    def _run(self, ready: asyncio.Future[Loaded], loop: asyncio.AbstractEventLoop) -> None:
        try:
            loaded = self._load()
        except Exception as failed:  # noqa: BLE001 - handed to whoever waits for the model
            loop.call_soon_threadsafe(_tell, ready, failed)
            return
        loop.call_soon_threadsafe(_tell, ready, loaded)
        while (job := self._jobs.get()) is not None and not self._closing.is_set():
            self._carry_out(loaded, job)

    def _carry_out(self, loaded: Loaded, job: _Job) -> None:
        def cancelled() -> bool:
            return job.gone.is_set() or self._closing.is_set()

        try:
            for event in run(loaded, job.prompts, job.wanted, cancelled):
                job.give(event)
            job.give(None)
        except AbandonedError:
            job.give(ModelError("the server is stopping"))
        except Exception:  # noqa: BLE001 - one bad request must not end the worker; the log has the cause
            _log.exception("the model failed on a request")
            job.give(ModelError("the model failed on this request"))


def _tell(ready: asyncio.Future[Loaded], outcome: Loaded | BaseException) -> None:
    """Say how loading went, unless whoever waited was told to stop meanwhile."""
    if ready.done():
        return
    if isinstance(outcome, BaseException):
        ready.set_exception(outcome)
    else:
        ready.set_result(outcome)
