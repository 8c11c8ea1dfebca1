"""SIGTERM with two hundred streams open: none is cut, nobody new is sent here, and everything is counted."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

import orjson
import pytest

from proxy.demo.proxy_process import ProxyProcess
from tests.figures import Figure
from tests.running import parhelion, post, toy
from tests.whole import CHAT, law, settle, shadows
from tests.wire.client import parse

STREAMS = 200
BODY = orjson.dumps(CHAT | {"stream": True, "max_tokens": 10})


def request(*, close: bool = False) -> bytes:
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: proxy\r\nContent-Type: application/json\r\n"
    return head + b"Connection: close\r\n" * close + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY


class Reader:
    """One client with an open stream."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.received = bytearray()

    async def until_begun(self) -> None:
        while b"data: " not in self.received:
            piece = await self.reader.read(1 << 16)
            assert piece, bytes(self.received)
            self.received += piece

    async def to_the_end(self) -> bytes:
        """The body, once the server has closed; a reset raises."""
        while piece := await self.reader.read(1 << 16):
            self.received += piece
        self.writer.close()
        return parse(bytes(self.received)).body


async def connect(proxy: ProxyProcess) -> Reader:
    parts = urlsplit(proxy.clients)
    return Reader(*await asyncio.open_connection(parts.hostname, parts.port))


async def opened(proxy: ProxyProcess) -> Reader:
    client = await connect(proxy)
    client.writer.write(request())
    await client.until_begun()
    return client


def readiness(proxy: ProxyProcess) -> int:
    try:
        with urllib.request.urlopen(f"{proxy.admin}/readyz", timeout=5) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


async def latecomer(proxy: ProxyProcess) -> str:
    """What becomes of a client that comes when it is stopping."""
    try:
        client = await connect(proxy)
        client.writer.write(request(close=True))
        return "answered" if (await client.to_the_end()).endswith(b"data: [DONE]\n\n") else "cut"
    except ConnectionRefusedError:
        return "refused"
    except ConnectionError:
        return "reset"  # connected, and never accepted


async def latecomers(proxy: ProxyProcess, count: int) -> Counter[str]:
    coming = []
    for _ in range(count):
        coming.append(asyncio.ensure_future(latecomer(proxy)))
        await asyncio.sleep(0.02)
    return Counter(await asyncio.gather(*coming))


@pytest.mark.slow
def test_two_hundred_open_streams_end_whole_when_it_is_stopped(tmp_path: Path, figure: Figure) -> None:
    async def main(proxy: ProxyProcess, whole: bytes) -> tuple[int, float, float, Counter[str]]:
        async with asyncio.timeout(120):
            assert await asyncio.to_thread(readiness, proxy) == 200
            idle = [await connect(proxy) for _ in range(20)]
            streams = await asyncio.gather(*(opened(proxy) for _ in range(STREAMS)))
            reading = [asyncio.ensure_future(one.to_the_end()) for one in streams]
            await asyncio.sleep(0.2)
            began = time.monotonic()
            proxy._process.send_signal(signal.SIGTERM)
            late = asyncio.ensure_future(latecomers(proxy, 50))
            while await asyncio.to_thread(readiness, proxy) != 503:
                assert time.monotonic() - began < 5.0
            unready = time.monotonic() - began
            for client in idle:
                assert await client.reader.read() == b""  # closed, not reset
                client.writer.close()
            bodies = await asyncio.gather(*reading)
            took = time.monotonic() - began
            status = await asyncio.to_thread(proxy._process.wait, 60)
            assert status == 0
            return sum(body != whole for body in bodies), unready, took, await late

    with toy(pause=0.3) as primary, toy() as candidate, toy() as control:
        arms = shadows(candidate, control)
        with parhelion(tmp_path, primary, arms, drain=60) as proxy:
            proxy.wait_known(["primary", "cand", "control"], 30)
            whole = post(f"{primary}/v1/chat/completions", BODY)[2]
            cut, unready, took, late = asyncio.run(main(proxy, whole))
        figure(
            "row 16",
            f"{STREAMS} open streams at SIGTERM: {cut} cut, not ready after {unready:.3f} s, last one whole after {took:.2f} s, exit 0;"
            f" latecomers {dict(late)}",
        )
        assert cut == 0
        assert late["cut"] == 0
        assert late["refused"] > 0
        with parhelion(tmp_path, primary, arms) as proxy:
            settle(proxy, STREAMS + late["answered"])
            law(proxy)
            assert proxy.metric("parhelion_sampled_total") == STREAMS + late["answered"]
            assert proxy.metric("parhelion_shed_total") == 0


def test_what_does_not_end_in_time_is_cut_and_counted(tmp_path: Path) -> None:
    async def main(proxy: ProxyProcess) -> None:
        async with asyncio.timeout(60):
            client = await opened(proxy)
            proxy._process.send_signal(signal.SIGTERM)
            began = time.monotonic()
            with contextlib.suppress(ConnectionError):
                await client.to_the_end()
            assert time.monotonic() - began < 20
            assert not client.received.endswith(b"0\r\n\r\n")
            client.writer.close()
            assert await asyncio.to_thread(proxy._process.wait, 60) == 0
            said = [orjson.loads(line)["event"] for line in proxy.log.read_bytes().splitlines()]
            assert [one for one in said if one in {"draining", "stopped"}] == ["draining", "stopped"]

    with toy(pause=30) as primary, toy() as candidate, toy() as control:
        arms = shadows(candidate, control)
        with parhelion(tmp_path, primary, arms, drain=0.5) as proxy:
            asyncio.run(main(proxy))
        with parhelion(tmp_path, primary, arms) as proxy:
            settle(proxy, 1)
            law(proxy)
            assert proxy.metric("parhelion_incomparable_total", reason="client_gone") == 4
