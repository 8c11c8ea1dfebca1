"""The rules of the live path that general HTTP servers break by default, one test each, named after its rule."""

from __future__ import annotations

import asyncio
import gzip
import logging
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop

from proxy.config import Timeouts
from proxy.counters import Slot
from tests.wire.client import Wire, ask, get, parse, post
from tests.wire.engine import Connection, Engine, always, reply
from tests.wire.proxied import Proxy, proxied

KEY = b"SECRETKEY123"
SHORT = Timeouts(head=0.5, connect=2.0, idle=0.7)
SECONDS = 10.0


async def until(condition: Callable[[], object]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(SECONDS):
        while not condition():  # noqa: ASYNC110 - what is waited for happens on the other side of a socket
            await asyncio.sleep(0.005)


async def send_for_ever(wire: Wire) -> None:
    """Go on sending, whatever comes back."""
    while True:
        await wire.send(b"y" * 1000, pause=0.05)


def test_the_whole_head_has_a_deadline_of_ten_seconds(state: Path) -> None:
    async def main() -> None:
        async with Engine(always(reply(b"ok"))) as engine, proxied(engine.url, state, timeouts=SHORT) as proxy:
            async with asyncio.timeout(SECONDS):
                assert parse(await ask(proxy.address, b"GET / HTTP/1.1\r\nHo")).status == 408
            assert not engine.received

    assert Timeouts().head == 10.0
    uvloop.run(main())


def test_a_body_has_a_deadline(state: Path) -> None:
    async def main() -> None:
        async with Engine(always(reply(b"ok"))) as engine, proxied(engine.url, state, timeouts=SHORT) as proxy:
            async with asyncio.timeout(SECONDS):
                assert parse(await ask(proxy.address, post(b"x" * 9)[:-1])).status == 408
                await until(lambda: not engine.open)
            assert not engine.requests

    uvloop.run(main())


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\nHost: h\r\nAuthorization Bearer " + KEY,
        b"GET / HTTP/1.1\r\nHost: h\r\nAuthorization : Bearer " + KEY,
        b"GET / HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer " + KEY + b"\0",
        b"GET / HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer " + KEY + b"\r\n " + KEY,
        b"GET / HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer " + KEY * 6000,
        b"GET / HTTP/1.1\r\nHost: " + KEY + b"/",
        b"GET /?key=" + KEY + b"\x80 HTTP/1.1\r\nHost: h",
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: " + KEY,
        b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: " + KEY,
        b"GET / " + KEY,
        KEY,
    ],
)
def test_no_header_value_is_echoed_in_a_body_or_a_log(
    head: bytes, state: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> bytes:
        async with Engine(always(reply(b"ok"))) as engine, proxied(engine.url, state) as proxy:
            return await ask(proxy.address, head + b"\r\n\r\n")

    with caplog.at_level(logging.DEBUG):
        answer = uvloop.run(main())
    assert parse(answer).status in (400, 431, 505)
    assert b"SECRETKEY" not in answer
    assert "SECRETKEY" not in caplog.text


def _status(raw: bytes, state: Path) -> tuple[int, int]:
    """Status and how many bytes reached the engine."""

    async def main() -> tuple[int, int]:
        async with Engine(always(reply(b"ok"))) as engine, proxied(engine.url, state) as proxy:
            return parse(await ask(proxy.address, raw)).status, len(engine.received)

    return uvloop.run(main())


@pytest.mark.parametrize("target", ["http://evil.test/v1/models", "//", "https://h/", "evil.test:80", "*", "/a#b"])
def test_only_targets_in_origin_form(target: str, state: Path) -> None:
    status, reached = _status(get(target), state)
    assert (status == 200) == (target == "//")
    assert bool(reached) == (status == 200)


@pytest.mark.parametrize("version", ["HTTP/0.9", "HTTP/1.2", "HTTP/2.0", "HTTP/3.0", ""])
def test_only_versions_1_1_and_1_0(version: str, state: Path) -> None:
    raw = f"GET /v1/models {version}".rstrip().encode() + b"\r\nHost: h\r\n\r\n"
    assert _status(raw if version else b"GET /v1/models\r\n\r\n", state) == (505, 0)


def test_no_chunks_in_1_0(state: Path) -> None:
    raw = b"POST / HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    assert _status(raw, state) == (400, 0)


def test_an_upgrade_is_stripped_and_its_body_is_a_body(state: Path) -> None:
    async def main() -> None:
        async with Engine(always(reply(b"ok"))) as engine, proxied(engine.url, state) as proxy:
            fields = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAA\r\n"
            assert parse(await ask(proxy.address, post(b"{}", fields=fields).replace(b"Connection: close\r\n", b"", 1).replace(b"Upgrade, ", b"close, Upgrade, "))).body == b"ok"  # fmt: skip
            [request] = engine.requests
            assert request.body == b"{}"
            assert not {b"upgrade", b"connection", b"http2-settings"} & {name.lower() for name, _ in request.fields}

    uvloop.run(main())


def test_a_refused_client_that_goes_on_sending_is_closed(state: Path) -> None:
    async def main() -> None:
        async with Engine(always(reply(b"ok"))) as engine, proxied(engine.url, state) as proxy:
            async with Wire(proxy.address) as wire, asyncio.timeout(SECONDS):
                await wire.send(b"GET / HTTP/1.1\r\nX: " + b"y" * 70000)
                assert parse(await wire.until(b"}}")).status == 431
                with pytest.raises(ConnectionError):
                    await send_for_ever(wire)
            await proxy.until(Slot.CLIENT_CONNECTIONS, 0)

    uvloop.run(main())


def test_nothing_is_added_to_a_request_or_a_reply(state: Path) -> None:
    async def main() -> None:
        packed = gzip.compress(b"hello", mtime=0)
        said = b"HTTP/1.1 200 Fine\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%b" % (len(packed), packed)
        async with Engine(always(said)) as engine, proxied(engine.url, state) as proxy, Wire(proxy.address) as wire:
            await wire.send(b"GET /v1/a%2Fb/../x?%zz HTTP/1.1\r\nHost: h\r\n\r\n")
            async with asyncio.timeout(SECONDS):
                assert await wire.reader.readexactly(len(said)) == said, "no banner, no date, nothing decompressed"
            [request] = engine.requests
            assert request.head == b"GET /v1/a%%2Fb/../x?%%zz HTTP/1.1\r\nHost: %b" % engine.host

    uvloop.run(main())


@pytest.mark.parametrize("begun", [False, True], ids=["before the first byte", "within a stream"])
def test_a_client_that_leaves_ends_the_work_within_a_second(begun: bool, state: Path) -> None:
    ended: list[float] = []

    async def behave(connection: Connection) -> None:
        await connection.request()
        if begun:
            await connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
        assert await connection.read_raw() == b""
        ended.append(asyncio.get_running_loop().time())

    async def leave(proxy: Proxy, engine: Engine) -> float:
        async with Wire(proxy.address) as wire:
            await wire.send(post(b"{}"))
            await until(lambda: engine.requests)
            if begun:
                async with asyncio.timeout(SECONDS):
                    await wire.until(b"a\r\n")
        return asyncio.get_running_loop().time()

    async def main() -> None:
        async with Engine(behave) as engine, proxied(engine.url, state) as proxy:
            left = await leave(proxy, engine)
            await until(lambda: ended)
            assert ended[0] - left < 1.0
            await proxy.until(Slot.CLIENT_DISCONNECTS, 1)

    uvloop.run(main())
