"""A scripted engine in a thread of its own, so that a test can look at it while clients run in another loop."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvloop

from tests.running import until
from tests.wire.engine import Behaviour, Engine


@contextmanager
def threaded(behaviour: Behaviour) -> Iterator[Engine]:
    """Serve until the end; no behaviour may have failed by then."""
    engine, ready, over = Engine(behaviour), threading.Event(), asyncio.Event()
    loop = uvloop.new_event_loop()

    async def serve() -> None:
        async with engine:
            ready.set()
            await over.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        assert ready.wait(10)
        yield engine
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(10)
        loop.close()
    assert not engine.errors


def change(engine: Engine, behaviour: Behaviour) -> None:
    """Behave otherwise from now on; connections that still know the behaviour of before are closed."""
    engine.behaviour = behaviour
    before = set(engine._tasks)  # whoever connects from now on knows the new one, and may stay
    for task in before:
        task.get_loop().call_soon_threadsafe(task.cancel)
    until(lambda: not before & engine._tasks, what="the end of the connections of before")
    time.sleep(0.2)  # until the peers have seen it
