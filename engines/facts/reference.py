"""Our reference engine's stack: ``/server_info``, which has the footprint's own names.

House rules. As ``reading`` has them. Its hashes are of definitions; the footprint's are of behaviour, for every engine alike, so they are left out.
"""

from __future__ import annotations

from engines.dialect import Fetch
from engines.facts.reading import Facts, as_object, get, last_part, part, sampling
from engines.rows import whole

_LEFT_OUT = ("engine", "tokenizer_hash", "chat_template_hash", "sampling_defaults")


async def read(fetch: Fetch, facts: Facts) -> None:
    """Fill in what the reference engine shows."""
    info = as_object(await get(fetch, "/server_info"))
    facts.probed |= {name: value for name, value in info.items() if name not in _LEFT_OUT}
    facts.probed["model"] = last_part(info.get("model")) or facts.probed["model"]
    facts.context_length = whole(info.get("max_model_len")) or facts.context_length
    sampling(facts, part(info, "sampling_defaults"))
