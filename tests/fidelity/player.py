"""Both ends of an exchange on raw protocols: an engine that plays what the corpus says, and a client that waits for the whole reply.

The request names its exchange in ``X-Exchange``, a field like any other, so that the engine needs no knowledge of the order in which they come.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import cast

from tests.fidelity import reading
from tests.fidelity.corpus import Exchange
from tests.fidelity.reading import Message

MARK = b"X-Exchange"


def marked(exchange: Exchange, number: int) -> bytes:
    """The exchange's request with its number in it."""
    line, end, rest = exchange.request.partition(b"\r\n")
    return line + end + b"%b: %d\r\n" % (MARK, number) + rest


class Engine(asyncio.Protocol):
    """One connection of the engine; ``requests`` gets each whole request under its number."""

    def __init__(self, table: list[Exchange], requests: dict[int, Message], *, in_pieces: bool) -> None:
        self._table, self._requests, self._in_pieces = table, requests, in_pieces
        self._raw = b""
        self._loop = asyncio.get_running_loop()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._raw += data
        message = reading.request(self._raw)
        if message is None or not message.whole:
            return
        assert message.length == len(self._raw)
        self._raw = b""
        number = int(message.values(b"x-exchange")[0])
        self._requests[number] = message
        exchange = self._table[number]
        self._play([*exchange.pieces] if self._in_pieces else [b"".join(exchange.pieces)], 0, closes=exchange.closes)

    def _play(self, pieces: list[bytes], at: int, *, closes: bool) -> None:
        if self._transport.is_closing():
            return
        self._transport.write(pieces[at])
        if at + 1 < len(pieces):
            self._loop.call_soon(lambda: self._play(pieces, at + 1, closes=closes))
        elif closes:
            self._transport.close()


class Client(asyncio.Protocol):
    """One connection of a client: ``ask`` gives what came, whole or as far as it came."""

    def __init__(self) -> None:
        self.alive = False
        self._transport: asyncio.Transport | None = None
        self._raw, self._ended = b"", False
        self._answer: asyncio.Future[Message | None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.alive = True

    def ask(self, request: bytes, method: bytes) -> asyncio.Future[Message | None]:
        assert self._transport is not None
        assert not self._raw, "bytes that nobody asked for"
        self._method = method
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._answer

    def data_received(self, data: bytes) -> None:
        self._raw += data
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        self.alive = False
        self._ended = True
        self._look()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _look(self) -> None:
        if self._answer is None or self._answer.done():
            return
        message = reading.reply(self._raw, self._method, ended=self._ended)
        if message is not None and message.whole:
            assert message.length == len(self._raw)
            self._raw = b""
            self.alive = self.alive and b"close" not in message.options()
        elif not self._ended:
            return
        self._answer.set_result(message)


@asynccontextmanager
async def engine(
    table: list[Exchange], requests: dict[int, Message], *, in_pieces: bool
) -> AsyncIterator[tuple[str, int]]:
    """Serve the table; the address."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Engine(table, requests, in_pieces=in_pieces), "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[:2]
    finally:
        server.close()


async def run(
    address: tuple[str, int], table: list[Exchange], connections: int, take: Callable[[int, Message | None], None]
) -> None:
    """Ask for every exchange, over so many kept connections."""
    numbers = iter(range(len(table)))

    async def work() -> None:
        client = Client()
        for number in numbers:
            if not client.alive:
                client.close()
                _, client = await asyncio.get_running_loop().create_connection(Client, *address)
            exchange = table[number]
            async with asyncio.timeout(30):
                take(number, await client.ask(marked(exchange, number), exchange.method))
            client.alive = client.alive and not exchange.closes
        client.close()

    async with asyncio.TaskGroup() as group:
        for _ in range(connections):
            group.create_task(work())
