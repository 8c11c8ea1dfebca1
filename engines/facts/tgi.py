"""Text Generation Inference's stack: ``/info``.

House rules. As ``reading`` has them. Quantisation, attention and, in later versions, the number format are not shown.
"""

from __future__ import annotations

from engines.dialect import Fetch
from engines.facts.reading import Facts, as_object, get, last_part
from engines.rows import whole


async def read(fetch: Fetch, facts: Facts) -> None:
    """Fill in what the router shows."""
    info = as_object(await get(fetch, "/info"))
    facts.probed |= {
        "version": info.get("version"),
        "revision": info.get("model_sha"),
        "model": last_part(info.get("model_id")) or facts.probed["model"],
        "dtype": info.get("model_dtype"),
        "config_hash": info.get("sha"),
    }
    facts.context_length = whole(info.get("max_total_tokens")) or facts.context_length
