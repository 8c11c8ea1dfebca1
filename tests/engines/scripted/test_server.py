"""The scripted engine over real sockets: faults, time, another script under way, keys."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest
from aiohttp import web

from engines.dialect import Answer, Call, Endpoint, Fetch
from engines.http_fetch import connect
from engines.registry import dialect
from engines.scripted.script import Script
from engines.scripted.server import SERVED, application
from proxy.compare.token_stream import Reply
from tests.engines.scripted.playing import request, script

CHAT = "/v1/chat/completions"


@asynccontextmanager
async def serving(played: Script, seconds: float = 10.0) -> AsyncIterator[tuple[Fetch, str]]:
    app = application(played, "vllm")
    runner = web.AppRunner(app, shutdown_timeout=0.2, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    app[SERVED].deaf = site.stop
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        async with connect(url, timeout=seconds) as fetch:
            yield fetch, url
    finally:
        await runner.cleanup()


def replies(
    played: Script, times: int = 1, *, stream: bool = True, seconds: float = 10.0
) -> list[tuple[Answer, Reply]]:
    async def run() -> list[tuple[Answer, Reply]]:
        body = request(Endpoint.CHAT, stream=stream)
        async with serving(played, seconds) as (fetch, _):
            answers = [await fetch(Call(CHAT, body)) for _ in range(times)]
        return [(one, dialect("vllm").read(Endpoint.CHAT, body, one)) for one in answers]

    return asyncio.run(run())


def errors(kind: str, requests: int = 1, *, stream: bool = True, **more: Any) -> list[str | None]:
    played = script(faults={"kind": kind, **more})
    return [reply.error for _, reply in replies(played, requests, stream=stream)]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("kind", "whole", "streamed"),
    [
        ("refuse", "reset", "reset"),
        ("reset", "reset", "reset"),
        ("status", "status_503", "status_503"),
        ("cut", "cut", "cut"),
        ("garbage", "not_json", "not_json"),
        ("error_event", "status_500", "stream_error"),
        ("empty", "no_choices", "no_choices"),
        ("no_done", None, None),
    ],
)
def test_each_fault_is_seen_as_what_it_is(kind: str, whole: str, streamed: str, stream: bool) -> None:
    (seen,) = errors(kind, stream=stream, status=503)
    assert seen == (streamed if stream else whole)


@pytest.mark.parametrize("kind", ["hang", "drip"])
def test_what_hangs_or_drips_is_not_whole_when_time_is_up(kind: str) -> None:
    ((answer, reply),) = replies(script(faults={"kind": kind}), seconds=1.5)
    assert reply.error in ("timeout", "cut")
    assert len(answer.body) <= 3


def test_a_stream_without_done_lacks_only_that() -> None:
    ((answer, reply),) = replies(script(faults={"kind": "no_done"}))
    assert b"[DONE]" not in answer.body
    assert reply.choices[0].count is None
    assert len(reply.choices[0].text) > 12


def test_a_cut_comes_after_so_many_events() -> None:
    ((answer, _),) = replies(script(faults={"kind": "cut", "at": 5}))
    assert answer.body.count(b"data: ") == 5


def test_refusing_begins_after_so_many_and_then_nobody_listens() -> None:
    assert errors("refuse", 4, after=2) == [None, None, "reset", "refused"]


def test_requests_that_come_at_once_when_it_begins_to_refuse_are_all_broken_off() -> None:
    async def run() -> list[str | None]:
        body = request(Endpoint.CHAT, stream=False)
        async with serving(script(faults={"kind": "refuse", "after": 0}, timing={"first": 0.2})) as (fetch, _):
            answers = await asyncio.gather(*(fetch(Call(CHAT, body)) for _ in range(4)))
        return [dialect("vllm").read(Endpoint.CHAT, body, one).error for one in answers]

    assert set(asyncio.run(run())) <= {"reset", "refused"}


def test_faults_end_after_so_many_times() -> None:
    assert errors("status", 4, after=1, times=2) == [None, "status_500", "status_500", None]


def test_faults_are_of_the_routes_they_name() -> None:
    async def run() -> list[int]:
        async with serving(script(faults={"kind": "status", "paths": ["/version"]})) as (fetch, _):
            calls = (Call("/version", method="GET"), Call(CHAT, request(Endpoint.CHAT)))
            return [(await fetch(call)).status for call in calls]

    assert asyncio.run(run()) == [500, 200]


def test_tokens_take_their_time() -> None:
    begun = time.monotonic()
    ((answer, _),) = replies(script(timing={"first": 0.1, "token": 0.02}))
    assert time.monotonic() - begun >= 0.1 + 12 * 0.02
    whole_begun = time.monotonic()
    replies(script(timing={"first": 0.1, "token": 0.02}), stream=False)
    assert time.monotonic() - whole_begun >= 0.1 + 12 * 0.02
    assert answer.pieces[-1][0] - answer.pieces[0][0] >= 12 * 20_000 * 0.8


def test_another_script_is_taken_while_it_runs_and_a_bad_one_is_not() -> None:
    async def run() -> tuple[list[int], list[Any], bytes]:
        body = request(Endpoint.CHAT)
        async with serving(Script()) as (fetch, _):
            before = await fetch(Call(CHAT, body))
            bad = await fetch(Call("/scripted/script", {"modell": "x"}, "PUT"))
            good = await fetch(Call("/scripted/script", {"faults": {"kind": "status", "status": 418}}, "PUT"))
            after = await fetch(Call(CHAT, body))
            seen = await fetch(Call("/scripted/requests", method="GET"))
        return [one.status for one in (before, bad, good, after)], [body], seen.body

    statuses, sent, seen = asyncio.run(run())
    assert statuses == [200, 400, 200, 418]
    assert [one["body"] for one in orjson.loads(seen)] == sent * 2


def test_a_key_is_wanted_where_the_script_says_so() -> None:
    async def run() -> list[int]:
        async with serving(script(api_key="sk-toy")) as (fetch, url):
            without = await fetch(Call("/v1/models", method="GET"))
            async with connect(url, api_key="sk-toy") as keyed:
                with_key = await keyed(Call("/v1/models", method="GET"))
        return [without.status, with_key.status]

    assert asyncio.run(run()) == [401, 200]
