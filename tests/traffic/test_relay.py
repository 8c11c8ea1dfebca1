"""What a client gets through the live path, held against what the engine sends and what it got."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import uvloop

from proxy.counters import Slot
from tests.wire.client import Wire, ask, get, parse, post
from tests.wire.engine import STREAM, Connection, Engine, always, chunk, once, reply, stream
from tests.wire.proxied import proxied

SSE = [b'data: {"a":1}\n\n', b"data: caf\xc3", b"\xa9\r\n\r\n", b": note\rdata: x\r\r", b"data: [DONE]\n\n"]
REPLIES = {
    "length": [reply(b'{"a": 1}')],
    "empty": [reply(b"")],
    "gzip": [reply(b"\x1f\x8b\x08\x00junk\x00\xff", fields=b"Content-Encoding: gzip\r\n")],
    "chunked": stream(*SSE),
    "chunk extensions and trailers": [STREAM, b'3;x="y"\r\nabc\r\n', b"1\r\nd\r\n0\r\nX-Trailer: 1\r\n\r\n"],
    "split anywhere": [bytes([byte]) for byte in b"".join(stream(*SSE))],
    "close-delimited": [b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nuntil", b" the end"],
    "http/1.0": [b"HTTP/1.0 200 Fine\r\nX-A: 1\r\n\r\nold"],
    "headers": [
        b"HTTP/1.1 418 I'm a teapot \xe9\r\nset-COOKIE: a=1\r\nX-Dup: 1\r\nSet-Cookie: b=2\r\nX-dup: 2\r\nX-Blank:\r\nContent-Length: 2\r\n\r\nhi"
    ],
    "no reason": [b"HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\nok"],
    "no content": [b"HTTP/1.1 204 No Content\r\nX-A: b\r\n\r\n"],
    "not modified": [b'HTTP/1.1 304 Not Modified\r\nETag: "x"\r\nContent-Length: 99\r\n\r\n'],
    "error": [reply(b'{"error":{"message":"no"}}', status="400 Bad Request")],
    "hop by hop": [
        b"HTTP/1.1 200 OK\r\nConnection: X-Private, close\r\nX-Private: 1\r\nKeep-Alive: timeout=5\r\nX-Public: 2\r\nContent-Length: 1\r\n\r\nx"
    ],
}


@pytest.mark.parametrize("name", REPLIES)
def test_a_reply_is_the_same_direct_and_proxied(name: str, state: Path) -> None:
    async def main() -> None:
        async with Engine(once(*REPLIES[name])) as engine, proxied(engine.url, state) as proxy:
            request = post(b'{"stream": true}')
            direct = parse(await ask(("127.0.0.1", engine.port), request))
            through = parse(await ask(proxy.address, request))
            expected = [field for field in direct.fields if field[0] != "X-Private"]
            assert (through.status, through.reason, through.body, through.whole) == (
                direct.status,
                direct.reason,
                direct.body,
                True,
            )
            assert through.fields == expected
            assert not engine.errors

    uvloop.run(main())


def test_the_request_reaches_the_engine_as_sent(state: Path) -> None:
    sent = (
        b"PUT /v1/a%2Fb/../c//d?x=%20y&k=/..&q={z} HTTP/1.1\r\nHOST: client.test:1\r\nx-B: 1\r\nConnection: close, X-Hop\r\nX-hop: 3\r\n"
        b"X-b: 2\r\nAuthorization: Bearer k\r\nKeep-Alive: timeout=1\r\nTE: trailers\r\nProxy-Authorization: p\r\nUpgrade: h2c\r\n"
        b"X-Parhelion: skip\r\nx-Empty:\r\nCookie: \xc3\xa9=1\r\nContent-Length: 2\r\n\r\nhi"
    )

    async def main() -> None:
        async with Engine(always(reply(b"ok"))) as engine, proxied(engine.url + "/base/", state) as proxy:
            assert parse(await ask(proxy.address, sent)).body == b"ok"
        [request] = engine.requests
        assert request.head == (
            b"PUT /base/v1/a%2Fb/../c//d?x=%20y&k=/..&q={z} HTTP/1.1\r\nHOST: "
            + engine.host
            + b"\r\nx-B: 1\r\nX-b: 2\r\n"
            b"Authorization: Bearer k\r\nx-Empty: \r\nCookie: \xc3\xa9=1\r\nContent-Length: 2"
        )
        assert request.body == b"hi"

    uvloop.run(main())


def test_a_chunked_request_is_framed_anew_piece_by_piece(state: Path) -> None:
    async def main() -> None:
        async with Engine(always(reply(b"ok"))) as engine, proxied(engine.url, state) as proxy:
            head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\ntransfer-ENCODING: Chunked\r\nX-A: b\r\nConnection: close\r\n\r\n"
            body = b'{"a"', b": 1}"
            raw = chunk(body[0]).replace(b"4\r\n", b"004;ext=1\r\n") + chunk(body[1]) + b"0\r\nX-Trailer: 1\r\n\r\n"
            assert parse(await ask(proxy.address, *(bytes([byte]) for byte in head + raw))).body == b"ok"
            [request] = engine.requests
            assert request.body == b'{"a": 1}'
            assert request.fields[1:] == [(b"transfer-ENCODING", b"chunked"), (b"X-A", b"b")]

    uvloop.run(main())


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "DELETE", "PROPFIND"])
def test_other_methods_pass(method: str, state: Path) -> None:
    body = b"" if method == "HEAD" else b"body"
    raw = b"HTTP/1.1 200 OK\r\nAllow: GET\r\nContent-Length: 4\r\n\r\n" + body

    async def main() -> None:
        async with Engine(always(raw)) as engine, proxied(engine.url, state) as proxy:
            for _ in range(2):
                through = parse(await ask(proxy.address, get("/x", method=method)), method)
                assert through.fields == [("Allow", "GET"), ("Content-Length", "4")]
                assert through.body == body
            assert engine.connections == 1

    uvloop.run(main())


def test_options_asterisk_passes(state: Path) -> None:
    async def main() -> None:
        async with Engine(always(reply(b""))) as engine, proxied(engine.url + "/base", state) as proxy:
            await ask(proxy.address, get("*", method="OPTIONS"))
            assert engine.requests[0].line == b"OPTIONS * HTTP/1.1"

    uvloop.run(main())


def test_each_piece_reaches_the_client_before_the_next_is_sent(state: Path) -> None:
    async def main() -> None:
        go = asyncio.Event()

        async def behave(connection: Connection) -> None:
            await connection.request()
            await connection.send(STREAM)
            for piece in SSE:
                await connection.send(chunk(piece))
                await go.wait()
                go.clear()
            await connection.send(chunk(b""))

        async with Engine(behave) as engine, proxied(engine.url, state) as proxy, Wire(proxy.address) as wire:
            await wire.send(post(b"{}"))
            await wire.until(b"\r\n\r\n")
            for piece in SSE:
                assert await wire.reader.readexactly(len(chunk(piece))) == chunk(piece)
                assert proxy[Slot.OPEN_STREAMS] == 1
                go.set()
            assert await wire.rest() == chunk(b"")
            assert proxy[Slot.OPEN_STREAMS] == 0

    uvloop.run(main())


def test_continue_is_passed_and_the_body_follows(state: Path) -> None:
    async def main() -> None:
        async def behave(connection: Connection) -> None:
            head = await connection.head()
            assert b"\r\nExpect: 100-Continue" in head
            await connection.send(
                b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", b"HTTP/1.1 100 Go on\r\nX-I: 1\r\n\r\n"
            )
            request = await connection.body(head)
            await connection.send(reply(request.body))

        async with Engine(behave) as engine, proxied(engine.url, state) as proxy, Wire(proxy.address) as wire:
            head, _, body = post(b"hello", fields="Expect: 100-Continue\r\n").partition(b"\r\n\r\n")
            await wire.send(head + b"\r\n\r\n")
            assert await wire.until(b"\r\n\r\n") == b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
            assert await wire.until(b"\r\n\r\n") == b"HTTP/1.1 100 Go on\r\nX-I: 1\r\n\r\n"
            await wire.send(body)
            assert parse(await wire.rest()).body == b"hello"
            assert not engine.errors

    uvloop.run(main())


def test_keep_alive_and_pipelining_keep_the_order(state: Path) -> None:
    async def main() -> None:
        async def behave(connection: Connection) -> None:
            while True:
                request = await connection.request()
                await connection.send(reply(request.line + request.body))

        async with Engine(behave) as engine, proxied(engine.url, state) as proxy, Wire(proxy.address) as wire:
            requests = [
                post(b"1", close=False),
                b"GET /2 HTTP/1.1\r\nHost: x\r\n\r\n",
                b"\r\n" + post(b"3", close=False),
                get("/4"),
            ]
            await wire.send(b"".join(requests))
            got = (await wire.rest()).split(b"\r\n\r\n")
            bodies = [part.partition(b"HTTP/1.1 200")[0] for part in got[1:]]
            assert bodies == [
                b"POST /v1/chat/completions HTTP/1.11",
                b"GET /2 HTTP/1.1",
                b"POST /v1/chat/completions HTTP/1.13",
                b"GET /4 HTTP/1.1",
            ]
            assert engine.connections == 1
            assert proxy[Slot.RECEIVED] == 4

    uvloop.run(main())


def test_a_request_behind_a_chunked_one_is_not_guessed_at(state: Path) -> None:
    """The parser has swallowed its start: the first is answered, the connection closed."""

    async def main() -> None:
        async with Engine(always(reply(b"ok"))) as engine, proxied(engine.url, state) as proxy:
            first = b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(b"z") + chunk(b"")
            raw = await ask(proxy.address, first + get("/b"))
            assert raw.count(b"HTTP/1.1 200") == 1
            assert [request.line for request in engine.requests] == [b"POST /a HTTP/1.1"]

    uvloop.run(main())


def test_http_1_0_gets_a_delimited_reply_without_chunks(state: Path) -> None:
    async def main() -> None:
        async with Engine(once(*stream(b"a", b"b"))) as engine, proxied(engine.url, state) as proxy:
            raw = await ask(proxy.address, b"GET /x HTTP/1.0\r\n\r\n")
            assert raw == b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\nab"
            assert engine.requests[0].head == b"GET /x HTTP/1.1\r\nHost: " + engine.host

    uvloop.run(main())


def test_an_upgrade_offer_is_ignored_and_the_body_still_read(state: Path) -> None:
    """JDK clients offer h2c with every plain request."""

    async def main() -> None:
        async with Engine(always(reply(b"ok"))) as engine, proxied(engine.url, state) as proxy:
            offer = "Connection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAE\r\n"
            assert parse(await ask(proxy.address, post(b'{"a":1}', fields=offer, close=False))).body == b"ok"
            chunked = f"POST /c HTTP/1.1\r\nHost: x\r\n{offer}Transfer-Encoding: chunked\r\n\r\n".encode()
            assert parse(await ask(proxy.address, chunked + chunk(b"zz") + chunk(b""))).body == b"ok"
            assert parse(await ask(proxy.address, f"GET /g HTTP/1.1\r\nHost: x\r\n{offer}\r\n".encode())).body == b"ok"
            assert [request.body for request in engine.requests] == [b'{"a":1}', b"zz", b""]
            assert all(request.value(b"upgrade") is None for request in engine.requests)
            assert all(request.value(b"http2-settings") is None for request in engine.requests)

    uvloop.run(main())


def test_host_is_kept_when_told(state: Path) -> None:
    async def main() -> None:
        from proxy.config import Primary

        async with Engine(always(reply(b"ok"))) as engine:
            async with proxied(engine.url, state, primary=Primary(url=engine.url, host="keep")) as proxy:
                await ask(proxy.address, get())
            assert engine.requests[0].value(b"host") == b"proxy.test"

    uvloop.run(main())


def test_bodies_of_20_mb_pass_both_ways(state: Path) -> None:
    block = bytes(range(256)) * 4096
    body = block * 20

    async def main() -> None:
        async def behave(connection: Connection) -> None:
            while True:
                request = await connection.request()
                if b"chunked" in request.head:
                    await connection.send(STREAM, *(chunk(block) for _ in range(20)), chunk(b""))
                else:
                    await connection.send(reply(request.body))
                assert request.body == body

        async with Engine(behave) as engine, proxied(engine.url, state) as proxy:
            assert parse(await ask(proxy.address, post(body))).body == body
            head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
            sent = head + b"".join(chunk(block) for _ in range(20)) + chunk(b"")
            assert parse(await ask(proxy.address, sent)).body == body
            assert not engine.errors
            assert proxy[Slot.SHED_CAPTURE] == 2
            assert proxy.balanced()

    uvloop.run(main())
