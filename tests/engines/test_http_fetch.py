"""The socket edge of probing: real servers on loopback, every fault a label."""

import asyncio
import socket

import pytest
from aiohttp import web

from engines import http_fetch
from engines.dialect import Call


async def serve(handler):
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    return runner, f"http://127.0.0.1:{runner.addresses[0][1]}"


def ask(handler, call, **options):
    async def main():
        runner, url = await serve(handler)
        try:
            async with http_fetch.connect(url, **options) as fetch:
                return await fetch(call)
        finally:
            await runner.cleanup()

    return asyncio.run(main())


def test_an_answer_comes_back_whole():
    async def handler(request):
        assert request.headers["authorization"] == "Bearer k"
        assert (request.method, await request.json()) == ("POST", {"a": 1})
        return web.Response(status=418, body=b"x" * 100_000, headers={"X-Thing": "Y"})

    answer = ask(handler, Call("/v1/x", {"a": 1}), api_key="k")
    assert (answer.status, answer.body, answer.failure) == (418, b"x" * 100_000, None)
    assert ("x-thing", "Y") in answer.headers
    assert all(at >= 0 for at, _ in answer.pieces)


def test_a_get_has_no_body_and_redirects_are_not_followed():
    async def handler(request):
        assert (request.method, await request.read()) == ("GET", b"")
        raise web.HTTPFound("http://127.0.0.1:1/")

    assert ask(handler, Call("/x", method="GET")).status == 302


def test_a_cut_answer_keeps_what_came():
    async def handler(request):
        response = web.StreamResponse(headers={"content-length": "10"})
        await response.prepare(request)
        await response.write(b"abc")
        request.transport.close()
        return response

    answer = ask(handler, Call("/x"))
    assert (answer.status, answer.body, answer.failure) == (200, b"abc", "cut")


def test_a_closed_connection():
    async def handler(request):
        request.transport.close()
        return web.Response()

    assert ask(handler, Call("/x")).failure == "reset"


def test_silence_is_a_timeout():
    async def handler(request):
        await asyncio.sleep(2)
        return web.Response()

    assert ask(handler, Call("/x"), timeout=0.2).failure == "timeout"


def test_too_large_a_body(monkeypatch):
    monkeypatch.setattr(http_fetch, "MAX_BODY", 1000)

    async def handler(request):
        return web.Response(body=b"x" * 5000)

    answer = ask(handler, Call("/x"))
    assert answer.failure == "too_large"
    assert len(answer.body) <= 1000


@pytest.mark.parametrize("url", ["http://[bad", "nonsense", "ftp://127.0.0.1"])
def test_bad_addresses(url):
    async def main():
        async with http_fetch.connect(url) as fetch:
            return await fetch(Call("/x"))

    assert asyncio.run(main()).failure == "bad_url"


def test_nothing_listens():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))

        async def main():
            async with http_fetch.connect(f"http://127.0.0.1:{held.getsockname()[1]}") as fetch:
                return await fetch(Call("/x"))

        assert asyncio.run(main()).failure == "refused"


def test_something_that_is_not_http():
    async def main():
        async def greet(reader, writer):
            writer.write(b"220 mail ready\r\n")
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(greet, "127.0.0.1", 0)
        async with server, http_fetch.connect(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}") as fetch:
            return await fetch(Call("/x"))

    assert asyncio.run(main()).failure == "not_http"
