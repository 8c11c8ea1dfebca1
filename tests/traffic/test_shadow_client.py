"""The judge's client: whatever a shadow does, an ``Answer`` comes back, bounded in time and memory."""

from __future__ import annotations

import asyncio
import select
import socket
import ssl
import time
import tracemalloc

import pytest
import uvloop

from engines.dialect import Answer, Call
from proxy.traffic import shadow_line
from proxy.traffic.shadow_client import Client
from tests.faults import FAULTS, refused_url
from tests.wire.engine import Connection, Engine, always, chunk, once, reply, stream

CALL = Call("/v1/chat/completions", {"model": "m", "n": 1})


def client(url: str, **changes: object) -> Client:
    settings = {"api_key": None, "connections": 4, "connect_timeout": 2.0, "max_bytes": 1 << 20} | changes
    return Client(url, **settings)  # type: ignore[arg-type]  # the test's own keywords


def test_a_call_is_sent_as_told_and_its_answer_read_with_times() -> None:
    async def main() -> None:
        pieces = [b'data: {"a":1}\n\n', b"data: [DONE]\n\n"]
        async with Engine(always(*stream(*pieces), pause=0.01)) as engine:
            one = client(engine.url + "/base", api_key="k-1")
            answer = await one.send(
                CALL, headers=(("X-Request-Id", "r1"), ("Accept", "text/event-stream")), deadline=5.0
            )
            assert answer.failure is None
            assert answer.status == 200
            assert answer.headers == (("content-type", "text/event-stream"), ("transfer-encoding", "chunked"))
            assert [piece for _, piece in answer.pieces] == pieces
            assert 5_000 < answer.pieces[1][0] - answer.pieces[0][0] < 2_000_000
            [request] = engine.requests
            assert request.head == (
                b"POST /base/v1/chat/completions HTTP/1.1\r\nHost: "
                + engine.host
                + b"\r\nUser-Agent: parhelion\r\nAuthorization: Bearer k-1\r\n"
                b"X-Request-Id: r1\r\nAccept: text/event-stream\r\nContent-Type: application/json\r\nContent-Length: 19"
            )
            assert request.body == b'{"model":"m","n":1}'
            await one.aclose()

    uvloop.run(main())


def test_a_machine_that_is_gone_is_noticed_by_the_kernel() -> None:
    async def main() -> None:
        async with Engine(always(reply(b"{}"))) as engine:
            one = client(engine.url)
            await one.send(CALL, deadline=5.0)
            [line] = one._lines
            connection = line._transport.get_extra_info("socket")
            kept = [connection.getsockopt(level, option) for level, option, _ in shadow_line._ALIVE]
            assert kept == [1, 20, 5, 4, 40_000]
            await one.aclose()

    uvloop.run(main())


def test_bodies_as_they_are_and_calls_without_one() -> None:
    async def main() -> None:
        async with Engine(always(reply(b"{}"))) as engine:
            one = client(engine.url)
            await one.send(CALL, headers=(("content-type", "text/x"),), deadline=5.0, raw_body=b"\x00raw")
            await one.send(Call("/v1/models", method="GET"), deadline=5.0)
            head = await one.send(Call("/x", method="HEAD"), deadline=5.0)
            assert (head.status, head.body) == (200, b"")
            assert engine.requests[0].body == b"\x00raw"
            assert engine.requests[0].value(b"content-type") == b"text/x"
            assert engine.requests[1].line == b"GET /v1/models HTTP/1.1"
            assert engine.requests[1].value(b"content-length") is None
            await one.aclose()

    uvloop.run(main())


def test_connections_are_kept_and_capped() -> None:
    async def main() -> None:
        async def behave(connection: Connection) -> None:
            while True:
                await connection.request()
                await asyncio.sleep(0.01)
                await connection.send(reply(b"{}"))

        async with Engine(behave) as engine:
            one = client(engine.url, connections=3)
            answers = await asyncio.gather(*(one.send(CALL, deadline=10.0) for _ in range(12)))
            assert {answer.failure for answer in answers} == {None}
            assert engine.connections == 3
            await one.aclose()
            async with asyncio.timeout(5):
                while engine.open:  # noqa: ASYNC110 - the engine has no event for it
                    await asyncio.sleep(0.002)

    uvloop.run(main())


def test_waiting_for_a_slot_counts_against_the_deadline() -> None:
    async def main() -> None:
        async with Engine(FAULTS["hang"]) as engine:
            one = client(engine.url, connections=1)
            answers = await asyncio.gather(*(one.send(CALL, deadline=0.2) for _ in range(3)))
            assert [answer.failure for answer in answers] == ["timeout"] * 3
            await one.aclose()

    uvloop.run(main())


