"""Every engine's facts by name, and how they are collected.

House rules. The one file that knows all readers. An engine without one of its own is asked for ``/version`` alone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from engines.dialect import Defaults, Fetch, Json
from engines.facts import hosted, llama_cpp, lmdeploy, ollama, reference, sglang, tgi, vllm
from engines.facts.reading import Facts, as_object, get, last_part
from engines.rows import whole

_READERS: dict[str, Callable[[Fetch, Facts], Awaitable[None]]] = {
    "fireworks": hosted.read,
    "llama_cpp": llama_cpp.read,
    "lmdeploy": lmdeploy.read,
    "ollama": ollama.read,
    "openrouter": hosted.read,
    "reference": reference.read,
    "sglang": sglang.read,
    "tgi": tgi.read,
    "together": hosted.read,
    "vllm": vllm.read,
}


async def gather(fetch: Fetch, engine: str, model: Json, defaults: Defaults) -> Facts:
    """Collect what the routes of this engine say. ``model`` is its entry in ``/v1/models``."""
    facts = Facts(defaults=defaults)
    facts.probed["engine"] = engine
    facts.probed["model"] = last_part(model.get("root") or model.get("id"))
    facts.context_length = whole(model.get("max_model_len"))
    await _READERS.get(engine, _any)(fetch, facts)
    return facts


async def _any(fetch: Fetch, facts: Facts) -> None:
    facts.probed["version"] = as_object(await get(fetch, "/version")).get("version")
