"""Many exchanges at once, half of them going wrong in some way: the counters stay exact and nothing is left behind."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random
from pathlib import Path

import pytest
import uvloop

from proxy.config import Limits, Timeouts
from proxy.counters import Slot
from proxy.traffic.client_side import ClientSide
from proxy.traffic.relay import Relay
from tests.faults import FAULTS
from tests.wire.client import ask, get, post
from tests.wire.engine import Connection, Engine, always, reply, stream
from tests.wire.judge import judging
from tests.wire.proxied import Proxy, proxied


@pytest.mark.parametrize(
    "rounds",
    [pytest.param(4, marks=pytest.mark.slow), pytest.param(100, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])],
)
def test_faults_of_every_kind_leave_nothing_behind(rounds: int, state: Path) -> None:
    chance = random.Random(20261130)

    async def behave(connection: Connection) -> None:
        kind = chance.random()
        if kind < 0.5:
            await always(*stream(b"a" * chance.randint(1, 3000), b"b"))(connection)
        elif kind < 0.7:
            await always(reply(b"x" * chance.randint(0, 100_000)))(connection)
        else:
            await FAULTS[chance.choice(sorted(FAULTS))](connection)

    async def one(proxy: Proxy) -> None:
        request = post(b"q" * chance.randint(0, 20_000)) if chance.random() < 0.7 else get("/x")
        if chance.random() < 0.1:
            request = request[: chance.randint(1, len(request))]
        with contextlib.suppress(TimeoutError, OSError):
            async with asyncio.timeout(chance.choice([0.01, 0.1, 3.0, 3.0])):
                await ask(proxy.address, request)

    async def main() -> None:
        timeouts, limits = (
            Timeouts(head=0.5, connect=1.0, idle=0.6),
            Limits(queue_bytes=3_000_000, capture_bytes=200_000),
        )
        async with judging(state) as judge, Engine(behave) as engine:
            async with proxied(engine.url, state, timeouts=timeouts, limits=limits) as proxy:
                for _ in range(rounds):
                    async with asyncio.TaskGroup() as group:
                        for _ in range(75):
                            group.create_task(one(proxy))
                    assert proxy.balanced()
                await proxy.until(Slot.CLIENT_CONNECTIONS, 0)
                await proxy.until(Slot.QUEUED, 0)
                assert (proxy[Slot.OPEN_SAMPLED], proxy[Slot.OPEN_STREAMS]) == (0, 0)
                assert proxy.balanced()
                answered = sum(count for _, _, count in proxy.counters.requests())
                assert answered == proxy[Slot.RECEIVED]
                assert len(await judge.until(proxy[Slot.HANDED_OVER])) == proxy[Slot.HANDED_OVER]
                gc.collect()
                assert not [thing for thing in gc.get_objects() if isinstance(thing, Relay | ClientSide)]
            assert not engine.errors

    uvloop.run(main())
