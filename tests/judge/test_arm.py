"""An arm: how long an engine may take for what."""

from __future__ import annotations

import asyncio
import time

import pytest
import uvloop

from engines.dialect import Answer, Call
from proxy.judge import arm
from proxy.judge.arm import Arm
from proxy.traffic.shadow_client import Client
from tests.faults import FAULTS
from tests.wire.engine import Engine


@pytest.mark.parametrize(
    ("call", "longest"),
    [(Call("/v1/models", method="GET"), 0.3), (Call("/v1/completions", {"prompt": "a"}), 1.5)],
    ids=["a question about the engine", "work"],
)
def test_a_question_about_the_engine_does_not_wait_as_long_as_work(
    call: Call, longest: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arm, "_LOOK", 0.3)

    async def main() -> None:
        async with Engine(FAULTS["hang"]) as engine:
            client = Client(engine.url, api_key=None, connections=1, connect_timeout=1.0, max_bytes=1000)
            one = Arm("a", client, 1.5, asyncio.Semaphore(1))
            began = time.monotonic()
            answer = await one.fetch("x")(call)
            assert answer.failure == "timeout"
            assert longest <= time.monotonic() - began + 0.05
            assert (time.monotonic() - began < 1.4) == (call.method == "GET")
            await client.aclose()

    uvloop.run(main())


@pytest.mark.parametrize(("status", "is_open"), [(501, False), (503, True), (404, False)])
def test_an_engine_that_says_it_cannot_do_one_thing_is_not_left_alone_for_all(status: int, is_open: bool) -> None:
    async def main() -> None:
        client = Client("http://127.0.0.1:9", api_key=None, connections=1, connect_timeout=1.0, max_bytes=1000)
        one = Arm("a", client, 1.0, asyncio.Semaphore(1))
        for _ in range(9):
            one._heard(Answer(status, (), ((0, b"{}"),)))
        assert one.guard.circuit_open is is_open
        await client.aclose()

    uvloop.run(main())
