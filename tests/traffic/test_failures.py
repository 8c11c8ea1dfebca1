"""When the client leaves, or the primary refuses, cuts, hangs or talks nonsense: the same truth reaches the other side, at once."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path

import pytest
import uvloop

from proxy.config import Timeouts
from proxy.counters import Slot
from proxy.exchange import Ended
from tests.wire.client import Wire, ask, get, parse, post
from tests.wire.engine import STREAM, Behaviour, Connection, Engine, chunk, once, reply
from tests.wire.judge import judging
from tests.wire.proxied import proxied


async def eventually(true: object, seconds: float = 10.0) -> None:
    """Wait until a callable says true."""
    assert callable(true)
    async with asyncio.timeout(seconds):
        while not true():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.002)


def closed_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def test_a_primary_that_refuses_is_a_constant_502_and_the_connection_lives(state: Path) -> None:
    async def main() -> None:
        async with proxied(f"http://127.0.0.1:{closed_port()}", state) as proxy, Wire(proxy.address) as wire:
            for _ in range(2):
                await wire.send(post(b"{}", close=False))
                head = await wire.until(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 502 Bad Gateway\r\n")
                assert b"close" not in head
                assert json.loads(await wire.until(b"}}"))["error"] == {
                    "message": "The primary engine cannot be reached.",
                    "type": "proxy_error",
                    "code": "primary_unreachable",
                }
            assert proxy[Slot.PRIMARY_UNREACHABLE] == 2
            assert ("chat_completions", 502, 2) in list(proxy.counters.requests())

    uvloop.run(main())


CUTS: dict[str, tuple[list[bytes], bytes]] = {
    "length": ([b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab"], b"ab"),
    "chunks": ([STREAM, chunk(b"data: 1\n\n"), b"5\r\nab"], b"data: 1\n\nab"),
    "between chunks": ([STREAM, chunk(b"data: 1\n\n")], b"data: 1\n\n"),
}


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("name", CUTS)
def test_a_cut_reply_is_cut_for_the_client_after_what_came(name: str, reset: bool, state: Path) -> None:
    pieces, body = CUTS[name]

    async def main() -> None:
        async def behave(connection: Connection) -> None:
            await connection.request()
            await connection.send(*pieces)
            await asyncio.sleep(0.05)
            if reset:
                connection.reset()

        async with judging(state) as judge, Engine(behave) as engine, proxied(engine.url, state) as proxy:
            got = parse(await ask(proxy.address, post(b"{}")))
            assert (got.status, got.body, got.whole) == (200, body, False)
            [exchange] = await judge.until(1)
            assert exchange.ended is Ended.PRIMARY_CUT
            assert b"".join(piece for _, piece in exchange.pieces) == body

    uvloop.run(main())


def test_a_cut_stream_is_a_reset_where_an_end_would_look_whole(state: Path) -> None:
    async def main() -> None:
        async with (
            Engine(once(STREAM, chunk(b"a"))) as engine,
            proxied(engine.url, state) as proxy,
            Wire(proxy.address) as wire,
        ):
            await wire.send(b"GET /x HTTP/1.0\r\n\r\n")
            with pytest.raises(ConnectionResetError):
                await wire.reader.read()

    uvloop.run(main())


async def _say_nothing(connection: Connection) -> None:
    await connection.request()


FAULTY: dict[str, tuple[Behaviour, str]] = {
    "closed without an answer": (_say_nothing, "primary_cut"),
    "half a head": (once(b"HTTP/1.1 200 OK\r\nConte"), "primary_cut"),
    "garbage": (once(b"\x00\x01garbage\r\n\r\n"), "primary_protocol"),
    "length and chunked": (once(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"), "primary_protocol"),
    "gzip transfer coding": (once(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"), "primary_protocol"),
    "switching protocols": (once(b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nabc"), "primary_protocol"),
    "http/2": (once(b"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n"), "primary_protocol"),
    "control byte in the reason": (once(b"HTTP/1.1 200 O\x01K\r\nContent-Length: 0\r\n\r\n"), "primary_protocol"),
    "line feed injection": (once(b"HTTP/1.1 200 OK\nX-A: 1\r\nContent-Length: 0\r\n\r\n"), "primary_protocol"),
    "endless head": (once(b"HTTP/1.1 200 OK\r\n", *([b"X-A: " + b"a" * 4000 + b"\r\n"] * 40), pause=0.001), "primary_protocol"),
    "endless interim": (once(*([b"HTTP/1.1 103 Hints\r\nX-A: " + b"a" * 4000 + b"\r\n\r\n"] * 40), pause=0.001), "primary_protocol"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTY)
def test_an_answer_that_is_none_is_a_502(name: str, state: Path) -> None:
    behave, code = FAULTY[name]

    async def main() -> None:
        async with judging(state) as judge, Engine(behave) as engine, proxied(engine.url, state) as proxy:
            raw = await ask(
                proxy.address, b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}" + get()
            )
            answer = raw[raw.index(b"HTTP/1.1 502") :]
            assert json.loads(parse(answer).body)["error"]["code"] == code
            [exchange] = await judge.until(1)
            assert (exchange.ended, exchange.status) == (Ended.NO_REPLY, 0)
            assert exchange.request_body == b"{}"

    uvloop.run(main())


def test_a_primary_that_hangs_is_a_504_and_is_let_go(state: Path) -> None:
    async def main() -> None:
        async def hang(connection: Connection) -> None:
            await connection.request()
            assert await connection.read_raw() == b""

        timeouts = Timeouts(head=0.5, connect=1.0, idle=0.5)
        async with Engine(hang) as engine, proxied(engine.url, state, timeouts=timeouts) as proxy:
            answer = parse(await ask(proxy.address, post(b"{}")))
            assert (answer.status, json.loads(answer.body)["error"]["code"]) == (504, "primary_timeout")
            await eventually(lambda: not engine.open)
            assert not engine.errors

    uvloop.run(main())


@pytest.mark.parametrize("moment", ["connecting", "before the first byte", "mid-stream", "mid-request"])
def test_a_client_that_leaves_takes_the_primary_call_with_it(moment: str, state: Path) -> None:
    async def main() -> None:
        async def behave(connection: Connection) -> None:
            await connection.head()
            if moment == "mid-stream":
                await connection.send(STREAM, chunk(b"data: 1\n\n"))
            while await connection.read_raw():
                pass

        async with judging(state) as judge, Engine(behave) as engine, proxied(engine.url, state) as proxy:
            async with Wire(proxy.address) as wire:
                request = post(b"{}") if moment != "mid-request" else post(b"{}").replace(b"Length: 2", b"Length: 9")
                await wire.send(request)
                if moment == "mid-stream":
                    await wire.until(b"1\n\n")
                elif moment != "connecting":
                    await eventually(lambda: engine.received)
            await eventually(lambda: not engine.open, seconds=1.0)
            [exchange] = await judge.until(1)
            assert exchange.ended is Ended.CLIENT_GONE
            assert exchange.pieces[:1] == ((exchange.pieces[0][0], b"data: 1\n\n"),) if moment == "mid-stream" else True
            assert proxy[Slot.CLIENT_DISCONNECTS] == 1
            assert proxy[Slot.OPEN_STREAMS] == 0
            assert ("chat_completions", 499, 1) in list(proxy.counters.requests())
            await proxy.until(Slot.CLIENT_CONNECTIONS, 0)
            assert proxy.balanced()

    uvloop.run(main())


def test_a_client_that_leaves_at_the_end_of_the_events_has_had_its_reply(state: Path) -> None:
    """OpenAI's own client closes at [DONE], which may be before the last chunk of the framing has come."""

    async def main() -> None:
        async def behave(connection: Connection) -> None:
            await connection.head()
            await connection.send(STREAM, chunk(b"data: 1\n\n"), chunk(b"data: [DONE]\n\n"))
            while await connection.read_raw():
                pass

        async with judging(state) as judge, Engine(behave) as engine, proxied(engine.url, state) as proxy:
            async with Wire(proxy.address) as wire:
                await wire.send(post(b"{}"))
                await wire.until(b"[DONE]\n\n")
            [exchange] = await judge.until(1)
            assert exchange.ended is Ended.COMPLETE
            assert b"".join(piece for _, piece in exchange.pieces) == b"data: 1\n\ndata: [DONE]\n\n"
            assert proxy[Slot.CLIENT_DISCONNECTS] == 0
            assert ("chat_completions", 200, 1) in list(proxy.counters.requests())
            await proxy.until(Slot.CLIENT_CONNECTIONS, 0)
            assert proxy.balanced()

    uvloop.run(main())


