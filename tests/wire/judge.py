"""A stand-in for the judge: listens on the hand-over socket, reads frames, or does not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from proxy.counters import Receipt
from proxy.exchange import Exchange
from proxy.traffic.wire import FrameReader, Hello


@dataclass
class Judge:
    """``hellos`` and ``exchanges`` in the order they came, over all connections."""

    hellos: list[Hello] = field(default_factory=list)
    exchanges: list[Exchange] = field(default_factory=list)
    writers: list[asyncio.StreamWriter] = field(default_factory=list)
    acknowledges: bool = True

    async def until(self, count: int, seconds: float = 10.0) -> list[Exchange]:
        """Wait for a number of exchanges."""
        async with asyncio.timeout(seconds):
            while len(self.exchanges) < count:  # noqa: ASYNC110 - the test looks from outside
                await asyncio.sleep(0.002)
        return self.exchanges


@asynccontextmanager
async def judging(state: Path, *, reads: bool = True, acknowledges: bool = True) -> AsyncIterator[Judge]:
    """Listen in a state directory; ``reads`` false accepts and then never reads, ``acknowledges`` false takes without saying so."""
    judge = Judge(acknowledges=acknowledges)
    path = state / "judge.sock"
    path.unlink(missing_ok=True)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        judge.writers.append(writer)
        if not reads:
            writer.transport.pause_reading()  # type: ignore[attr-defined]  # the transport reads as well
            return
        frames = FrameReader()
        receipt: Receipt | None = None
        try:
            while data := await reader.read(1 << 16):
                for value in frames.feed(data):
                    if isinstance(value, Hello):
                        judge.hellos.append(value)
                        receipt = Receipt(state / "counters" / f"{value.incarnation}.bin")
                    else:
                        judge.exchanges.append(value)
                        assert receipt is not None
                        receipt.count += judge.acknowledges
        except ConnectionError:
            pass
        finally:
            writer.close()
            if receipt is not None:
                receipt.close()

    server = await asyncio.start_unix_server(serve, str(path), limit=1 << 16)
    try:
        yield judge
    finally:
        server.close()
        for writer in judge.writers:
            writer.transport.abort()
        await asyncio.sleep(0.01)
        path.unlink(missing_ok=True)
