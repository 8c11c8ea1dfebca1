"""The rules for what the admin port answers at all, one test each; the engine-facing ones of the live path have theirs in tests/smuggling."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import web

from proxy.config import Config, Records
from proxy.ledger.admin import make_admin
from proxy.ledger.admin_gate import gate
from proxy.ledger.admin_server import listen, reads_in_c

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[bytes]]
HEAD = 0.5
SECONDS = 10.0


@pytest.fixture
def config(tmp_path: Path, url: str) -> Config:
    (tmp_path / "state" / "counters").mkdir(parents=True)
    return Config(state=str(tmp_path / "state"), records=Records(url=url))


def talk(application: web.Application, how: Talk) -> bytes:
    """One connection to the port, played by ``how``; what it returns."""

    async def main() -> bytes:
        server = await listen(application, "127.0.0.1", 0, head=HEAD)
        reader, writer = await asyncio.open_connection("127.0.0.1", int(server.address.split(":")[1]))
        try:
            return await asyncio.wait_for(how(reader, writer), SECONDS)
        finally:
            writer.close()
            await server.close()

    return asyncio.run(main())


def ask(application: web.Application, raw: bytes) -> bytes:
    """Send, and take everything up to the end of the connection."""

    async def how(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(raw)
        return await reader.read()

    return talk(application, how)


def admin(config: Config) -> web.Application:
    return make_admin(config, ready=lambda: True)


REFUSED = {
    "absolute form": (b"GET http://127.0.0.1/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    "absolute form, another host": (b"GET http://evil/metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    "authority form": (b"CONNECT evil:80 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    "asterisk form": (b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    "HTTP/2.0": (b"GET /healthz HTTP/2.0\r\nHost: localhost\r\n\r\n", 505),
    "HTTP/0.9": (b"GET /healthz\r\n\r\n", 505),
    "HTTP/0.9, named": (b"GET /healthz HTTP/0.9\r\nHost: localhost\r\n\r\n", 505),
    "chunks in HTTP/1.0": (b"GET /healthz HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "upgrade with a body": (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 2\r\n\r\n{}", 400),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_target_and_version_gate(config: Config, name: str) -> None:
    raw, status = REFUSED[name]
    answer = ask(admin(config), raw)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert int(head.split(b" ")[1]) == status, answer
    assert list(json.loads(body)) == ["error"], "one answer, and nothing behind it"
    assert b"Server:" not in head


def test_an_offer_of_another_protocol_is_ignored_and_the_connection_ends(config: Config) -> None:
    fields = b"Host: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    answer = ask(admin(config), b"GET /healthz HTTP/1.1\r\n" + fields + b"GET /readyz HTTP/1.1\r\n" + fields)
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.endswith(b"\r\n\r\nok\n")


def test_head_deadline_from_the_first_moment(config: Config) -> None:
    answer = ask(admin(config), b"")
    assert answer.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert b"Connection: close" in answer


def test_head_deadline_for_a_trickling_head(config: Config) -> None:
    async def how(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        reading = asyncio.ensure_future(reader.read())
        writer.write(b"GET /healthz HTTP/1.1\r\n")
        while not reading.done():
            writer.write(b"X: y\r\n")
            await asyncio.sleep(0.05)
        return await reading

    assert talk(admin(config), how).startswith(b"HTTP/1.1 408 ")


def test_head_deadline_for_the_second_request_too(config: Config) -> None:
    answer = ask(admin(config), b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /readyz HTTP/1.1\r\nHo")
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"HTTP/1.1 408 " in answer


def test_an_idle_connection_may_wait_longer_than_a_head(config: Config) -> None:
    async def how(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
        writer.write(request)
        first = await reader.readuntil(b"ok\n")
        await asyncio.sleep(2 * HEAD)
        writer.write(request)
        return first + await reader.readuntil(b"ok\n")

    assert talk(admin(config), how).count(b"HTTP/1.1 200 OK\r\n") == 2


def _reading() -> web.Application:
    async def read(request: web.Request) -> web.Response:
        return web.Response(text=str(len(await request.read())))

    application = web.Application(middlewares=[gate], client_max_size=1000)
    application.router.add_post("/", read)
    return application


def test_body_deadline() -> None:
    answer = ask(_reading(), b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nabc")
    assert b" 200 " not in answer


def test_a_body_that_is_too_large_ends_the_connection() -> None:
    request = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2000\r\n\r\n" + b"x" * 1500
    answer = ask(_reading(), request)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"Connection: close" in answer


def test_nothing_is_added_but_what_the_answer_needs(config: Config) -> None:
    head = ask(admin(config), b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").partition(b"\r\n\r\n")[0]  # fmt: skip
    names = {line.partition(b":")[0].lower() for line in head.split(b"\r\n")[1:]}
    wanted = {b"content-type", b"content-length", b"date", b"connection", b"cache-control", b"referrer-policy"}
    assert names == wanted | {b"x-content-type-options", b"content-security-policy", b"cross-origin-resource-policy"}
    assert b"aiohttp" not in head.lower()
    assert b"python" not in head.lower()


def test_the_c_parser_is_required(tmp_path: Path) -> None:
    assert reads_in_c()
    words = [sys.executable, "-m", "proxy.cli", "serve", "--primary", "http://127.0.0.1:9", "--listen", "127.0.0.1:0"]
    words += ["--admin", "127.0.0.1:0"]
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        words,
        env=os.environ | {"AIOHTTP_NO_EXTENSIONS": "1", "PYTHONPATH": root},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    assert "AIOHTTP_NO_EXTENSIONS" in done.stderr
    assert "C parser" in done.stderr
