"""Row 8: a client that leaves, before the first byte, in a stream or while it sends: the primary's call ends within a second and nothing is left behind."""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop

from proxy.counters import Slot
from proxy.demo.proxy_process import ProxyProcess
from tests.isolation.load import address_of, quantile
from tests.isolation.stage import Metrics, Processes, connections
from tests.running import parhelion, until
from tests.wire.client import post
from tests.wire.engine import STREAM, Connection, Engine, Gone, chunk
from tests.wire.proxied import proxied

CLIENTS, AT_ONCE = 300, 50
EVENT = chunk(b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n')
#: What a client has sent and awaits when it leaves.
REQUESTS = {
    "before the first byte": (post(b"{}"), b""),
    "in a stream": (post(b'{"stream":true}'), b"data: "),
    "while it sends": (post(b"x" * 200_000)[:100_000], b""),
}
RESET = struct.pack("ii", 1, 0)


class Leaving:
    """Clients that leave, and an engine that notes how long after it hears of it."""

    def __init__(self, when: str) -> None:
        self.when = when
        self.left: asyncio.Queue[float] = asyncio.Queue()
        self.heard: list[float] = []
        self.began = asyncio.Semaphore(0)

    async def engine(self, connection: Connection) -> None:
        """Read as far as the client has sent, then wait for the end."""
        try:
            await connection.head() if self.when == "while it sends" else await connection.request()
            if self.when == "in a stream":
                await connection.send(STREAM, EVENT)
            self.began.release()
            if self.when == "while it sends":
                while await connection.read_raw():
                    pass
                raise Gone
            await asyncio.gather(
                self._ends(connection), *([self._goes_on(connection)] if self.when == "in a stream" else [])
            )
        except (Gone, ConnectionError):
            self.heard.append(time.monotonic())
            raise

    async def _ends(self, connection: Connection) -> None:
        if not await connection.read_raw():
            raise Gone

    async def _goes_on(self, connection: Connection) -> None:
        while True:
            await connection.send(EVENT, pause=0.01)

    async def client(self, address: tuple[str, int], number: int) -> float:
        """Come, and leave; every second one by a reset. Returns when it left."""
        request, awaited = REQUESTS[self.when]
        reader, writer = await asyncio.open_connection(*address)
        writer.write(request)
        if awaited:
            await reader.readuntil(awaited)
        await self.began.acquire()
        if number % 2:
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        writer.transport.abort()
        return time.monotonic()

    async def run(self, address: tuple[str, int]) -> tuple[float, float]:
        """All clients, some at once; seconds until the engine had heard of every one of a group: median and longest."""
        waits: list[float] = []
        for first in range(0, CLIENTS, AT_ONCE):
            self.heard.clear()
            left = max(await asyncio.gather(*(self.client(address, first + number) for number in range(AT_ONCE))))
            async with asyncio.timeout(10):
                while len(self.heard) < AT_ONCE:  # noqa: ASYNC110 - the engine sends no event
                    await asyncio.sleep(0.002)
            waits.append(max(0.0, max(self.heard) - left))
        return quantile(waits, 0.5), max(waits)


@pytest.mark.slow
@pytest.mark.parametrize("when", REQUESTS)
def test_the_primary_hears_of_it_within_a_second(when: str, tmp_path: Path, figure: Callable[[str, str], None]) -> None:
    async def main() -> None:
        leaving = Leaving(when)
        async with Engine(leaving.engine) as engine:

            def around(work: Callable[[ProxyProcess], tuple[float, float]]) -> None:
                with parhelion(
                    tmp_path,
                    engine.url,
                    [{"name": "cand", "url": "http://127.0.0.1:9"}],
                    primary={"url": engine.url, "engine": "openai"},
                ) as proxy:
                    _see(proxy, when, work, figure)

            loop = asyncio.get_running_loop()
            await asyncio.to_thread(
                around,
                lambda proxy: asyncio.run_coroutine_threadsafe(leaving.run(address_of(proxy.clients)), loop).result(60),
            )

    uvloop.run(main())


def _see(
    proxy: ProxyProcess,
    when: str,
    work: Callable[[ProxyProcess], tuple[float, float]],
    figure: Callable[[str, str], None],
) -> None:
    traffic = Processes(proxy).pid("traffic")
    socket.create_connection(
        address_of(proxy.clients)
    ).close()  # with its first connection libuv opens a descriptor to spare
    time.sleep(0.5)
    until(lambda: Metrics(proxy).sum("client_connections") == 0)
    before = connections(traffic)
    median, longest = work(proxy)
    until(lambda: connections(traffic) <= before, 10, f"{before} sockets as before")
    seen = Metrics(proxy)
    figure(
        "row 8",
        f"{when}: {CLIENTS} clients, the primary heard within {1e3 * median:.0f} ms (median), {1e3 * longest:.0f} ms (longest); "
        f"{before} sockets before, {connections(traffic)} after",
    )
    assert longest <= 1.0
    assert seen.sum("client_disconnects_total") == CLIENTS
    assert (seen.sum("open_streams"), seen.sum("client_connections")) == (0, 0)


@pytest.mark.parametrize("when", REQUESTS)
def test_no_task_is_left(when: str, tmp_path: Path) -> None:
    async def main() -> None:
        leaving = Leaving(when)
        async with Engine(leaving.engine) as engine, proxied(engine.url, tmp_path) as proxy:
            await asyncio.sleep(0.1)
            before = len(asyncio.all_tasks())
            await leaving.run(proxy.address)
            await proxy.until(Slot.CLIENT_CONNECTIONS, 0)
            async with asyncio.timeout(10):
                while len(asyncio.all_tasks()) > before:  # noqa: ASYNC110 - tasks end without an event
                    await asyncio.sleep(0.01)
            assert proxy.balanced()

    uvloop.run(main())
