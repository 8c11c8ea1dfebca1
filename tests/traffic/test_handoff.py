"""Capture and hand-over: what the judge gets, and that every sampled exchange is counted in one place whatever the judge does."""

from __future__ import annotations

import asyncio
import gzip
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import uvloop

from proxy.config import Limits, Match, Rule, Sampling
from proxy.counters import Counters, Receipt, Slot
from proxy.exchange import Ended
from tests.wire.client import ask, get, post
from tests.wire.engine import STREAM, Connection, Engine, always, chunk, reply, stream
from tests.wire.judge import judging
from tests.wire.proxied import Proxy, proxied


def test_an_exchange_is_what_passed(state: Path) -> None:
    pieces = [b'data: {"a":1}\n\n', b"data: caf\xc3", b"\xa9\n\n"]
    fields = (
        "Authorization: Bearer sk-canary\r\nCookie: sk-canary\r\nX-Api-Key: sk-canary\r\nUser-Agent: test/1\r\nX-User: sk-canary\r\n"
        "Accept-Encoding: gzip\r\nTraceparent: 00-1-2-01\r\n"
    )

    async def main() -> None:
        async with (
            judging(state) as judge,
            Engine(always(*stream(*pieces), pause=0.01)) as engine,
            proxied(engine.url, state, sampling=Sampling(rate=1.0, by="header:x-user", salt="s")) as proxy,
        ):
            await ask(
                proxy.address,
                post(b'{"m":1}', "/v1/chat/completions?api_key=sk-canary&api-version=2", fields=fields),
            )
            [exchange] = await judge.until(1)
            assert exchange.incarnation == proxy.incarnation
            assert exchange.request_whole
            assert exchange.id == f"{proxy.incarnation}-1"
            assert (exchange.method, exchange.target) == ("POST", "/v1/chat/completions")
            assert exchange.request_body == b'{"m":1}'
            headers = dict(exchange.request_headers)
            assert set(headers) == {
                b"content-type",
                b"user-agent",
                b"accept-encoding",
                b"traceparent",
                b"x-parhelion-key",
            }
            assert b"sk-canary" not in b"".join(headers.values())
            assert (exchange.status, exchange.ended, exchange.injected, exchange.offered) == (
                200,
                Ended.COMPLETE,
                False,
                False,
            )
            assert exchange.response_headers == ((b"content-type", b"text/event-stream"),)
            assert [piece for _, piece in exchange.pieces] == pieces
            times = [exchange.head_us, *(micros for micros, _ in exchange.pieces), exchange.end_us]
            assert times == sorted(times)
            assert exchange.pieces[1][0] - exchange.pieces[0][0] > 5000
            assert exchange.u is not None
            assert 0 <= exchange.u < 1
            [hello] = judge.hellos
            assert (hello.incarnation, hello.handed_over_before) == (proxy.incarnation, 0)
            assert proxy.balanced()

    uvloop.run(main())


def test_an_encoded_reply_is_captured_as_it_came(state: Path) -> None:
    body = gzip.compress(b'{"a": 1}')
    raw = reply(body, fields=b"Content-Type: application/json\r\nContent-Encoding: gzip\r\nSet-Cookie: sk-canary\r\n")

    async def main() -> None:
        async with judging(state) as judge, Engine(always(raw)) as engine, proxied(engine.url, state) as proxy:
            await ask(proxy.address, post(b"{}"))
            [exchange] = await judge.until(1)
            assert exchange.response_headers == ((b"content-type", b"application/json"), (b"content-encoding", b"gzip"))
            assert b"".join(piece for _, piece in exchange.pieces) == body

    uvloop.run(main())


def test_the_body_of_an_error_is_not_kept(state: Path) -> None:
    raw = reply(b'{"error":{"message":"Incorrect API key provided: sk-canary"}}', status="401 Unauthorized")

    async def main() -> None:
        async with judging(state) as judge, Engine(always(raw)) as engine, proxied(engine.url, state) as proxy:
            assert (await ask(proxy.address, post(b"{}"))).endswith(b'sk-canary"}}')
            [exchange] = await judge.until(1)
            assert (exchange.status, exchange.pieces, exchange.ended) == (401, (), Ended.COMPLETE)

    uvloop.run(main())


