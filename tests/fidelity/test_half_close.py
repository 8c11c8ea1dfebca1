"""A client that stops sending after its request: gone for us, as for nginx, Envoy and the engines' own servers; HAProxy's default is to wait."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvloop
from aiohttp import web

from proxy.counters import Slot
from tests import programs
from tests.smuggling import haproxy, nginx
from tests.smuggling.launch import free_ports
from tests.wire.client import Wire, post
from tests.wire.engine import Connection, Engine, chunk, reply
from tests.wire.proxied import proxied

REQUEST = post(b'{"stream": true}', close=False)


@asynccontextmanager
async def slow(left: asyncio.Event, seconds: float = 20.0) -> AsyncIterator[Engine]:
    """An engine that takes its time to answer, and notes when its client leaves before."""

    async def behave(connection: Connection) -> None:
        await connection.request()
        leaving = asyncio.ensure_future(connection.read_raw())
        done, _ = await asyncio.wait({leaving}, timeout=seconds)
        if done:
            left.set()
        else:
            await connection.send(reply(b"late"))
            await leaving

    async with Engine(behave) as engine:
        yield engine


async def half_closed(address: tuple[str, int]) -> bytes:
    """Send, shut the sending side, and take what comes."""
    async with asyncio.timeout(15), Wire(address) as wire:
        await wire.send(REQUEST)
        await asyncio.sleep(0.2)
        wire.writer.write_eof()
        return await wire.rest()


def test_the_primary_is_told_at_once(state: Path) -> None:
    async def main() -> None:
        left = asyncio.Event()
        async with slow(left) as engine, proxied(engine.url, state) as proxy:
            assert await half_closed(proxy.address) == b""
            await asyncio.wait_for(left.wait(), 10)
            assert proxy[Slot.CLIENT_DISCONNECTS] == 1
            assert list(proxy.counters.requests()) == [("chat_completions", 499, 1)]

    uvloop.run(main())


def test_inside_a_stream_too(state: Path) -> None:
    left = asyncio.Event()

    async def behave(connection: Connection) -> None:
        await connection.request()
        await connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(b"one"))
        assert await connection.read_raw() == b""
        left.set()

    async def main() -> None:
        async with Engine(behave) as engine, proxied(engine.url, state) as proxy:
            got = await half_closed(proxy.address)
            assert got.endswith(b"\r\n\r\n3\r\none\r\n")  # and no last chunk: a cut, not an end
            await asyncio.wait_for(left.wait(), 5)
            assert not engine.errors

    uvloop.run(main())


@pytest.mark.parametrize(("peer", "waits"), [(nginx, False), (haproxy, True)], ids=["nginx", "haproxy"])
def test_what_other_proxies_do(peer: Callable, waits: bool, tmp_path: Path) -> None:
    package = {"nginx": "nginx-light", "haproxy": "haproxy"}[peer.__name__.rpartition(".")[2]]
    programs.need(programs.debian, package, peer.__name__.rpartition(".")[2])

    async def main() -> None:
        left = asyncio.Event()
        [port] = free_ports(1)
        async with slow(left, 1.0 if waits else 20.0) as engine:
            with peer.serving({port: engine.port}, tmp_path):
                got = await half_closed(("127.0.0.1", port))
                assert got.endswith(b"late") == waits
                if not waits:
                    await asyncio.wait_for(left.wait(), 10)

    uvloop.run(main())


def test_what_the_server_of_our_reference_engine_does(tmp_path: Path) -> None:
    """aiohttp, like uvicorn (vLLM, SGLang), takes a half-closed connection for closed: past the proxy such a client gets nothing either."""

    async def answer(_: web.Request) -> web.Response:
        await asyncio.sleep(0.5)
        return web.Response(text="late")

    async def main() -> None:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", answer)
        runner = web.AppRunner(app)
        await runner.setup()
        sock = socket.socket()
        sock.bind(("127.0.0.1", 0))
        await web.SockSite(runner, sock).start()
        assert await half_closed(sock.getsockname()) == b""
        await runner.cleanup()

    uvloop.run(main())