def test_time_in_which_we_were_held_up_ourselves_does_not_count() -> None:
    async def main() -> None:
        async def behave(connection: Connection) -> None:
            await connection.request()
            await asyncio.sleep(0.4)
            await connection.send(reply(b"{}"))

        async with Engine(behave) as engine:
            one = client(engine.url)
            asyncio.get_running_loop().call_later(0.15, time.sleep, 1.2)
            answer = await one.send(CALL, deadline=1.0)
            assert (answer.failure, answer.body) == (None, b"{}")
            await one.aclose()

    uvloop.run(main())


def test_a_call_that_hangs_ends_though_we_are_held_up_again_and_again() -> None:
    async def main() -> None:
        async with Engine(FAULTS["hang"]) as engine:
            one, began = client(engine.url), time.monotonic()
            call = asyncio.ensure_future(one.send(CALL, deadline=0.3))
            while not call.done():
                assert time.monotonic() - began < 10.0
                time.sleep(0.2)  # noqa: ASYNC251 - this is what holds us up
                await asyncio.sleep(0.001)
            assert call.result().failure == "timeout"
            assert time.monotonic() - began > 0.5  # once the deadline, and as much again: less is none of ours
            await one.aclose()

    uvloop.run(main())


@pytest.mark.parametrize(
    ("name", "failure", "status"),
    [
        ("reset", "reset", 0),
        ("hang", "timeout", 0),
        ("deaf", "timeout", 0),
        ("trickle", "timeout", 200),
        ("garbage", "protocol", 0),
        ("endless_stream", "too_large", 200),
        ("huge_line", "too_large", 200),
        ("endless_head", "protocol", 0),
        ("server_error", None, 500),
        ("half_close", "cut", 200),
        ("cut", "cut", 200),
        ("silent_close", "reset", 0),
        ("not_json", None, 200),
    ],
)
def test_each_fault_ends_in_a_bounded_answer(name: str, failure: str | None, status: int) -> None:
    async def main() -> None:
        async with Engine(FAULTS[name]) as engine:
            one = client(engine.url)
            tracemalloc.start()
            try:
                answer = await one.send(
                    CALL,
                    deadline=0.5 if failure == "timeout" else 10.0,
                    raw_body=b"{}" * 4_000_000 if name == "deaf" else None,
                )
                peak = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
            assert (answer.failure, answer.status) == (failure, status)
            assert sum(len(piece) for _, piece in answer.pieces) <= 1 << 20
            assert peak < 40 << 20
            await one.aclose()

    uvloop.run(main())


def test_every_fault_is_tested_here() -> None:
    assert len(FAULTS) == 13


async def _answer(url: str, **changes: object) -> Answer:
    one = client(url, **changes)
    try:
        return await one.send(CALL, deadline=5.0)
    finally:
        await one.aclose()


def test_no_connection() -> None:
    async def main() -> None:
        assert (await _answer(refused_url())).failure == "refused"
        assert (await _answer("http://no-such-host.invalid")).failure == "dns"

        async def plain(connection: Connection) -> None:
            await connection.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            await connection.read_raw()

        async with Engine(plain) as engine:
            assert (await _answer(engine.url.replace("http:", "https:"))).failure == "tls"

    uvloop.run(main())


def test_an_untrusted_certificate_is_a_tls_failure(certificate: tuple[str, str]) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)

    async def main() -> None:
        async with Engine(always(reply(b"{}")), tls=context) as engine:
            assert (await _answer(engine.url)).failure == "tls"

    uvloop.run(main())


def test_a_connection_that_cannot_be_made_in_time() -> None:
    async def main() -> None:
        async def never_shakes_hands(connection: Connection) -> None:
            await asyncio.Event().wait()

        async with Engine(never_shakes_hands) as engine:
            answer = await _answer(engine.url.replace("http:", "https:"), connect_timeout=0.2)
            assert answer.failure == "connect_timeout"

    uvloop.run(main())


def test_a_stale_connection_is_tried_again_once() -> None:
    async def main() -> None:
        async def behave(connection: Connection) -> None:
            await connection.request()
            await connection.send(reply(b'{"n":1}'))
            await connection.head()

        async with Engine(behave) as engine:
            one = client(engine.url)
            for _ in range(2):
                answer = await one.send(CALL, deadline=5.0)
                assert (answer.failure, answer.body) == (None, b'{"n":1}')
            assert engine.connections == 2
            await one.aclose()

    uvloop.run(main())


@pytest.mark.parametrize("raw", [reply(b"ok") + b"HTTP/1.1 200 OK\r\n", reply(b"ok", fields=b"Connection: close\r\n")])
def test_a_connection_that_is_not_clean_is_not_kept(raw: bytes) -> None:
    async def main() -> None:
        async with Engine(always(raw)) as engine:
            one = client(engine.url)
            for _ in range(3):
                assert (await one.send(CALL, deadline=5.0)).body == b"ok"
            assert engine.connections == 3
            await one.aclose()

    uvloop.run(main())