def test_only_inference_posts_are_eligible_and_clients_can_opt_out(state: Path) -> None:
    async def main() -> None:
        async with judging(state) as judge, Engine(always(reply(b"ok"))) as engine, proxied(engine.url, state) as proxy:
            for request in (
                get("/v1/chat/completions"),
                post(b"{}", "/v1/models"),
                post(b"{}", "/tokenize"),
                post(b"{}", "/v1/chat%2Fcompletions"),
                post(b"{}", fields="X-Parhelion: skip\r\n"),
                post(b"{}", fields="X-Parhelion: other\r\n"),
                post(b"{}", "/v1/embeddings"),
            ):
                await ask(proxy.address, request)
            exchanges = await judge.until(2)
            assert [exchange.target for exchange in exchanges] == ["/v1/chat/completions", "/v1/embeddings"]
            assert [proxy[slot] for slot in (Slot.RECEIVED, Slot.NOT_SAMPLED, Slot.SAMPLED, Slot.OPTED_OUT)] == [
                7,
                5,
                2,
                1,
            ]
            assert all(request.value(b"x-parhelion") is None for request in engine.requests)

    uvloop.run(main())


def test_a_rule_that_needs_the_body_is_offered(state: Path) -> None:
    sampling = Sampling(rate=0.0, rules=(Rule(Match(model="a*"), 1.0),), salt="s")

    async def main() -> None:
        async with judging(state) as judge, Engine(always(reply(b"ok"))) as engine:
            async with proxied(engine.url, state, sampling=sampling) as proxy:
                await ask(proxy.address, post(b"{}"))
                [exchange] = await judge.until(1)
                assert exchange.offered
                assert (proxy[Slot.OFFERED], proxy[Slot.SAMPLED], proxy[Slot.HANDED_OVER]) == (1, 0, 1)
            async with proxied(engine.url, state, sampling=Sampling(rate=0.5, by="conversation", salt="s")) as proxy:
                await ask(proxy.address, post(b"{}"))
                exchange = (await judge.until(2))[1]
                assert (exchange.offered, exchange.u) == (True, None)

    uvloop.run(main())


@pytest.mark.parametrize("where", ["request", "reply", "many small pieces"])
def test_a_capture_over_the_limit_is_shed_at_once_and_the_client_sees_nothing_of_it(where: str, state: Path) -> None:
    body = b"x" * 5000 if where == "request" else b"{}"
    answer = {"request": [b"ok"], "reply": [b"y" * 5000], "many small pieces": [b"z"] * 60}[where]

    async def main() -> None:
        async with judging(state) as judge, Engine(always(*stream(*answer), pause=0.002)) as engine:
            async with proxied(engine.url, state, limits=Limits(capture_bytes=2048)) as proxy:
                raw = await ask(proxy.address, post(body))
                assert raw.endswith(b"".join(map(chunk, answer)) + b"0\r\n\r\n")
                assert (proxy[Slot.SHED_CAPTURE], proxy[Slot.OPEN_SAMPLED], proxy[Slot.HANDED_OVER]) == (1, 0, 0)
                assert proxy.balanced()
            assert not judge.exchanges

    uvloop.run(main())


def test_open_captures_count_against_the_queue(state: Path) -> None:
    """Bodies of many open exchanges must not hold more than what waits for the judge may."""

    async def main() -> None:
        async def behave(connection: Connection) -> None:
            await connection.request()
            await connection.send(STREAM, chunk(b"y" * 40_000))
            await connection.read_raw()

        async with Engine(behave) as engine, proxied(engine.url, state, limits=Limits(queue_bytes=100_000)) as proxy:
            calls = [asyncio.ensure_future(ask(proxy.address, post(b"{}"))) for _ in range(5)]
            await proxy.until(Slot.SHED_QUEUE, 3)
            assert proxy[Slot.OPEN_SAMPLED] == 2
            assert proxy.balanced()
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)

    uvloop.run(main())


