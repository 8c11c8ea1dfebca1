"""Control characters in every place of a request and of a reply: nothing of the kind is ever emitted, towards the engine or the client."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import uvloop

from tests.figures import Figure
from tests.smuggling.test_replies import assert_clean, without_interim
from tests.wire.client import ask, parse
from tests.wire.engine import Connection, Engine, always, reply
from tests.wire.proxied import proxied

CONTROLS = [*range(0x20), 0x7F]
REQUESTS = {
    "method": b"PO%bST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n",
    "path": b"POST /a%bb HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n",
    "query": b"POST /a?b=%bc HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n",
    "version": b"POST /a HTTP/1.1%b\r\nHost: h\r\nContent-Length: 0\r\n\r\n",
    "name": b"POST /a HTTP/1.1\r\nHost: h\r\nX%bY: z\r\nContent-Length: 0\r\n\r\n",
    "host": b"POST /a HTTP/1.1\r\nHost: h%bi\r\nContent-Length: 0\r\n\r\n",
    "value": b"POST /a HTTP/1.1\r\nHost: h\r\nX: a%bb\r\nContent-Length: 0\r\n\r\n",
    "value, first": b"POST /a HTTP/1.1\r\nHost: h\r\nX:%ba\r\nContent-Length: 0\r\n\r\n",
    "value, last": b"POST /a HTTP/1.1\r\nHost: h\r\nX: a%b\r\nContent-Length: 0\r\n\r\n",
    "authorization": b"POST /a HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer a%bb\r\nContent-Length: 0\r\n\r\n",
    "user agent": b"POST /v1/completions HTTP/1.1\r\nHost: h\r\nUser-Agent: a%bb\r\nContent-Length: 0\r\n\r\n",
    "injected field": b"POST /a HTTP/1.1\r\nHost: h\r\nX: a%bInjected: y\r\nContent-Length: 0\r\n\r\n",
    "chunk size": b"POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1%b\r\na\r\n0\r\n\r\n",
    "chunk extension": b"POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1;a=%b\r\na\r\n0\r\n\r\n",
    "trailer": b"POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX: a%bb\r\n\r\n",
}
REPLIES = {
    "reason": b"HTTP/1.1 200 O%bK\r\nContent-Length: 2\r\n\r\nok",
    "reason, last": b"HTTP/1.1 200 OK%b\r\nContent-Length: 2\r\n\r\nok",
    "status": b"HTTP/1.1 20%b0 OK\r\nContent-Length: 2\r\n\r\nok",
    "name": b"HTTP/1.1 200 OK\r\nX%bY: z\r\nContent-Length: 2\r\n\r\nok",
    "value": b"HTTP/1.1 200 OK\r\nX: a%bb\r\nContent-Length: 2\r\n\r\nok",
    "value, first": b"HTTP/1.1 200 OK\r\nX:%ba\r\nContent-Length: 2\r\n\r\nok",
    "value, last": b"HTTP/1.1 200 OK\r\nX: a%b\r\nContent-Length: 2\r\n\r\nok",
    "content type": b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream%b\r\nContent-Length: 2\r\n\r\nok",
    "location": b"HTTP/1.1 302 Found\r\nLocation: /a%bb\r\nContent-Length: 2\r\n\r\nok",
    "injected field": b"HTTP/1.1 200 OK\r\nX: a%bInjected: y\r\nContent-Length: 2\r\n\r\nok",
    "interim": b"HTTP/1.1 103 Early\r\nX: a%bb\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    "trailer": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX: a%bb\r\n\r\n",
}


def test_towards_the_engine(state: Path, figure: Figure) -> None:
    sent = 0

    async def main() -> None:
        nonlocal sent
        async with Engine(always(reply(b"ok"))) as engine, proxied(engine.url, state) as proxy:
            for (place, template), code in itertools.product(REQUESTS.items(), CONTROLS):
                before = len(engine.requests)
                answer = parse(
                    await ask(
                        proxy.address,
                        template.replace(b"%b", bytes([code])).replace(b"\r\n", b"\r\nConnection: close\r\n", 1),
                    )
                )
                assert (answer.status == 200) == (len(engine.requests) == before + 1), (place, code)
                if "value" not in place and code not in (0x0A, 0x0D):
                    assert answer.status != 200 or code == 0x09 or place == "chunk extension", (place, code)
                sent += 1
            for request in engine.requests:
                for line in request.head.split(b"\r\n"):
                    assert not set(line) & (set(CONTROLS) - {0x09}), request.head
                assert not {name.lower() for name, _ in request.fields} - {b"host", b"x", b"content-length", b"transfer-encoding", b"authorization", b"user-agent"}  # fmt: skip
                assert request.body in (b"", b"a")
                assert set(request.raw_body) <= set(b"01a\r\n")

    uvloop.run(main())
    figure("row 14", f"control characters in {len(REQUESTS)} places of a request: {sent} requests, 0 emitted")


@pytest.mark.parametrize("place", REPLIES)
def test_towards_the_client(place: str, state: Path, figure: Figure) -> None:
    async def main() -> None:
        async def behave(connection: Connection) -> None:
            request = await connection.request()
            code = bytes([int(request.line.split(b" ")[1][1:])])
            await connection.send(REPLIES[place].replace(b"%b", code))

        async with Engine(behave) as engine, proxied(engine.url, state) as proxy:
            for code in CONTROLS:
                raw = await ask(proxy.address, b"GET /%d HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n" % code)
                assert_clean(raw)
                assert b"\nInjected" not in raw
                answer = parse(without_interim(raw))
                assert answer.status in (200, 302, 502)
                if answer.status != 502:
                    assert place == "trailer" or code in (0x09, 0x0A, 0x0D), (place, code)

    uvloop.run(main())
    figure("row 14", f"control characters in the {place} of a reply: {len(CONTROLS)} replies, 0 emitted")
