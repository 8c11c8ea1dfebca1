"""Row 9: a hundred clients that read 1 KB/s from an engine that never stops: it is paused, others are served, and what is held for each is bounded."""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import uvloop

from tests.isolation import load
from tests.isolation.stage import Processes, arms, descriptors, resident, settled
from tests.isolation.threaded import threaded
from tests.running import parhelion, until
from tests.wire.client import post
from tests.wire.engine import STREAM, Connection, chunk, reply

READERS, RATE = 100, 1024
SECONDS = 5.0
BOUND = 256 << 10
EVENT = chunk(b'data: {"choices":[{"index":0,"delta":{"content":"' + b"a" * 180 + b'"}}]}\n\n')
ANSWER = b'{"choices":[{"index":0,"message":{"role":"assistant","content":"b"},"finish_reason":"stop"}]}'


class Endless:
    """An engine that streams for ever when asked for a stream, and counts what it could send."""

    def __init__(self) -> None:
        self.sent: Counter[int] = Counter()

    def paused(self) -> bool:
        """Whether it can send next to nothing any more."""
        before = sum(self.sent.values())
        time.sleep(1.0)
        return bool(before) and sum(self.sent.values()) - before < READERS * 16 * RATE

    async def behave(self, connection: Connection) -> None:
        while True:
            request = await connection.request()
            if b'"stream":true' not in request.body:
                await connection.send(reply(ANSWER))
                continue
            await connection.send(STREAM)
            while True:
                await connection.send(EVENT * 256)
                self.sent[id(connection)] += len(EVENT) * 256


@contextmanager
def readers(address: tuple[str, int]) -> Iterator[Counter[int]]:
    """A hundred clients that read slowly, in a thread; what each has read."""
    socks = []
    for _ in range(READERS):
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect(address)
        sock.sendall(post(b'{"stream":true}'))
        sock.setblocking(False)
        socks.append(sock)
    read: Counter[int] = Counter()
    over = threading.Event()

    def drip() -> None:
        while not over.wait(0.25):
            for number, sock in enumerate(socks):
                with suppress(BlockingIOError):
                    read[number] += len(sock.recv(RATE // 4))

    thread = threading.Thread(target=drip)
    thread.start()
    try:
        yield read
    finally:
        over.set()
        thread.join()
        for sock in socks:
            sock.close()


@pytest.mark.slow
def test_the_engine_is_paused_and_others_are_served(tmp_path: Path, figure: Callable[[str, str], None]) -> None:
    endless = Endless()
    corpus = [post(b'{"model":"m","messages":[]}', close=False)]
    with (
        threaded(endless.behave) as engine,
        parhelion(tmp_path, engine.url, arms("http://127.0.0.1:9"), sampling={"rate": 0.0}) as proxy,
    ):
        traffic = Processes(proxy).pid("traffic")
        wanted = uvloop.run(load.expect(engine.url, corpus))
        alone, beside = load.Tally(), load.Tally()
        uvloop.run(load.drive(proxy.clients, 300, wanted, alone, corpus=corpus, at_once=4))
        memory, files = resident(traffic), descriptors(traffic)
        with readers(load.address_of(proxy.clients)) as read:
            until(endless.paused, 30, "the pausing of the engine")
            before, began = sum(endless.sent.values()), sum(read.values())
            uvloop.run(load.drive(proxy.clients, 300, wanted, beside, corpus=corpus, at_once=4))
            time.sleep(SECONDS)
            more, taken = sum(endless.sent.values()) - before, sum(read.values()) - began
            grown = resident(traffic) - memory
        until(lambda: descriptors(traffic) <= files + 8, 10, "the slow readers' descriptors to go")
        settled(proxy, 600 + READERS)
        figure(
            "row 9",
            f"{READERS} readers of {RATE} B/s: {grown / READERS / 1024:.0f} KiB of the traffic process for each; in {SECONDS:.0f} s they read "
            f"{taken / READERS / 1024:.0f} KiB each and the engine could send {more / READERS / 1024:.0f} KiB; "
            f"others: {alone.in_words()} before, {beside.in_words()} beside them",
        )
        assert (alone.failed, beside.failed, alone.wrong, beside.wrong) == (0, 0, [], [])
        assert more / READERS <= 256 << 10  # windows open by blocks
        assert grown / READERS <= BOUND
