"""A traffic process from start to drain, and what it counts."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from pathlib import Path

import pytest
import uvloop

from proxy.counters import ENDPOINTS, Slot
from proxy.exchange import Ended
from tests.wire.client import Wire, ask, get, post
from tests.wire.engine import STREAM, Connection, Engine, always, chunk, reply
from tests.wire.judge import judging
from tests.wire.proxied import proxied


def test_sigterm_lets_open_streams_finish_and_closes_the_rest(state: Path) -> None:
    async def main() -> None:
        go = asyncio.Event()

        async def behave(connection: Connection) -> None:
            await connection.request()
            await connection.send(STREAM, chunk(b"data: 1\n\n"))
            await go.wait()
            await connection.send(chunk(b"data: 2\n\n"), chunk(b""))

        async with judging(state) as judge, Engine(behave) as engine, proxied(engine.url, state) as proxy:
            async with Wire(proxy.address) as open_, Wire(proxy.address) as idle:
                await open_.send(post(b"{}", close=False))
                await open_.until(b"1\n\n")
                proxy.stop.set()
                assert await idle.rest() == b""
                with pytest.raises(ConnectionRefusedError):
                    await ask(proxy.address, get())
                go.set()
                assert (await open_.rest()).endswith(chunk(b"data: 2\n\n") + chunk(b""))
            [exchange] = await judge.until(1)
            assert exchange.ended is Ended.COMPLETE

    uvloop.run(main())


def test_a_drain_has_an_end(state: Path) -> None:
    async def main() -> None:
        async def hang(connection: Connection) -> None:
            await connection.request()
            await connection.read_raw()

        async with (
            Engine(hang) as engine,
            Wire(("127.0.0.1", engine.port)),
            proxied(engine.url, state, drain=0.2) as proxy,
            Wire(proxy.address) as wire,
        ):
            await wire.send(post(b"{}"))
            await proxy.until(Slot.OPEN_SAMPLED, 1)
            proxy.stop.set()
            async with asyncio.timeout(5):
                assert await wire.rest() == b""

    uvloop.run(main())


def test_durations_and_overhead_are_counted(state: Path) -> None:
    async def main() -> None:
        async with Engine(always(reply(b"ok"))) as engine, proxied(engine.url, state) as proxy:
            for path in ("/v1/chat/completions", "/v1/models", "/elsewhere"):
                await ask(proxy.address, post(b"{}", path))
            found = {endpoint: (code, count) for endpoint, code, count in proxy.counters.requests()}
            assert found == {"chat_completions": (200, 1), "models": (200, 1), "other": (200, 1)}
            buckets, total = proxy.counters.duration_buckets(ENDPOINTS.index("models"))
            assert (sum(buckets), total > 0) == (1, True)
            assert sum(proxy.counters.overhead_buckets()[0]) == 3

    uvloop.run(main())


def test_a_turn_of_the_loop_takes_several_new_connections(state: Path) -> None:
    """Turns are long where there are many streams: with one connection a turn, a burst of newcomers would wait for seconds."""
    count = 64

    async def main() -> int:
        turns = 0
        async with Engine(always(reply(b"ok"))) as engine, proxied(engine.url, state) as proxy:
            with contextlib.ExitStack() as stack:
                for _ in range(count):  # the kernel completes them; nobody has been asked to accept yet
                    stack.enter_context(socket.create_connection(proxy.address))
                async with asyncio.timeout(10.0):
                    while proxy[Slot.CLIENT_CONNECTIONS] < count:
                        await asyncio.sleep(0)
                        turns += 1
        return turns

    assert uvloop.run(main()) < count / 2
