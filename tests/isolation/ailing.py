"""An engine that can fall ill and get well again on one port: ``python -m tests.isolation.ailing [--pace S] [--noise N] [--certificates DIR]``.

It says its port, then takes one command a line and answers each with one line: ``well``, the name of a fault (``tests.faults``, or ``refuse``,
``plain`` without and ``trusted`` or ``untrusted`` with TLS). A change closes every connection, as the restart of an engine does.
"""

from __future__ import annotations

import argparse
import asyncio
import ssl
import sys
from pathlib import Path
from typing import Any

import uvloop

from tests.faults import FAULTS
from tests.isolation.swift import Memory, Swift
from tests.toy import Toy
from tests.wire.engine import Engine


class Ailing:
    """The engine."""

    def __init__(self, pace: float, noise: float, certificates: Path | None) -> None:
        self.memory = Memory(Toy(temperature=0.0, noise=noise))
        self.open: set[Any] = set()
        self._pace, self._certificates = pace, certificates
        self._server: asyncio.Server | None = None
        self._port = 0
        self._fault: Engine | None = None

    async def become(self, state: str) -> None:
        """Change; raises KeyError for a state that there is not."""
        behaviour = None if state in {"well", "plain", "trusted", "untrusted", "refuse"} else FAULTS[state]
        if self._server is not None:
            self._server.close()
            for transport in list(self.open):
                transport.abort()
            await asyncio.sleep(0)
        self._fault = None if behaviour is None else Engine(behaviour)
        if state == "refuse":
            self._server = None
            return
        tls = self._tls(state) if state in {"trusted", "untrusted"} else None
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            self._connection, "127.0.0.1", self._port, ssl=tls, reuse_address=True, backlog=1024
        )
        self._port = self._server.sockets[0].getsockname()[1]

    @property
    def port(self) -> int:
        return self._port

    def _tls(self, name: str) -> ssl.SSLContext:
        assert self._certificates is not None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._certificates / f"{name}.pem")
        return context

    def _connection(self) -> asyncio.Protocol:
        if self._fault is None:
            return Swift(self.memory, self.open, self._pace)
        fault = self._fault
        reader = asyncio.StreamReader(limit=1 << 20)

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.open.add(writer.transport)
            try:
                await fault._serve(reader, writer)
            finally:
                self.open.discard(writer.transport)

        return asyncio.StreamReaderProtocol(reader, serve)


async def main(pace: float, noise: float, certificates: Path | None) -> None:
    """Serve until standard input ends."""
    engine = Ailing(pace, noise, certificates)
    await engine.memory.start()
    await engine.become("well")
    commands = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    print(engine.port, flush=True)
    while word := (await commands.readline()).decode().strip():
        await engine.become(word)
        print(word, flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--pace", type=float, default=0.0)
    parser.add_argument("--noise", type=float, default=0.0)
    parser.add_argument("--certificates", type=Path)
    options = parser.parse_args()
    uvloop.run(main(options.pace, options.noise, options.certificates))
