"""Malformed HTTP is refused by us: a constant text, the connection closed, nothing echoed, not one byte to the engine."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
import uvloop

from proxy.config import Timeouts
from proxy.counters import Slot
from tests.wire.client import Wire, ask, get, parse
from tests.wire.engine import Engine, always, reply
from tests.wire.proxied import proxied

CANARY = b"sk-canary"


def _with(*lines: bytes, start: bytes = b"POST /v1/chat/completions HTTP/1.1", host: bytes = b"Host: x\r\n") -> bytes:
    fields = b"".join(line + b"\r\n" for line in (b"Authorization: Bearer " + CANARY, *lines))
    return start + b"\r\n" + host + fields + b"\r\nabc"


CHUNKED = b"Transfer-Encoding: chunked"
VECTORS: dict[str, tuple[int, bytes]] = {
    "length and chunked": (400, _with(b"Content-Length: 3", CHUNKED)),
    "chunked and length": (400, _with(CHUNKED, b"Content-Length: 3")),
    "two lengths": (400, _with(b"Content-Length: 3", b"Content-Length: 3")),
    "two different lengths": (400, _with(b"Content-Length: 3", b"content-length: 4")),
    "length list": (400, _with(b"Content-Length: 3, 3")),
    "signed length": (400, _with(b"Content-Length: +3")),
    "negative length": (400, _with(b"Content-Length: -3")),
    "hex length": (400, _with(b"Content-Length: 0x3")),
    "blank in length": (400, _with(b"Content-Length: 3 3")),
    "no length": (400, _with(b"Content-Length:")),
    "huge length": (400, _with(b"Content-Length: 99999999999999999999999999")),
    "xchunked": (400, _with(b"Transfer-Encoding: xchunked")),
    "chunked then identity": (400, _with(b"Transfer-Encoding: chunked, identity")),
    "gzip then chunked": (400, _with(b"Transfer-Encoding: gzip, chunked")),
    "chunked twice": (400, _with(CHUNKED, CHUNKED)),
    "empty coding": (400, _with(b"Transfer-Encoding:")),
    "quoted coding": (400, _with(b'Transfer-Encoding: "chunked"')),
    "vertical tab in coding": (400, _with(b"Transfer-Encoding: \x0bchunked")),
    "chunked on 1.0": (400, _with(CHUNKED, start=b"POST / HTTP/1.0")),
    "folded line": (400, _with(b"X-A: 1\r\n  2")),
    "folded first line": (400, _with(host=b" X: 1\r\nHost: x\r\n")),
    "blank before colon": (400, _with(b"Content-Length : 3")),
    "tab before colon": (400, _with(b"X-A\t: 3")),
    "no colon": (400, _with(b"X-A")),
    "empty name": (400, _with(b": 1")),
    "bad name": (400, _with(b"X(A): 1")),
    "bare LF after field": (400, _with(b"X-A: 1\nX-B: 2")),
    "bare LF everywhere": (400, b"GET / HTTP/1.1\nHost: x\n\n"),
    "bare LF at end": (400, b"GET / HTTP/1.1\r\nHost: x\r\n\n"),
    "bare CR": (400, _with(b"X-A: 1\rX-B: 2")),
    "CR before the blank line": (400, b"GET / HTTP/1.1\r\nHost: x\r\n\rX: y\r\n\r\n"),
    "NUL": (400, _with(b"X-A: 1\x002")),
    "control byte": (400, _with(b"X-A: 1\x012")),
    "DEL": (400, _with(b"X-A: 1\x7f")),
    "no host": (400, _with(host=b"")),
    "two hosts": (400, _with(b"Host: y")),
    "host with user": (400, _with(host=b"Host: a@b\r\n")),
    "host with path": (400, _with(host=b"Host: a/b\r\n")),
    "host with blank": (400, _with(host=b"Host: a b\r\n")),
    "absolute form": (400, _with(start=b"GET http://evil.test/ HTTP/1.1")),
    "absolute form, https": (400, _with(start=b"GET https://x/ HTTP/1.1")),
    "authority form": (400, _with(start=b"GET evil.test:443 HTTP/1.1")),
    "CONNECT": (400, _with(start=b"CONNECT evil.test:443 HTTP/1.1")),
    "CONNECT with a path": (400, _with(start=b"CONNECT / HTTP/1.1")),
    "asterisk": (400, _with(start=b"GET * HTTP/1.1")),
    "empty target": (400, _with(start=b"GET  HTTP/1.1")),
    "fragment": (400, _with(start=b"GET /a#b HTTP/1.1")),
    "two blanks": (400, _with(start=b"GET  / HTTP/1.1")),
    "tab": (400, _with(start=b"GET\t/ HTTP/1.1")),
    "blank in target": (400, _with(start=b"GET /a b HTTP/1.1")),
    "byte over 0x7f in target": (400, _with(start=b"GET /\xc3\xa9 HTTP/1.1")),
    "control byte in target": (400, _with(start=b"GET /\x01 HTTP/1.1")),
    "blank after version": (400, _with(start=b"GET / HTTP/1.1 ")),
    "lower-case version": (400, _with(start=b"GET / http/1.1")),
    "another protocol": (400, _with(start=b"GET / RTSP/1.0")),
    "lower-case method": (400, _with(start=b"get / HTTP/1.1")),
    "unknown method": (400, _with(start=b"FROBNICATE / HTTP/1.1")),
    "leading blank": (400, _with(start=b" GET / HTTP/1.1")),
    "TLS": (400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 50),
    "0.9": (505, b"GET /\r\n\r\n"),
    "1.2": (505, _with(start=b"GET / HTTP/1.2")),
    "2.0": (505, _with(start=b"GET / HTTP/2.0")),
    "the preface of 2": (505, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    "hex chunk size": (400, _with(CHUNKED)[:-3] + b"0x3\r\nabc\r\n0\r\n\r\n"),
    "blank in chunk size": (400, _with(CHUNKED)[:-3] + b"3 \r\nabc\r\n0\r\n\r\n"),
    "overflowing chunk size": (400, _with(CHUNKED)[:-3] + b"fffffffffffffffff\r\nabc\r\n0\r\n\r\n"),
    "LF after chunk size": (400, _with(CHUNKED)[:-3] + b"3\nabc\r\n0\r\n\r\n"),
    "LF in chunk extension": (400, _with(CHUNKED)[:-3] + b"3;a\nb\r\nabc\r\n0\r\n\r\n"),
    "no line end after chunk": (400, _with(CHUNKED)[:-3] + b"3\r\nabcXX0\r\n\r\n"),
    "LF after last chunk": (400, _with(CHUNKED)[:-3] + b"3\r\nabc\r\n0\n\n"),
    "200 fields and one": (431, _with(*(b"X-%d: 1" % number for number in range(199)))),
    "64 KiB in one field": (431, _with(b"X-A: " + b"a" * (64 << 10))),
    "64 KiB of target": (431, _with(start=b"GET /" + b"a" * (64 << 10) + b" HTTP/1.1")),
    "64 KiB without an end": (431, _with(*(b"X-A: " + b"a" * 4000 for _ in range(17)))[:-5]),
}


@pytest.mark.parametrize("split", [False, True], ids=["whole", "split"])
def test_each_vector_is_refused_without_a_byte_to_the_engine(split: bool, state: Path) -> None:
    async def main() -> None:
        async with Engine(always(reply(b"reached"))) as engine, proxied(engine.url, state) as proxy:
            wrong = []
            for name, (status, raw) in VECTORS.items():
                pieces = [raw[:7], raw[7:60], raw[60:]] if split else [raw]
                got = await asyncio.wait_for(ask(proxy.address, *filter(None, pieces), pause=0.001 if split else 0), 5)
                head, _, body = got.partition(b"\r\n\r\n")
                expected = b"HTTP/1.1 %d " % status
                if not head.startswith(expected) or CANARY in got or b"\r\nConnection: close" not in head:
                    wrong.append((name, got))
                elif json.loads(body)["error"]["type"] != "invalid_request_error":
                    wrong.append((name, body))
            assert not wrong
            assert engine.received == b""
            assert parse(await ask(proxy.address, get())).body == b"reached"
            assert proxy[Slot.REFUSED_HEADS] + proxy[Slot.RECEIVED] == len(VECTORS) + 1
            assert proxy.balanced()

    uvloop.run(main())


def test_a_malformed_chunk_after_the_head_is_on_its_way_breaks_the_primary_call_off(state: Path) -> None:
    async def main() -> None:
        async with Engine(always(reply(b"never"))) as engine, proxied(engine.url, state) as proxy:
            async with Wire(proxy.address) as wire:
                await wire.send(_with(CHUNKED)[:-3])
                async with asyncio.timeout(5):
                    while not engine.open:  # noqa: ASYNC110 - the engine has no event for it
                        await asyncio.sleep(0.002)
                await wire.send(b"1\r\na\r\nzz\r\n")
                assert parse(await wire.rest()).status == 400
            async with asyncio.timeout(5):
                while engine.open:  # noqa: ASYNC110 - the engine has no event for it
                    await asyncio.sleep(0.002)
            assert not engine.requests

    uvloop.run(main())


def test_endless_trailers_and_chunk_extensions_are_bounded(state: Path) -> None:
    async def main() -> None:
        async with Engine(always(reply(b"never"))) as engine, proxied(engine.url, state) as proxy:
            for flood in (b"1\r\na\r\n0\r\nX: ", b"1;"):
                async with Wire(proxy.address) as wire:
                    await wire.send(_with(CHUNKED)[:-3] + flood)
                    sent = 0
                    try:
                        while sent < 64:
                            await wire.send(b"a" * 8192, pause=0.001)
                            sent += 1
                    except ConnectionError:
                        pass
                    else:
                        assert parse(await wire.rest()).status == 400
            assert not engine.requests

    uvloop.run(main())


def test_a_slow_head_ends_at_its_deadline_and_a_silent_connection_without_a_word(state: Path) -> None:
    async def main() -> None:
        timeouts = Timeouts(head=0.3, connect=2.0, idle=0.6)
        async with Engine(always(reply(b"ok"))) as engine, proxied(engine.url, state, timeouts=timeouts) as proxy:
            async with Wire(proxy.address) as slow, Wire(proxy.address) as silent, Wire(proxy.address) as kept:
                await slow.send(b"GET / HTTP/1.1\r\nHo")
                await kept.send(b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n")
                assert (await kept.until(b"ok")).endswith(b"ok")
                async with asyncio.timeout(5):
                    assert parse(await slow.rest()).status == 408
                    assert await silent.rest() == b""
                    assert await kept.rest() == b""
            async with Wire(proxy.address) as stalled:
                await stalled.send(b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab")
                async with asyncio.timeout(5):
                    assert parse(await stalled.rest()).status == 408
            await proxy.until(Slot.CLIENT_CONNECTIONS, 0)
            assert [request.line for request in engine.requests] == [b"GET /x HTTP/1.1"]

    uvloop.run(main())
