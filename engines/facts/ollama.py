"""Ollama's stack: ``/api/version``, ``/api/show`` and ``/api/ps``.

House rules. As ``reading`` has them, but for ``/api/show``, which is asked by POST and changes nothing. Sampling defaults are those of ``/v1``: it sends temperature and
top_p itself (1.0), the rest is the Modelfile's. KV-cache type and flash attention are known to the server's environment only.
"""

from __future__ import annotations

import hashlib
from typing import Any

from engines.dialect import Call, Fetch, Json
from engines.facts.reading import Facts, as_object, get, part, sampling
from engines.rows import whole

#: Ollama's own top_k where a Modelfile has none.
_TOP_K = 40
_PLAIN = {"F32": "fp32", "F16": "fp16", "BF16": "bf16"}


async def read(fetch: Fetch, facts: Facts) -> None:
    """Fill in what Ollama shows of itself and of the model."""
    name = facts.probed.get("model")
    facts.probed["version"] = as_object(await get(fetch, "/api/version")).get("version")
    facts.inferred["prefix_caching"] = True  # no request and no flag turns its prompt cache off
    shown = as_object(await fetch(Call("/api/show", {"model": name})))
    kind = part(shown, "details").get("quantization_level")
    if isinstance(kind, str):
        plain = _PLAIN.get(kind.upper())
        facts.probed["quantization"] = "unquantized" if plain else kind
        facts.probed["dtype"] = plain
    parameters = _parameters(shown.get("parameters"))
    if shown:
        facts.probed["config_hash"] = _hash(shown)
        penalties = {
            "repetition_penalty": parameters.get("repeat_penalty"),
            "presence_penalty": parameters.get("presence_penalty"),
            "frequency_penalty": parameters.get("frequency_penalty"),
        }
        known = {"temperature": 1.0, "top_p": 1.0, "top_k": parameters.get("top_k", _TOP_K)}
        sampling(facts, known | {"min_p": parameters.get("min_p")} | penalties)
    _loaded(facts, as_object(await get(fetch, "/api/ps")).get("models"), name)


def _parameters(text: Any) -> dict[str, float]:
    """Read the numbers of a Modelfile's parameters, one ``name   value`` a line."""
    found: dict[str, float] = {}
    for line in text.splitlines() if isinstance(text, str) else ():
        name, _, value = line.strip().partition(" ")
        try:
            found[name] = float(value)
        except ValueError:
            continue
    return found


def _loaded(facts: Facts, models: Any, name: Any) -> None:
    """Take what is known of a model in memory: its digest, its context, and whether it lies on a GPU."""
    listed = [model for model in models if isinstance(model, dict)] if isinstance(models, list) else []
    model = next((one for one in listed if name in (one.get("name"), one.get("model"))), {})
    digest, size, on_gpu = model.get("digest"), whole(model.get("size")), whole(model.get("size_vram"))
    facts.probed["revision"] = digest[:12] if isinstance(digest, str) else None
    facts.context_length = whole(model.get("context_length")) or facts.context_length
    if size and on_gpu is not None and on_gpu < size:
        facts.probed["gpu"] = "in part" if on_gpu else "none"


def _hash(shown: Json) -> str:
    """Hash what makes prompts of requests and what fills their gaps."""
    texts = (str(shown.get(name) or "") for name in ("template", "system", "parameters"))
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]
