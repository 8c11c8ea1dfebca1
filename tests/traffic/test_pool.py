"""Which connections to the primary are used again, tried again, and trusted."""

from __future__ import annotations

import asyncio
import socket
import ssl
from pathlib import Path

import pytest
import uvloop

from proxy.config import Primary
from tests.wire.client import ask, get, parse, post
from tests.wire.engine import Connection, Engine, always, once, reply, stream
from tests.wire.proxied import proxied


async def _say_nothing(connection: Connection) -> None:
    await connection.request()


@pytest.mark.parametrize(
    ("request_", "status"), [(get(), 200), (post(b"{}"), 502)], ids=["idempotent", "not idempotent"]
)
def test_a_stale_connection_is_tried_again_only_where_it_is_safe(request_: bytes, status: int, state: Path) -> None:
    async def main() -> None:
        async def behave(connection: Connection) -> None:
            await connection.request()
            await connection.send(reply(b"ok"))
            await connection.head()  # the second request of a connection dies without an answer

        async with Engine(behave) as engine, proxied(engine.url, state) as proxy:
            assert parse(await ask(proxy.address, get())).status == 200
            assert parse(await ask(proxy.address, request_)).status == status
            assert engine.connections == (2 if status == 200 else 1)

    uvloop.run(main())


def test_a_first_connection_that_dies_is_not_tried_again(state: Path) -> None:
    async def main() -> None:
        async with Engine(_say_nothing) as engine, proxied(engine.url, state) as proxy:
            assert parse(await ask(proxy.address, get())).status == 502
            assert engine.connections == 1

    uvloop.run(main())


def test_a_connection_that_its_peer_closes_behind_a_stream_costs_nobody_a_request(state: Path) -> None:
    """llama.cpp's server does it, while its head says ``Keep-Alive: timeout=5, max=100``."""

    async def main() -> None:
        head, *chunks = stream(b"a")
        head = head.replace(b"\r\n\r\n", b"\r\nKeep-Alive: timeout=5, max=100\r\n\r\n")

        async def behave(connection: Connection) -> None:
            await connection.request()
            for piece in (head, *chunks):
                await connection.send(piece)
            await asyncio.sleep(0.002)

        async with Engine(behave) as engine, proxied(engine.url, state) as proxy:
            for _ in range(20):
                got = parse(await ask(proxy.address, post(b"{}")))
                assert (got.status, got.body, got.whole) == (200, b"a", True)
            assert engine.connections == 20

    uvloop.run(main())


def test_a_peer_whose_connections_outlive_their_streams_is_believed(state: Path) -> None:
    async def main() -> None:
        async with Engine(always(*stream(b"a"))) as engine, proxied(engine.url, state) as proxy:
            for _ in range(3):
                assert parse(await ask(proxy.address, post(b"{}"))).status == 200
                await asyncio.sleep(0.3)
            for _ in range(20):
                assert parse(await ask(proxy.address, post(b"{}"))).status == 200
            assert engine.connections <= 2, engine.connections

    uvloop.run(main())


def test_a_connection_whose_end_is_yet_to_be_read_is_not_used(state: Path) -> None:
    """The loop is busy while the next request comes and then the end of the idle connection: it reads them in that order."""

    async def main() -> None:
        loop = asyncio.get_running_loop()

        async def answer(server: socket.socket) -> socket.socket:
            peer, _ = await loop.sock_accept(server)
            await loop.sock_recv(peer, 65536)
            await loop.sock_sendall(peer, reply(b"ok"))
            return peer

        with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as client:
            server.setblocking(False)
            client.setblocking(False)
            async with proxied(f"http://127.0.0.1:{server.getsockname()[1]}", state) as proxy:
                await loop.sock_connect(client, proxy.address)
                client.send(post(b"{}", close=False))
                peer = await answer(server)
                assert parse(await loop.sock_recv(client, 65536)).status == 200
                await asyncio.sleep(0.3)
                client.send(post(b"{}", close=False))
                peer.close()
                again = await asyncio.wait_for(answer(server), 5)
                assert parse(await loop.sock_recv(client, 65536)).status == 200
                again.close()

    uvloop.run(main())


@pytest.mark.parametrize("fields", [b"Connection: close\r\n", b"Keep-Alive: timeout=1\r\n"])
def test_a_connection_the_peer_will_close_is_not_kept(fields: bytes, state: Path) -> None:
    async def main() -> None:
        async with Engine(always(reply(b"ok", fields=fields))) as engine, proxied(engine.url, state) as proxy:
            for _ in range(3):
                assert parse(await ask(proxy.address, post(b"{}"))).body == b"ok"
            assert engine.connections == 3

    uvloop.run(main())


def test_bytes_after_a_reply_are_not_the_next_one(state: Path) -> None:
    async def main() -> None:
        async with Engine(always(reply(b"ok") + reply(b"smuggled"))) as engine, proxied(engine.url, state) as proxy:
            for _ in range(3):
                raw = await ask(proxy.address, get())
                assert raw.endswith(b"ok")
                assert raw.count(b"HTTP/1.1") == 1
            assert engine.connections == 3

    uvloop.run(main())


def test_a_primary_behind_tls_is_verified(
    certificate: tuple[str, str], state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)

    async def main() -> None:
        async with Engine(once(*stream(b"a", b"b")), tls=context) as engine:
            async with proxied(engine.url, state) as proxy:
                assert parse(await ask(proxy.address, get())).status == 502
            monkeypatch.setenv("SSL_CERT_FILE", certificate[0])
            async with proxied(engine.url, state, primary=Primary(url=engine.url)) as proxy:
                got = parse(await ask(proxy.address, get()))
                assert (got.status, got.body, got.whole) == (200, b"ab", True)

    uvloop.run(main())


def test_a_connection_behind_tls_is_used_again_after_a_pause(
    certificate: tuple[str, str], state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    monkeypatch.setenv("SSL_CERT_FILE", certificate[0])

    async def main() -> None:
        async with Engine(always(reply(b"ok")), tls=context) as engine, proxied(engine.url, state) as proxy:
            for _ in range(2):
                assert parse(await ask(proxy.address, post(b"{}"))).body == b"ok"
                await asyncio.sleep(0.3)
            assert engine.connections == 1

    uvloop.run(main())
