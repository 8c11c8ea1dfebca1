"""Scripted engines served in the test's own process: what is planted is in the script, all else is healthy."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from engines.scripted.script_load import read
from engines.scripted.server import application


@asynccontextmanager
async def serving(script: str, dialect: str = "vllm") -> AsyncIterator[str]:
    """Serve one script in one dialect; its base URL."""
    runner = web.AppRunner(application(read(script.encode()), dialect), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
