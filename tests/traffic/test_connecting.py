"""A connection given up in the very turn of the loop in which it came up ends all the same, wherever one is made."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop

from engines.dialect import Call
from proxy.counters import Counters, Slot
from proxy.traffic import handoff, shadow_line
from proxy.traffic.connecting import connected
from proxy.traffic.handoff import Handoff
from proxy.traffic.primary_side import PrimarySide
from proxy.traffic.shadow_client import Client
from tests.wire.client import Wire, post
from tests.wire.engine import Engine, once, reply
from tests.wire.judge import judging
from tests.wire.proxied import proxied

LOOPS: list[Callable[[], asyncio.AbstractEventLoop]] = [uvloop.new_event_loop, asyncio.new_event_loop]


class Told(asyncio.Protocol):
    """Gives itself up as soon as it is told of its connection."""

    def __init__(self) -> None:
        self.made, self.lost = 0, 0
        self.task: asyncio.Task[Told] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.made += 1
        if self.task is not None:
            asyncio.get_running_loop().call_soon(self.task.cancel)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost += 1


@pytest.mark.parametrize("new_loop", LOOPS)
def test_a_connection_that_is_cancelled_as_it_comes_up_is_lost(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def main() -> None:
        loop, protocol = asyncio.get_running_loop(), Told()
        server = await loop.create_server(Told, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        protocol.task = loop.create_task(
            connected(protocol, loop.create_connection(lambda: protocol, "127.0.0.1", port))
        )
        try:
            with pytest.raises(asyncio.CancelledError):
                await protocol.task
        finally:
            server.close()
        assert protocol.made == 1
        assert protocol.lost >= 1

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())


def cancelling(cls: type[asyncio.Protocol], monkeypatch: pytest.MonkeyPatch, cancel: Callable[[], object]) -> None:
    """Have the next connection of a class given up right after it was told of."""
    made = cls.connection_made

    def connection_made(self: asyncio.Protocol, transport: asyncio.BaseTransport) -> None:
        made(self, transport)
        asyncio.get_running_loop().call_soon(cancel)

    monkeypatch.setattr(cls, "connection_made", connection_made)


def test_a_client_that_leaves_as_the_primary_is_reached_leaves_nothing_to_wait_for(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with Engine(once(reply(b"{}"))) as engine, asyncio.timeout(20), proxied(engine.url, state) as proxy:
            async with Wire(proxy.address) as wire:
                cancelling(
                    PrimarySide,
                    monkeypatch,
                    lambda: [task.cancel() for task in asyncio.all_tasks() if "Pool._connect" in repr(task.get_coro())],
                )
                await wire.send(post(b"{}"))
                await proxy.until(Slot.CLIENT_CONNECTIONS, 1)
                await asyncio.sleep(0.2)
            await proxy.until(Slot.CLIENT_CONNECTIONS, 0)

    uvloop.run(main())


def test_a_call_that_is_cancelled_as_the_shadow_is_reached_leaves_nothing_to_wait_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        async with Engine(once(reply(b"{}"))) as engine, asyncio.timeout(20):
            client = Client(engine.url, api_key=None, connections=1, connect_timeout=5, max_bytes=1 << 20)
            call = asyncio.get_running_loop().create_task(client.send(Call("/x", None, "GET"), deadline=10))
            cancelling(shadow_line.Line, monkeypatch, call.cancel)
            with pytest.raises(asyncio.CancelledError):
                await call
            await client.aclose()

    uvloop.run(main())


def test_a_hand_over_that_ends_as_the_judge_is_reached_leaves_nothing_to_wait_for(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        counters = Counters.create(state / "t.bin")
        loop = asyncio.get_running_loop()
        async with judging(state), asyncio.timeout(20):
            line = Handoff(loop, str(state / "judge.sock"), "t", counters, 1 << 20)
            line.tick(loop.time())
            connecting = line._connecting
            assert connecting is not None
            cancelling(handoff._Line, monkeypatch, connecting.cancel)
            await asyncio.gather(connecting, return_exceptions=True)
            await line.close(0.1)
        counters.close()

    uvloop.run(main())
