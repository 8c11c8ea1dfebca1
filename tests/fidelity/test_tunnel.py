"""A websocket through the proxy, with aiohttp at both ends and on raw sockets; and every other upgrade, which is not passed."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
import uvloop
from aiohttp import web

from proxy.config import Timeouts
from proxy.counters import Slot
from proxy.traffic.refusals import BAD_UPGRADE, PRIMARY_PROTOCOL
from tests.wire.client import Wire, ask, parse
from tests.wire.engine import Connection, Engine, always, once, reply
from tests.wire.proxied import Proxy, proxied

OFFER = (
    b"GET /v1/realtime?model=m HTTP/1.1\r\nHost: x\r\nconnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nsec-websocket-PROTOCOL: realtime, openai-insecure-api-key.sk-1\r\n\r\n"
)
TAKEN = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\nconnection: upgrade\r\n"
    b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
)


@asynccontextmanager
async def realtime(tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """An engine that sends every message back, and closes with the code it is told; its URL."""

    async def talk(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=("realtime",))
        await socket.prepare(request)
        async for message in socket:
            if message.data == "bye":
                await socket.close(code=4001, message=b"told to")
            elif isinstance(message.data, str):
                await socket.send_str(message.data)
            else:
                await socket.send_bytes(message.data)
        return socket

    app = web.Application()
    app.router.add_get("/v1/realtime", talk)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    try:
        yield f"http{'s' if tls else ''}://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def open_tunnel(wire: Wire, proxy: Proxy) -> bytes:
    """Offer, and read the head of the answer."""
    await wire.send(OFFER)
    head = await wire.until(b"\r\n\r\n")
    await proxy.until(Slot.OPEN_STREAMS, 1)
    return head


def test_a_websocket_works_from_end_to_end(state: Path) -> None:
    async def main() -> None:
        async with realtime() as engine, proxied(engine, state) as proxy, aiohttp.ClientSession() as session:
            url = f"http://{proxy.address[0]}:{proxy.address[1]}/v1/realtime?model=m"
            async with asyncio.timeout(30), session.ws_connect(url, protocols=("realtime",), max_msg_size=0) as socket:
                assert socket.protocol == "realtime"
                await proxy.until(Slot.OPEN_STREAMS, 1)
                for text in ("", "hello", "日本語 🥳" * 1000):
                    await socket.send_str(text)
                    assert (await socket.receive()).data == text
                large = bytes(range(256)) * 8192
                await socket.send_bytes(large)
                assert (await socket.receive()).data == large
                await socket.ping(b"still there")
                await socket.send_str("bye")
                last = await socket.receive()
                assert (last.type, last.data, last.extra) == (aiohttp.WSMsgType.CLOSE, 4001, "told to")
            await proxy.until(Slot.OPEN_STREAMS, 0)
            assert list(proxy.counters.requests()) == [("other", 101, 1)]
            assert proxy[Slot.SAMPLED] + proxy[Slot.OFFERED] == 0
            await proxy.until(Slot.CLIENT_CONNECTIONS, 0)

    uvloop.run(main())


def test_a_websocket_of_an_https_primary_works_too(
    certificate: tuple[str, str], state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    monkeypatch.setenv("SSL_CERT_FILE", certificate[0])

    async def main() -> None:
        async with realtime(context) as engine, proxied(engine, state) as proxy, aiohttp.ClientSession() as session:
            url = f"http://{proxy.address[0]}:{proxy.address[1]}/v1/realtime"
            async with asyncio.timeout(30), session.ws_connect(url, max_msg_size=0) as socket:
                large = bytes(range(256)) * 8192
                await socket.send_bytes(large)
                assert (await socket.receive()).data == large
            await proxy.until(Slot.OPEN_STREAMS, 0)
            await proxy.until(Slot.CLIENT_CONNECTIONS, 0)

    uvloop.run(main())


def test_the_handshake_is_passed_on_and_what_follows_is_opaque(state: Path) -> None:
    async def behave(connection: Connection) -> None:
        await connection.request()
        await connection.send(
            b"HTTP/1.1 103 Early Hints\r\nX-A: 1\r\n\r\n" + TAKEN + b"\x00first\r\n\r\nGET / HTTP/1.1\r\n\r\n"
        )
        while data := await connection.read_raw():
            await connection.send(data[::-1])

    async def main() -> None:
        async with Engine(behave) as engine, proxied(engine.url, state) as proxy, Wire(proxy.address) as wire:
            async with asyncio.timeout(20):
                assert await wire.send(OFFER + b"\x81\x00early") is None
                assert await wire.until(b"\r\n\r\n") == b"HTTP/1.1 103 Early Hints\r\nX-A: 1\r\n\r\n"
                assert await wire.until(b"\r\n\r\n") == (
                    b"HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"
                    b"Connection: Upgrade\r\nUpgrade: WebSocket\r\n\r\n"
                )
                assert await wire.reader.readexactly(28) == b"\x00first\r\n\r\nGET / HTTP/1.1\r\n\r\n"
                assert await wire.reader.readexactly(7) == b"\x81\x00early"[::-1]
                await wire.send(b"POST /v1/x HTTP/1.1\r\n\r\n")
                assert await wire.reader.readexactly(23) == b"POST /v1/x HTTP/1.1\r\n\r\n"[::-1]
            [request] = engine.requests
            assert request.line == b"GET /v1/realtime?model=m HTTP/1.1"
            assert request.fields == [
                (b"Host", engine.host), (b"Sec-WebSocket-Key", b"dGhlIHNhbXBsZSBub25jZQ=="), (b"Sec-WebSocket-Version", b"13"),
                (b"sec-websocket-PROTOCOL", b"realtime, openai-insecure-api-key.sk-1"), (b"Connection", b"Upgrade"), (b"Upgrade", b"websocket"),
            ]  # fmt: skip

    uvloop.run(main())


@pytest.mark.parametrize("end", ["client", "engine", "client resets", "engine resets"])
def test_both_ends_close_together_and_what_was_written_last_arrives(end: str, state: Path) -> None:
    gone = asyncio.Event()

    async def behave(connection: Connection) -> None:
        await connection.request()
        await connection.send(TAKEN)
        assert await connection.read_raw() == b"hello"
        await connection.send(b"last words")
        if end == "engine":
            return
        if end == "engine resets":
            await asyncio.sleep(0.05)
            connection.reset()
            return
        assert await connection.read_raw() == b""
        gone.set()

    async def main() -> None:
        async with Engine(behave) as engine, proxied(engine.url, state) as proxy, Wire(proxy.address) as wire:
            async with asyncio.timeout(20):
                await open_tunnel(wire, proxy)
                await wire.send(b"hello")
                assert await wire.reader.readexactly(10) == b"last words"
                if end == "client":
                    wire.writer.close()
                elif end == "client resets":
                    wire.writer.transport.abort()
                else:
                    assert await wire.rest() == b""
                if end.startswith("client"):
                    await gone.wait()
                await proxy.until(Slot.OPEN_STREAMS, 0)
                await proxy.until(Slot.CLIENT_CONNECTIONS, 0)
            assert not engine.errors

    uvloop.run(main())


@pytest.mark.parametrize("still", ["engine", "client"])
def test_a_side_that_does_not_read_stops_the_other_and_silence_ends_both(still: str, state: Path) -> None:
    """Back pressure: of 64 MB only what the buffers on the way hold is taken; then nothing moves, and the idle time ends it."""
    taken = 0

    async def pour(send) -> None:
        nonlocal taken
        for _ in range(1024):
            await send(bytes(64 << 10))
            taken += 64 << 10

    async def behave(connection: Connection) -> None:
        await connection.request()
        await connection.send(TAKEN)
        if still == "engine":
            connection.stop_reading()
            await asyncio.sleep(30)
        else:
            await pour(connection.send)

    async def main() -> None:
        timeouts = Timeouts(head=5.0, connect=2.0, idle=1.0)
        async with (
            Engine(behave) as engine,
            proxied(engine.url, state, timeouts=timeouts) as proxy,
            Wire(proxy.address) as wire,
        ):
            async with asyncio.timeout(25):
                await open_tunnel(wire, proxy)
                if still == "engine":
                    with pytest.raises(ConnectionError):
                        await pour(wire.send)
                else:
                    wire.writer.transport.pause_reading()
                await proxy.until(Slot.OPEN_STREAMS, 0, seconds=20)
                await proxy.until(Slot.CLIENT_CONNECTIONS, 0, seconds=20)
        assert taken < 24 << 20  # loopback sockets hold some 5 MB each way, the proxy 64 KiB

    uvloop.run(main())


@pytest.mark.parametrize("answer", ["426 Upgrade Required", "404 Not Found", "200 OK"])
def test_any_other_answer_is_an_ordinary_reply(answer: str, state: Path) -> None:
    async def main() -> None:
        async with (
            Engine(always(reply(b"no", status=answer))) as engine,
            proxied(engine.url, state) as proxy,
            Wire(proxy.address) as wire,
        ):
            async with asyncio.timeout(10):
                await wire.send(OFFER + OFFER)
                for _ in range(
                    2
                ):  # and the connection goes on: what came behind the offer is another request, parsed as one
                    assert (await wire.until(b"\r\n\r\nno")).startswith(f"HTTP/1.1 {answer}\r\n".encode())
            assert len(engine.requests) == 2
            assert proxy[Slot.OPEN_STREAMS] == 0

    uvloop.run(main())


@pytest.mark.parametrize(
    "answer",
    [
        TAKEN.replace(b"WebSocket", b"h2c"),
        TAKEN.replace(b"Upgrade: WebSocket\r\n", b""),
        TAKEN.replace(b"\r\n\r\n", b"\r\nContent-Length: 5\r\n\r\n"),
    ],
)
def test_a_switch_to_something_else_is_a_fault_of_the_engine(answer: bytes, state: Path) -> None:
    async def main() -> None:
        async with Engine(once(answer)) as engine, proxied(engine.url, state) as proxy:
            got = await ask(proxy.address, OFFER.replace(b"keep-alive, ", b"close, "))
            assert got.endswith(PRIMARY_PROTOCOL.closing.partition(b"\r\n\r\n")[2])

    uvloop.run(main())


NOT_OFFERS = {
    "h2c": OFFER.replace(b"Upgrade: websocket", b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABk"),
    "a choice": OFFER.replace(b"Upgrade: websocket", b"Upgrade: h2c, websocket"),
    "two": OFFER.replace(b"Upgrade: websocket", b"Upgrade: websocket\r\nUpgrade: h2c"),
    "not said in Connection": OFFER.replace(b"connection: keep-alive, Upgrade", b"connection: keep-alive"),
    "http/1.0": OFFER.replace(b"HTTP/1.1", b"HTTP/1.0"),
    "a post with h2c": OFFER.replace(b"GET", b"POST").replace(b"websocket\r\n", b"h2c\r\nContent-Length: 2\r\n")
    + b"{}",
}


@pytest.mark.parametrize("name", NOT_OFFERS)
def test_other_offers_are_ignored_and_the_request_served(name: str, state: Path) -> None:
    async def main() -> None:
        async with (
            Engine(always(reply(b"plain"))) as engine,
            proxied(engine.url, state) as proxy,
            Wire(proxy.address) as wire,
        ):
            async with asyncio.timeout(10):
                await wire.send(NOT_OFFERS[name])
                assert (await wire.until(b"plain")).startswith(b"HTTP/1.1 200 OK\r\n")
            [request] = engine.requests
            assert request.value(b"upgrade") is None
            assert request.value(b"connection") is None

    uvloop.run(main())


def test_a_101_that_nobody_offered_is_a_fault_of_the_engine(state: Path) -> None:
    async def main() -> None:
        async with Engine(once(TAKEN)) as engine, proxied(engine.url, state) as proxy:
            assert parse(await ask(proxy.address, NOT_OFFERS["h2c"].replace(b"keep-alive", b"close"))).status == 502

    uvloop.run(main())


@pytest.mark.parametrize(
    "change",
    [
        (b"GET", b"POST"),
        (b"\r\n\r\n", b"\r\nContent-Length: 5\r\n\r\nhello"),
        (b"\r\n\r\n", b"\r\nTransfer-Encoding: chunked\r\n\r\n5"),
    ],
)
def test_an_offer_with_a_body_is_refused_and_not_passed_on(change: tuple[bytes, bytes], state: Path) -> None:
    async def main() -> None:
        async with Engine(always(reply(b""))) as engine, proxied(engine.url, state) as proxy:
            assert await ask(proxy.address, OFFER.replace(*change)) == BAD_UPGRADE.closing
            assert not engine.received
            assert proxy[Slot.REFUSED_HEADS] == 1

    uvloop.run(main())


def test_a_drain_lets_a_tunnel_go_on_for_its_time_and_then_ends_it(state: Path) -> None:
    async def behave(connection: Connection) -> None:
        await connection.request()
        await connection.send(TAKEN)
        while data := await connection.read_raw():
            await connection.send(data)

    async def main() -> None:
        async with (
            Engine(behave) as engine,
            proxied(engine.url, state, drain=1.0) as proxy,
            Wire(proxy.address) as wire,
        ):
            async with asyncio.timeout(20):
                await open_tunnel(wire, proxy)
                proxy.stop.set()
                await asyncio.sleep(0.3)
                await wire.send(b"still")
                assert await wire.reader.readexactly(5) == b"still"
                assert await wire.rest() == b""

    uvloop.run(main())
