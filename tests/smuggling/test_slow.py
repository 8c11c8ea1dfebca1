"""Twelve hundred connections that send next to nothing: each is closed by its deadline, and every good request is answered meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
import uvloop

from proxy.config import Timeouts
from proxy.counters import Slot
from tests.figures import Figure
from tests.wire.client import Wire, ask, parse, post
from tests.wire.engine import Engine, always, reply
from tests.wire.proxied import Proxy, proxied

pytestmark = pytest.mark.slow

CONNECTIONS = 1200
HEAD, IDLE = 2.0, 3.0  # seconds; 10 and 300 by default
ROUND = 1.0  # connections are looked at once a second
SLACK = 2.0  # beside what the machine keeps this process waiting
SECONDS = 60.0  # for what must come, whatever else the machine does
LINE = b"POST /v1/completions HTTP/1.1\r\nHost: h\r\n"
BODY = LINE + b"Content-Length: 1000\r\n\r\n"
CHUNKED = LINE + b"Transfer-Encoding: chunked\r\n\r\n"


@dataclass(frozen=True)
class Attack:
    """What is sent at once, and what goes on being sent, a byte every ``pause`` seconds (None: nothing)."""

    name: str
    first: bytes
    trickle: bytes = b""
    pause: float = 0.5
    limit: float = HEAD


ATTACKS = (
    Attack("silence", b""),
    Attack("half a line", b"GET /v1/mod"),
    Attack("a trickling line", b"G", b"ET /" + b"a" * 1000),
    Attack("trickling fields", LINE, b"X: " + b"y" * 1000),
    Attack("fields one by one", LINE, b"X: y\r\n" * 200, 0.25),
    Attack("blank lines", b"\r\n", b"\r\n" * 500),
    Attack("no body", BODY, limit=IDLE),
    Attack("half a body", BODY + b"x" * 500, limit=IDLE),
    Attack("half a chunk", CHUNKED + b"100\r\nabc", limit=IDLE),
    Attack("no last chunk", CHUNKED + b"3\r\nabc\r\n", limit=IDLE),
    Attack("a trickling body", BODY, b"x" * 900, limit=IDLE),
    Attack("trickling chunks", CHUNKED, b"1\r\na\r\n" * 200, limit=IDLE),
)


@pytest.fixture(autouse=True)
def descriptors() -> None:
    """Room for both ends of all connections, and for those to the engine, in this one process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4 * CONNECTIONS + 500
    if soft < wanted:
        assert hard == resource.RLIM_INFINITY or hard >= wanted, (
            f"ulimit -n allows {hard} descriptors, {wanted} are needed"
        )
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def attack(proxy: Proxy, how: Attack) -> float:
    """One connection; how long it was let live, in seconds."""
    async with Wire(proxy.address) as wire:
        clock = asyncio.get_running_loop().time
        began = clock()
        await wire.send(how.first)
        reading = asyncio.ensure_future(wire.rest())
        for place in range(len(how.trickle)):
            await asyncio.sleep(how.pause)
            if reading.done():
                break
            with contextlib.suppress(ConnectionError):
                await wire.send(how.trickle[place : place + 1])
        async with asyncio.timeout(SECONDS):
            said = await reading
        assert said == b"" or parse(said).status == 408, (how.name, said)
        return clock() - began


def test_more_than_a_thousand_slow_connections_are_closed_and_good_requests_answered(
    state: Path, figure: Figure
) -> None:
    lived: dict[str, list[float]] = {how.name: [] for how in ATTACKS}
    good = 0
    late = 0.0

    async def main() -> None:
        nonlocal good, late
        timeouts = Timeouts(head=HEAD, connect=SECONDS, idle=IDLE)
        async with Engine(always(reply(b"good"))) as engine, proxied(engine.url, state, timeouts=timeouts) as proxy:

            async def watch() -> None:
                nonlocal late
                while True:
                    before = time.monotonic()
                    await asyncio.sleep(0.1)
                    late += time.monotonic() - before - 0.1

            async def one(how: Attack) -> None:
                lived[how.name].append(await attack(proxy, how))

            attacks = [asyncio.ensure_future(one(ATTACKS[number % len(ATTACKS)])) for number in range(CONNECTIONS)]
            attacking = asyncio.gather(*attacks)
            watching = asyncio.ensure_future(watch())
            while not attacking.done():
                async with asyncio.timeout(SECONDS):
                    assert parse(await ask(proxy.address, post(b"{}"))).body == b"good"
                good += 1
            await attacking
            watching.cancel()
            await proxy.until(Slot.CLIENT_CONNECTIONS, 0)
            assert proxy.balanced()

    uvloop.run(main())
    figure("row 10", f"{CONNECTIONS} slow connections: {good} of {good} good requests answered meanwhile; the loop was {late:.1f} s behind in all")  # fmt: skip
    for how in ATTACKS:
        assert len(lived[how.name]) == CONNECTIONS // len(ATTACKS)
        figure(
            "row 10",
            f"{how.name}: limit {how.limit} s, closed after {min(lived[how.name]):.1f} to {max(lived[how.name]):.1f} s",
        )
        assert how.limit - ROUND - late <= min(lived[how.name]), how.name
        assert max(lived[how.name]) <= how.limit + ROUND + SLACK + late, how.name
    assert good > 5


def test_a_slow_body_that_goes_on_is_not_cut(state: Path) -> None:
    """500 bytes a second are enough, however long it takes; beside them silence may last as long as the idle time."""

    async def main() -> None:
        timeouts = Timeouts(head=1.0, connect=2.0, idle=2.0)
        async with Engine(always(reply(b"good"))) as engine, proxied(engine.url, state, timeouts=timeouts) as proxy:
            async with Wire(proxy.address) as wire:
                await wire.send(LINE + b"Connection: close\r\nContent-Length: 3000\r\n\r\n")
                await wire.send(*(b"x" * 300 for _ in range(10)), pause=0.4)
                async with asyncio.timeout(SECONDS):
                    assert parse(await wire.rest()).body == b"good"
            assert engine.requests[0].body == b"x" * 3000

    uvloop.run(main())
