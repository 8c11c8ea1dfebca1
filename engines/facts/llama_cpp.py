"""llama.cpp's stack: ``/props``.

House rules. As ``reading`` has them. Its prompt cache is on for every request that does not turn it off (server README).
"""

from __future__ import annotations

from engines.dialect import Fetch
from engines.facts.reading import Facts, as_object, get, last_part, part, sampling
from engines.rows import whole


async def read(fetch: Fetch, facts: Facts) -> None:
    """Fill in what llama.cpp's server shows."""
    props = as_object(await get(fetch, "/props"))
    settings = part(props, "default_generation_settings")
    values = part(settings, "params")
    facts.probed["version"] = props.get("build_info")
    facts.probed["model"] = last_part(props.get("model_path")) or facts.probed["model"]
    kind = props.get("model_ftype")
    if isinstance(kind, str) and kind.strip():
        plain = {"F32": "fp32", "F16": "fp16", "BF16": "bf16"}.get(kind.split()[-1].upper())
        facts.probed["quantization"] = "unquantized" if plain else kind
        facts.probed["dtype"] = plain
    facts.inferred["prefix_caching"] = True
    facts.inferred["tensor_parallel"] = 1
    facts.context_length = whole(settings.get("n_ctx")) or facts.context_length
    sampling(facts, values | {"repetition_penalty": values.get("repeat_penalty")})
