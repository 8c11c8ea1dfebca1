"""vLLM's stack: ``/version``, the cache metric, and in development mode ``/server_info``.

House rules. As ``reading`` has them. The environment that ``/server_info`` shows beside the configuration is left alone.
"""

from __future__ import annotations

from typing import Any

from engines.dialect import Fetch
from engines.facts.reading import Facts, as_object, get, metric_labels, part
from engines.rows import whole


async def read(fetch: Fetch, facts: Facts) -> None:
    """Fill in what vLLM shows."""
    facts.probed["version"] = as_object(await get(fetch, "/version")).get("version")
    cache = metric_labels(await get(fetch, "/metrics"), "vllm:cache_config_info")
    facts.probed["kv_cache_dtype"] = cache.get("cache_dtype")
    if "enable_prefix_caching" in cache:
        facts.probed["prefix_caching"] = cache["enable_prefix_caching"] == "True"
    info = as_object(await get(fetch, "/server_info?config_format=json"))
    config = info.get("vllm_config")
    if not isinstance(config, dict):
        return
    model, parallel = part(config, "model_config"), part(config, "parallel_config")
    facts.probed |= {
        "dtype": dtype.removeprefix("torch.") if isinstance(dtype := model.get("dtype"), str) else None,
        "quantization": model.get("quantization"),
        "revision": model.get("revision"),
        "logprob_mode": _mode(model.get("logprobs_mode")),
        "tensor_parallel": whole(parallel.get("tensor_parallel_size")),
    }
    if isinstance(model.get("enforce_eager"), bool):
        facts.probed["graph_capture"] = not model["enforce_eager"]
    backend = part(config, "attention_config").get("backend")
    facts.probed["attention_backend"] = backend if isinstance(backend, str) else None


def _mode(value: Any) -> str | None:
    """Name vLLM's ``--logprobs-mode`` as the footprint does."""
    if not isinstance(value, str):
        return None
    named = value.rpartition(".")[2].lower()
    return {"raw_logprobs": "raw", "processed_logprobs": "processed"}.get(named, named)