def test_close_delimited_and_interim_answers() -> None:
    async def main() -> None:
        async with Engine(once(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", b"until the end")) as engine:
            answer = await _answer(engine.url)
            assert (answer.failure, answer.body) == (None, b"until the end")

    uvloop.run(main())


def test_many_tiny_pieces_count_with_what_they_cost() -> None:
    async def main() -> None:
        async with Engine(once(*stream(*[b"x"] * 200), pause=0.002)) as engine:
            assert (await _answer(engine.url, max_bytes=2_000)).failure == "too_large"
            answer = await _answer(engine.url, max_bytes=100_000)
            assert (answer.failure, answer.body) == (None, b"x" * 200)


def test_what_comes_in_one_read_is_one_piece() -> None:
    async def main() -> None:
        async with Engine(once(b"".join(stream(*[b"x"] * 200)))) as engine:
            answer = await _answer(engine.url, max_bytes=2_000)
            assert (answer.failure, answer.body) == (None, b"x" * 200)
            assert len(answer.pieces) < 10

    uvloop.run(main())


def test_a_cancelled_call_lets_its_connection_go() -> None:
    async def main() -> None:
        async with Engine(FAULTS["hang"]) as engine:
            one = client(engine.url)
            call = asyncio.ensure_future(one.send(CALL, deadline=50.0))
            async with asyncio.timeout(5):
                while not engine.received:  # noqa: ASYNC110 - the engine has no event for it
                    await asyncio.sleep(0.002)
                call.cancel()
                await asyncio.gather(call, return_exceptions=True)
                while engine.open:  # noqa: ASYNC110 - the engine has no event for it
                    await asyncio.sleep(0.002)
            assert call.cancelled()
            assert engine.open == 0
            await one.aclose()

    uvloop.run(main())


@pytest.mark.parametrize(("deadline", "unread"), [(0.3, 30.0), (30.0, 0.3)])
def test_a_peer_that_never_reads_is_told_when_it_is_left(
    deadline: float, unread: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would hold a connection that no longer counts, until it reads. It is left before the kernel leaves it in silence."""
    assert shadow_line._ALIVE[-1][2] / 1000 > shadow_line._UNREAD
    monkeypatch.setattr(shadow_line, "_UNREAD", unread)

    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            one = client(f"http://127.0.0.1:{listener.getsockname()[1]}")
            body = bytes(16 << 20)  # more than two kernels' buffers
            call = asyncio.ensure_future(one.send(CALL, deadline=deadline, raw_body=body))
            deaf, _ = await asyncio.to_thread(listener.accept)
            with deaf:
                assert (await call).failure == "timeout"
                poll = select.poll()
                poll.register(deaf, 0)
                [(_, events)] = await asyncio.to_thread(poll.poll, 10_000)
                assert events & select.POLLHUP
            await one.aclose()

    uvloop.run(main())


def test_a_call_that_has_ended_lets_the_next_one_on_its_connection_be() -> None:
    """The next call may take the line before the task of the last one has run again: it must not be broken off by it."""

    async def main() -> None:
        async def behave(connection: Connection) -> None:
            while True:
                await connection.request()
                await connection.send(reply(b"{}"))

        async with Engine(behave) as engine:
            one = client(engine.url, connections=4)

            async def often() -> list[str | None]:
                return [(await one.send(CALL, deadline=5.0)).failure for _ in range(50)]

            assert {failure for found in await asyncio.gather(*(often() for _ in range(8))) for failure in found} == {
                None
            }
            await one.aclose()

    uvloop.run(main())


def test_a_line_break_in_a_header_is_our_own_mistake() -> None:
    async def main() -> None:
        one = client("http://127.0.0.1:9")
        with pytest.raises(ValueError, match="line break"):
            await one.send(CALL, headers=(("X-A", "1\r\nX-B: 2"),), deadline=1.0)
        for code in {*range(0x20), 0x7F} - {0x09}:
            for call, headers in (
                (CALL, (("X-A", f"1{chr(code)}"),)),
                (CALL, ((f"X{chr(code)}", "1"),)),
                (Call(f"/v1{chr(code)}"), ()),
            ):
                with pytest.raises(ValueError, match="control character"):
                    await one.send(call, headers=headers, deadline=1.0)
        await one.aclose()

    uvloop.run(main())


def test_a_whole_mirrored_stream_arrives_without_its_framing() -> None:
    pieces = [b"data: %d\n\n" % number for number in range(200)]

    async def main() -> None:
        async with Engine(once(b"".join(stream(*pieces)))) as engine:
            answer = await _answer(engine.url)
            assert answer.body == b"".join(pieces)
            assert chunk(pieces[0]) not in answer.body

    uvloop.run(main())
