"""The stack of a hosted API: nothing is shown, and nothing is asked.

House rules. As ``reading`` has them. What a reply says of it (``system_fingerprint``) the probe takes from the canary's.
"""

from __future__ import annotations

from engines.dialect import Fetch
from engines.facts.reading import Facts


async def read(fetch: Fetch, facts: Facts) -> None:
    """Leave everything unknown."""
    del fetch, facts