def test_slow_readers_hold_the_engine_and_bounded_memory(state: Path) -> None:
    """Each side's buffer holds at most one read (256 KiB) above its high-water mark (64 KiB)."""
    block = b"x" * (64 << 10)
    readers, each = 8, 64 << 20

    async def main() -> None:
        sent = [0]

        async def flood(connection: Connection) -> None:
            await connection.request()
            await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % each)
            for _ in range(each // len(block)):
                await connection.send(block)
                sent[0] += len(block)

        async with Engine(flood) as engine, proxied(engine.url, state) as proxy:
            wires = [Wire(proxy.address) for _ in range(readers)]
            for wire in wires:
                await wire.__aenter__()
                wire.writer.transport.pause_reading()  # type: ignore[attr-defined]  # the transport reads as well
                await wire.send(get("/flood"))
            last = -1
            while sent[0] != last:
                last = sent[0]
                await asyncio.sleep(0.3)
            from proxy.traffic.client_side import ClientSide

            held = [_buffered(side) for side in _instances(ClientSide)]
            assert len(held) == readers
            assert max(held) <= (64 << 10) + (256 << 10)
            assert 0 < sent[0] < readers * each
            for wire in wires:
                wire.writer.transport.abort()
                await wire.__aexit__()
            await eventually(lambda: not engine.open)

    uvloop.run(main())


def test_pipelined_requests_wait_for_a_client_that_does_not_read(state: Path) -> None:
    """Replies of 60 kB to 300 requests on one connection: no more are asked for than the sockets take, and all come when they are read."""
    size, requests = 60_000, 300

    async def main() -> None:
        answered = [0]

        async def answer(connection: Connection) -> None:
            while True:
                await connection.request()
                await connection.send(reply(b"x" * size))
                answered[0] += 1

        async with Engine(answer) as engine, proxied(engine.url, state) as proxy, Wire(proxy.address) as wire:
            wire.writer.transport.pause_reading()  # type: ignore[attr-defined]  # the transport reads as well
            await wire.send(b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n" * (requests - 1) + get())
            last = -1
            while answered[0] != last:
                last = answered[0]
                await asyncio.sleep(0.3)
            from proxy.traffic.client_side import ClientSide

            [held] = [_buffered(side) for side in _instances(ClientSide)]
            assert held <= (32 << 10) + (64 << 10) + size
            assert 0 < answered[0] < requests
            wire.writer.transport.resume_reading()  # type: ignore[attr-defined]  # as above
            raw = await wire.rest()
            assert raw.count(b"HTTP/1.1 200 OK\r\n") == requests
            assert raw.count(b"x" * size) == requests
            assert proxy.balanced()

    uvloop.run(main())


def _instances(kind: type) -> list[object]:
    import gc

    return [thing for thing in gc.get_objects() if isinstance(thing, kind) and thing._transport is not None]  # type: ignore[attr-defined]  # looked at from outside


def _buffered(side: object) -> int:
    return int(side._transport.get_write_buffer_size())  # type: ignore[attr-defined]  # looked at from outside


def test_an_upload_waits_for_the_primary(state: Path) -> None:
    async def main() -> None:
        go = asyncio.Event()

        async def behave(connection: Connection) -> None:
            head = await connection.head()
            await go.wait()
            request = await connection.body(head)
            await connection.send(reply(b"%d" % len(request.body)))

        size = 64 << 20
        async with Engine(behave) as engine, proxied(engine.url, state) as proxy, Wire(proxy.address) as wire:
            await wire.send(post(b"").replace(b"Length: 0", b"Length: %d" % size))
            sent = [0]

            async def upload() -> None:
                while sent[0] < size:
                    await wire.send(b"u" * (1 << 20))
                    sent[0] += 1 << 20

            async with asyncio.TaskGroup() as group:
                group.create_task(upload())
                last = -1
                while sent[0] != last:
                    last = sent[0]
                    await asyncio.sleep(0.3)
                assert last < size
                go.set()
            assert parse(await wire.rest()).body == b"%d" % size
            assert not engine.errors

    uvloop.run(main())


def test_an_early_reply_is_passed_and_the_connection_ends(state: Path) -> None:
    async def main() -> None:
        async def behave(connection: Connection) -> None:
            await connection.head()
            await connection.send(reply(b"too large", status="413 Content Too Large"))
            while await connection.read_raw():
                pass

        async with (
            judging(state) as judge,
            Engine(behave) as engine,
            proxied(engine.url, state) as proxy,
            Wire(proxy.address) as wire,
        ):
            await wire.send(post(b"", close=False).replace(b"Length: 0", b"Length: 1000000") + b"x" * 1000)
            raw = await wire.rest()
            assert parse(raw).status == 413
            assert b"Connection: close" in raw
            await eventually(lambda: not engine.open)
            [exchange] = await judge.until(1)
            assert (exchange.status, exchange.ended, exchange.request_whole) == (413, Ended.COMPLETE, False)

    uvloop.run(main())
