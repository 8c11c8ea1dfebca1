"""In lock step: the engine sends a piece only when the client has every byte of those before. Nothing is gathered, held back or put in another order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import cast

import uvloop

from tests.fidelity import reading
from tests.fidelity.corpus import streams
from tests.wire.proxied import proxied

STREAMS = 150


class Told(asyncio.Protocol):
    """A connection that keeps what it reads and tells of it."""

    def __init__(self) -> None:
        self.raw = b""
        self.more = asyncio.Event()
        self.made = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.made.set()

    def data_received(self, data: bytes) -> None:
        self.raw += data
        self.more.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.more.set()


def test_every_piece_is_with_the_client_before_the_next_is_sent(
    state: Path, figure: Callable[[str, str], None]
) -> None:
    steps = 0

    async def main() -> None:
        nonlocal steps
        loop = asyncio.get_running_loop()
        accepted: asyncio.Queue[Told] = asyncio.Queue()

        def accept() -> Told:
            accepted.put_nowait(told := Told())
            return told

        server = await loop.create_server(accept, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with proxied(f"http://127.0.0.1:{port}", state) as proxy:
            for stream in streams(7, STREAMS):
                async with asyncio.timeout(20):
                    _, client = await loop.create_connection(Told, *proxy.address)
                    client.transport.write(stream.request)
                    engine = await accepted.get()
                    await engine.made.wait()
                    while (asked := reading.request(engine.raw)) is None or not asked.whole:
                        engine.more.clear()
                        await engine.more.wait()
                    sent = b""
                    for piece in stream.pieces:
                        sent += piece
                        engine.transport.write(piece)
                        await arrived(client, reading.reply(sent, b"POST", ended=False), stream.name)
                        steps += 1
                    client.transport.abort()
                    engine.transport.abort()
        server.close()

    async def arrived(client: Told, expected: reading.Message | None, name: str) -> None:
        """Wait until the client has so much; it must never have more, nor anything else."""
        if expected is None:
            return
        while True:
            client.more.clear()
            got = reading.reply(client.raw, b"POST", ended=False)
            if got is not None:
                assert (got.start, got.end_to_end()) == (expected.start, expected.end_to_end()), name
                assert expected.body.startswith(got.body), name
                if got.body == expected.body:
                    return
            await client.more.wait()

    uvloop.run(main())
    figure("row 1", f"{steps} pieces of {STREAMS} streams in lock step, each with the client before the next was sent")
    assert steps > 5 * STREAMS