async def _requests(proxy: Proxy, count: int, body: bytes = b"{}") -> None:
    async with asyncio.TaskGroup() as group:
        for _ in range(count):
            group.create_task(ask(proxy.address, post(body)))


def test_a_judge_that_began_to_listen_between_two_tries_gets_what_waits_at_the_end(state: Path) -> None:
    async def main() -> None:
        async with AsyncExitStack() as last, Engine(always(reply(b"r"))) as engine:
            async with proxied(engine.url, state) as proxy:
                await asyncio.sleep(2.0)  # by now it tries once a second
                await _requests(proxy, 3)
                judge = await last.enter_async_context(judging(state))
            assert len(judge.exchanges) == 3

    uvloop.run(main())


def test_without_a_judge_what_waits_is_bounded_and_goes_when_one_comes(state: Path) -> None:
    async def main() -> None:
        limits = Limits(queue_bytes=20_000)
        async with Engine(always(reply(b"r" * 1000))) as engine, proxied(engine.url, state, limits=limits) as proxy:
            await _requests(proxy, 30, b"q" * 1000)
            waiting = proxy[Slot.QUEUED]
            assert 5 < waiting < 12
            assert 0 < proxy[Slot.QUEUED_BYTES] <= 20_000
            assert proxy[Slot.SHED_QUEUE] + waiting == 30
            assert proxy.balanced()
            async with judging(state) as judge:
                assert len({exchange.id for exchange in await judge.until(waiting)}) == waiting
                await proxy.until(Slot.QUEUED_BYTES, 0)
                assert (proxy[Slot.HANDED_OVER], proxy[Slot.QUEUED]) == (waiting, 0)
                assert proxy.balanced()

    uvloop.run(main())


def test_what_the_judge_holds_takes_the_room_of_what_waits_until_it_is_gone(state: Path) -> None:
    async def main() -> None:
        limits = Limits(queue_bytes=20_000)
        async with Engine(always(reply(b"r" * 1000))) as engine, proxied(engine.url, state, limits=limits) as proxy:
            async with judging(state) as judge:
                await _requests(proxy, 1)
                await judge.until(1)
                held = Receipt(state / "counters" / f"{proxy.incarnation}.bin")
                held.holding(19_000)
                await _requests(proxy, 5, b"q" * 1000)
                assert (proxy[Slot.SHED_QUEUE], proxy[Slot.HANDED_OVER]) == (5, 1)
                held.holding(0)
                await _requests(proxy, 5, b"q" * 1000)
                await judge.until(6)
                held.holding(19_000)
                held.close()
            await proxy.until(Slot.JUDGE_BYTES, 0)  # with the judge, what it held is gone
            await _requests(proxy, 5, b"q" * 1000)
            assert (proxy[Slot.SHED_QUEUE], proxy[Slot.QUEUED]) == (5, 5)
            assert proxy.balanced()

    uvloop.run(main())


def test_a_judge_that_never_reads_costs_no_client_anything(state: Path) -> None:
    async def main() -> None:
        limits = Limits(queue_bytes=2_000_000)
        async with judging(state, reads=False) as judge, Engine(always(reply(b"r" * 50_000))) as engine:
            async with proxied(engine.url, state, limits=limits) as proxy:
                async with asyncio.timeout(20):
                    for _ in range(10):
                        await _requests(proxy, 20)
                assert proxy[Slot.SHED_QUEUE] > 0
                handed = proxy[Slot.HANDED_OVER]
                # What it was given is held until it says that it has it, and is among what the limit bounds.
                assert (proxy[Slot.QUEUED] + handed) * 50_000 < proxy[Slot.QUEUED_BYTES] <= 2_000_000
                # What has left: the kernel's two socket buffers, and at most 1 MiB in the transport.
                assert 0 < handed * 50_000 < 3_000_000
                assert proxy.balanced()
            after = Counters.attach(state / "counters" / f"{proxy.incarnation}.bin")
            assert (after[Slot.QUEUED], after[Slot.QUEUED_BYTES], after[Slot.HANDED_OVER]) == (0, 0, handed)
            assert after[Slot.SHED_QUEUE] == 200 - handed
            after.close()
            assert len(judge.writers) == 1

    uvloop.run(main())


