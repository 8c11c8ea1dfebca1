"""A client on a raw socket, and what a reply says after transfer decoding, read by the standard library and not by our own parser."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import io
from dataclasses import dataclass
from typing import Self

HOP_BY_HOP = {"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}


@dataclass(frozen=True)
class Reply:
    """Status line, end-to-end header fields in order, body after transfer decoding, and whether the body was whole."""

    version: int
    status: int
    reason: str
    fields: list[tuple[str, str]]
    body: bytes
    whole: bool

    def value(self, name: str) -> str | None:
        return next((value for found, value in self.fields if found.lower() == name), None)


def parse(raw: bytes, method: str = "GET") -> Reply:
    """Read one reply (after any interim ones) from everything a connection gave."""

    class Source:
        def makefile(self, *_: object) -> io.BufferedReader:
            return io.BufferedReader(io.BytesIO(raw))

    response = http.client.HTTPResponse(Source(), method=method)  # type: ignore[arg-type]  # all that is used of a socket
    response.begin()
    fields = [(name, value) for name, value in response.getheaders() if name.lower() not in HOP_BY_HOP]
    try:
        body, whole = response.read(), True
    except http.client.IncompleteRead as error:
        body, whole = error.partial, False
    return Reply(response.version, response.status, response.reason, fields, body, whole)


class Wire:
    """``async with Wire(address) as wire``: one connection."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address

    async def __aenter__(self) -> Self:
        self.reader, self.writer = await asyncio.open_connection(*self._address, limit=1 << 20)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()

    async def send(self, *pieces: bytes, pause: float = 0.0) -> None:
        for piece in pieces:
            if self.writer.is_closing():
                raise ConnectionResetError("the peer has closed")  # what uvloop's transport says is a RuntimeError
            self.writer.write(piece)
            await self.writer.drain()
            if pause:
                await asyncio.sleep(pause)

    async def rest(self) -> bytes:
        """Everything up to the end of the connection, or its reset."""
        data = bytearray()
        try:
            while piece := await self.reader.read(1 << 16):
                data += piece
        except ConnectionError:
            pass
        return bytes(data)

    async def until(self, mark: bytes) -> bytes:
        """Everything up to and including a mark."""
        return await self.reader.readuntil(mark)


async def ask(address: tuple[str, int], *pieces: bytes, pause: float = 0.0) -> bytes:
    """Send the pieces on a new connection and take everything until the peer closes."""
    async with Wire(address) as wire:
        await wire.send(*pieces, pause=pause)
        return await wire.rest()


def post(body: bytes, path: str = "/v1/chat/completions", *, fields: str = "", close: bool = True) -> bytes:
    """A JSON POST with a Content-Length."""
    closing = "Connection: close\r\n" if close else ""
    return (
        f"POST {path} HTTP/1.1\r\nHost: proxy.test\r\nContent-Type: application/json\r\n{fields}{closing}"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body


def get(path: str = "/v1/models", *, fields: str = "", method: str = "GET") -> bytes:
    """A request without a body that closes its connection."""
    return f"{method} {path} HTTP/1.1\r\nHost: proxy.test\r\n{fields}Connection: close\r\n\r\n".encode()
