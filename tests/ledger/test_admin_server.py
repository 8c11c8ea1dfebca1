"""What a request that cannot be read gets from the admin port: a constant, whatever was in it."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest
from aiohttp import web

from proxy.config import Config, Records
from proxy.ledger.admin import make_admin
from proxy.ledger.admin_server import listen


def exchange(config: Config, *requests: bytes, application: web.Application | None = None) -> list[bytes]:
    """Send each of the requests on a connection of its own; everything that comes until the port closes it."""

    async def asking() -> list[bytes]:
        app = application or make_admin(config, ready=lambda: True)
        server = await listen(app, "127.0.0.1", 0)
        host, port = server.address.split(":")
        answers = []
        try:
            for request in requests:
                reader, writer = await asyncio.open_connection(host, int(port))
                writer.write(request)
                answers.append(await asyncio.wait_for(reader.read(), 10))
                writer.close()
                await writer.wait_closed()
        finally:
            await server.close()
        return answers

    return asyncio.run(asking())


@pytest.fixture
def config(tmp_path, url) -> Config:
    (tmp_path / "state" / "counters").mkdir(parents=True)
    return Config(state=str(tmp_path / "state"), records=Records(url=url))


MALFORMED = [
    b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization Bearer SECRETKEY123\r\n\r\n",
    b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer SECRETKEY123" + b"x" * 20000 + b"\r\n\r\n",
    b"SECRETKEY123\r\n\r\n",
    b"GET /SECRETKEY123 HTTP/9.9\r\nHost: x\r\n\r\n",
    b"GET /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: SECRETKEY123\r\n\r\n",
    b"\x16\x03\x01SECRETKEY123\r\n\r\n",
]


def test_a_malformed_request_gets_a_constant_and_the_end(config, caplog):
    with caplog.at_level(logging.DEBUG):
        answers = exchange(config, *MALFORMED)
    [answer] = set(answers)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert json.loads(body) == {"error": "this is not HTTP/1.1 that this port understands"}
    assert b"Connection: close" in head
    assert b"X-Content-Type-Options: nosniff" in head
    assert b"Content-Length: %d\r\n" % len(body) in head
    assert b"server:" not in head.lower()
    assert "SECRETKEY" not in caplog.text


def test_an_expectation_is_not_quoted(config):
    request = b"GET %b HTTP/1.1\r\nHost: localhost\r\nExpect: SECRETKEY123\r\nConnection: close\r\n\r\n"
    for answer in exchange(config, request % b"/healthz", request % b"/nothing"):
        assert answer.startswith(b"HTTP/1.1 417 ")
        assert b"SECRETKEY" not in answer
        assert b"Server" not in answer


def test_a_fault_of_ours_is_named_in_the_log_alone(config, caplog):
    async def fails(_: web.Request) -> web.Response:
        raise RuntimeError("SECRETKEY123")

    application = web.Application()
    application.router.add_get("/", fails)
    [answer] = exchange(config, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", application=application)
    assert answer.startswith(b"HTTP/1.1 500 ")
    assert b"the log says where" in answer
    assert b"SECRETKEY" not in answer
    assert "admin_error" in caplog.text


def test_a_port_that_is_taken_is_an_oserror(config):
    async def twice() -> None:
        app = make_admin(config, ready=lambda: True)
        first = await listen(app, "127.0.0.1", 0)
        try:
            with pytest.raises(OSError, match="in use"):
                await listen(make_admin(config, ready=lambda: True), "127.0.0.1", int(first.address.split(":")[1]))
        finally:
            await first.close()

    asyncio.run(twice())
