"""An engine for large bodies: says the size and the SHA-256 of what it was sent, or sends so many bytes. ``python -m tests.fidelity.sink``."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import sys

PIECE = bytes(range(256)) * 256


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while head := await reader.readuntil(b"\r\n\r\n"):
        if found := re.match(rb"GET /([0-9]+) ", head):
            size = int(found[1])
            writer.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: %d\r\n\r\n" % size
            )
            while size > 0:
                writer.write(PIECE[:size])
                size -= len(PIECE)
                await writer.drain()
            continue
        told, size = hashlib.sha256(), 0
        if b"\r\ntransfer-encoding: chunked" in head.lower():
            while length := int(await reader.readuntil(b"\r\n"), 16):
                told.update(await reader.readexactly(length))
                await reader.readexactly(2)
                size += length
            await reader.readexactly(2)
        elif found := re.search(rb"\r\ncontent-length: ([0-9]+)", head.lower()):
            left = size = int(found[1])
            while left:
                piece = await reader.read(min(left, 1 << 18))
                told.update(piece)
                left -= len(piece)
        answer = json.dumps({"bytes": size, "sha256": told.hexdigest()}).encode()
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(answer), answer)
        )


async def main() -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0, limit=1 << 20)
    sys.stdout.write(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
