"""The report over the newest records, for pages that are worth something without it."""

from __future__ import annotations

import asyncio

from proxy.config import Config
from proxy.ledger.recent import Recent, latest

#: Seconds; a page is to be there within 0.2.
PATIENCE = 0.05


async def at_once(config: Config) -> Recent | None:
    """Return it if it is there at once; None while it is being made: nobody waits for a page as long as that may take."""
    try:
        return await asyncio.wait_for(latest(config), PATIENCE)
    except TimeoutError:
        return None
