"""Every route of an engine, not only inference: what real clients send and what they get back, large bodies, both directions at once."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest
import uvloop

from tests.fidelity import reading
from tests.wire.client import Wire, ask
from tests.wire.engine import STREAM, Connection, Engine, chunk, once, reply
from tests.wire.proxied import proxied

NOISE = random.Random(3).randbytes(3 << 20)
BOUNDARY = b"------------------------d74496d66958873e"
MULTIPART = (
    b"--" + BOUNDARY + b'\r\nContent-Disposition: form-data; name="model"\r\n\r\nwhisper\r\n'
    b"--" + BOUNDARY + b'\r\nContent-Disposition: form-data; name="file"; filename="a \xc3\xa9.wav"\r\nContent-Type: audio/wav\r\n\r\n'
    + NOISE + b"\r\n--" + BOUNDARY + b"--\r\n"
)  # fmt: skip
FORM = b"multipart/form-data; boundary=" + BOUNDARY
JSON = b"application/json"
#: (method, target, content type, request body, reply)
ROUTES = [
    (b"POST", b"/v1/embeddings", JSON, b'{"model":"m","input":["a"],"encoding_format":"base64"}', reply(b'{"data":[{"embedding":"AAAA"}]}')),
    (b"POST", b"/v1/responses?stream=1", JSON, b'{"model":"m","input":"x"}', reply(b'{"output":[]}')),
    (b"GET", b"/v1/responses/resp_1?include[]=a&include[]=b", b"", b"", reply(b"{}")),
    (b"POST", b"/v1/responses/resp_1/cancel", b"", b"", reply(b"{}")),
    (b"POST", b"/v1/messages", JSON, b'{"model":"m","max_tokens":1}', reply(b'{"type":"message"}')),
    (b"POST", b"/v1/rerank", JSON, b'{"query":"q","documents":["a"]}', reply(b'{"results":[]}')),
    (b"POST", b"/score", JSON, b'{"text_1":"a","text_2":"b"}', reply(b"{}")),
    (b"POST", b"/v1/audio/transcriptions", FORM, MULTIPART, reply(b'{"text":"hello"}')),
    (b"POST", b"/v1/audio/speech", JSON, b'{"input":"x"}', reply(NOISE, fields=b"Content-Type: audio/mpeg\r\n")),
    (b"POST", b"/v1/files", FORM, MULTIPART, reply(b'{"id":"file-1"}', status="201 Created")),
    (b"GET", b"/v1/files/file-1/content", b"", b"", reply(NOISE, fields=b"Content-Type: application/octet-stream\r\nAccept-Ranges: bytes\r\n")),
    (b"DELETE", b"/v1/files/file-1", b"", b"", reply(b'{"deleted":true}')),
    (b"PUT", b"/v1/anything", b"text/plain", b"x", b"HTTP/1.1 204 No Content\r\nX-A: 1\r\n\r\n"),
    (b"PATCH", b"/v1/anything", JSON, b"[]", reply(b"", status="409 Conflict")),
    (b"GET", b"/v1/models", b"", b"", reply(b'{"data":[]}')),
    (b"HEAD", b"/v1/models", b"", b"", b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n"),
    (b"OPTIONS", b"/v1/chat/completions", b"", b"", reply(b"", fields=b"Access-Control-Allow-Origin: *\r\nAllow: POST\r\n")),
    (b"POST", b"/completion", JSON, b'{"prompt":"x"}', reply(b'{"content":"y"}')),
    (b"GET", b"/docs", b"", b"", reply(b"<html>", fields=b"Content-Type: text/html\r\n")),
    (b"GET", b"/metrics", b"", b"", reply(b"vllm:x 1\n", fields=b"Content-Type: text/plain; version=0.0.4\r\n")),
    (b"GET", b"//double//slash/./../%2e%2E/%00?q", b"", b"", reply(b"{}", status="404 Not Found")),
]  # fmt: skip


@pytest.mark.parametrize("route", ROUTES, ids=[f"{method.decode()} {target.decode()}" for method, target, *_ in ROUTES])
def test_every_route_is_the_same_through_the_proxy_and_past_it(route: tuple[bytes, ...], state: Path) -> None:
    method, target, kind, body, answer = route
    lines = [
        b"%b %b HTTP/1.1" % (method, target),
        b"Host: api.test",
        b"Accept: */*",
        b"authorization: Bearer sk-1",
        b"OpenAI-Beta: a",
        b"openai-beta: b",
    ]
    lines += [b"Content-Type: " + kind, b"Content-Length: %d" % len(body)] if kind else []
    request = b"\r\n".join([*lines, b"Connection: close", b"", b""]) + body

    async def main() -> None:
        async with Engine(once(answer)) as engine, proxied(engine.url, state) as proxy:
            past = reading.reply(await ask(("127.0.0.1", engine.port), request), method, ended=True)
            through = reading.reply(await ask(proxy.address, request), method, ended=True)
            assert past is not None
            assert through is not None
            assert past.whole
            assert through.digest() == past.digest()
            direct, forwarded = engine.requests
            assert forwarded.raw_body == direct.raw_body == body
            assert forwarded.line == direct.line
            fields = [
                (name, engine.host if name == b"Host" else value)
                for name, value in direct.fields
                if name != b"Connection"
            ]
            assert forwarded.fields == fields

    uvloop.run(main())


@pytest.mark.parametrize("answer", ["100 Continue", "417 Expectation Failed", "401 Unauthorized"])
def test_a_client_that_asks_before_it_sends_gets_the_engines_answer(answer: str, state: Path) -> None:
    async def behave(connection: Connection) -> None:
        head = await connection.head()
        assert b"\r\nExpect: 100-continue" in head
        if not answer.startswith("100"):
            await connection.send(reply(b"no", status=answer))
            return
        await connection.send(b"HTTP/1.1 100 Continue\r\nX-A: 1\r\n\r\n")
        request = await connection.body(head)
        await connection.send(reply(request.body))

    async def main() -> None:
        head = b"PUT /v1/files HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
        async with Engine(behave) as engine, proxied(engine.url, state) as proxy, Wire(proxy.address) as wire:
            await wire.send(head)
            async with asyncio.timeout(10):
                first = await wire.until(b"\r\n\r\n")
                if answer.startswith("100"):
                    assert first == b"HTTP/1.1 100 Continue\r\nX-A: 1\r\n\r\n"
                    await wire.send(b"hello")
                    assert (await wire.until(b"\r\n\r\nhello")).startswith(b"HTTP/1.1 200 OK\r\n")
                else:
                    assert first.startswith(f"HTTP/1.1 {answer}\r\n".encode())
                    assert await wire.rest() == b"no"  # and no way to go on: the body may or may not follow
            assert b"hello" not in engine.received or answer.startswith("100")

    uvloop.run(main())


def test_both_directions_at_once(state: Path) -> None:
    """An engine that answers while the request still comes: every piece goes there and back before the next is sent."""

    async def echo(connection: Connection) -> None:
        await connection.head()
        await connection.send(STREAM)
        while data := await connection.read_raw():
            await connection.send(data)

    async def main() -> None:
        async with Engine(echo) as engine, proxied(engine.url, state) as proxy, Wire(proxy.address) as wire:
            await wire.send(b"POST /v1/audio/stream HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
            async with asyncio.timeout(20):
                assert (await wire.until(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 OK\r\n")
                for size in [1, 10, 1000, 20_000, 3] * 8:
                    piece = bytes([size % 251]) * size
                    await wire.send(chunk(piece))
                    got = b""
                    while len(got) < size:
                        line = await wire.until(b"\r\n")
                        got += await wire.reader.readexactly(int(line, 16))
                        assert await wire.reader.readexactly(2) == b"\r\n"
                    assert got == piece
                await wire.send(chunk(b""))
                assert await wire.until(b"0\r\n\r\n") == b"0\r\n\r\n"

    uvloop.run(main())