@pytest.mark.parametrize("reads", [True, False])
def test_what_a_killed_judge_had_not_acknowledged_goes_to_the_next_one_in_order(reads: bool, state: Path) -> None:
    async def main() -> None:
        async with Engine(always(reply(b"r" * 100_000))) as engine, proxied(engine.url, state) as proxy:
            async with judging(state, reads=reads, acknowledges=False) as killed:
                await _requests(proxy, 20)
                async with asyncio.timeout(5):
                    while not killed.writers or not proxy[Slot.HANDED_OVER]:  # noqa: ASYNC110 - shared memory sends no event
                        await asyncio.sleep(0.002)
            assert proxy.balanced()
            async with judging(state) as judge:
                ids = [one.id for one in await judge.until(20)]
                assert len(set(ids)) == 20
                assert ids[: len(killed.exchanges)] == [one.id for one in killed.exchanges]
                await proxy.until(Slot.QUEUED, 0)
                assert [hello.handed_over_before for hello in judge.hellos] == [0]
                assert (proxy[Slot.HANDED_OVER], proxy[Slot.ACKNOWLEDGED], proxy[Slot.SHED_QUEUE]) == (20, 20, 0)
                assert proxy.balanced()

    uvloop.run(main())


def test_what_was_acknowledged_is_let_go_and_not_sent_again(state: Path) -> None:
    async def main() -> None:
        limits = Limits(queue_bytes=1_000_000)
        async with Engine(always(reply(b"r" * 100_000))) as engine, proxied(engine.url, state, limits=limits) as proxy:
            for round_ in range(1, 4):
                async with judging(state) as judge:
                    await _requests(proxy, 5)
                    await judge.until(5)
                    assert [hello.handed_over_before for hello in judge.hellos] == [5 * (round_ - 1)]
            assert (proxy[Slot.HANDED_OVER], proxy[Slot.SHED_QUEUE]) == (15, 0)  # 1.5 MB in all, through room for one

    uvloop.run(main())


def test_a_frame_larger_than_any_buffer_goes_in_slices(state: Path) -> None:
    body = bytes(range(256)) * 16384

    async def main() -> None:
        async with judging(state) as judge, Engine(always(reply(body))) as engine, proxied(engine.url, state) as proxy:
            await ask(proxy.address, post(body[: 1 << 20]))
            [exchange] = await judge.until(1)
            assert b"".join(piece for _, piece in exchange.pieces) == body
            assert exchange.request_body == body[: 1 << 20]

    uvloop.run(main())


def test_without_shadows_nothing_is_sampled(state: Path) -> None:
    async def main() -> None:
        async with Engine(always(reply(b"ok"))) as engine, proxied(engine.url, state, shadows=()) as proxy:
            await ask(proxy.address, post(b"{}"))
            assert (proxy[Slot.RECEIVED], proxy[Slot.NOT_SAMPLED]) == (1, 1)

    uvloop.run(main())


def test_a_hung_judge_is_left_for_a_new_one(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.traffic.handoff._HUNG", 0.2)

    async def main() -> None:
        hung, answer = judging(state, reads=False), always(reply(b"r" * 200_000))
        async with hung, Engine(answer) as engine, proxied(engine.url, state) as proxy:
            await _requests(proxy, 20)
            await asyncio.sleep(0.05)
            handed = proxy[Slot.HANDED_OVER]
            assert 0 < handed < 20
            async with judging(state) as fresh:
                await fresh.until(20)
                assert fresh.hellos[0].handed_over_before == 0
                assert proxy.balanced()

    uvloop.run(main())
