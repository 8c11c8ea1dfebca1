"""Which connections to the primary are used again, tried again, and trusted."""

from __future__ import annotations

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
