"""Serve one fault in a process of its own: ``python -m tests.faults NAME``; its URL is the first line of output."""

from __future__ import annotations

import asyncio
import sys

from tests.faults import FAULTS
from tests.wire.engine import Engine


async def main(name: str) -> None:
    """Serve until killed."""
    async with Engine(FAULTS[name]) as engine:
        sys.stdout.write(f"{engine.url}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


asyncio.run(main(sys.argv[1]))
