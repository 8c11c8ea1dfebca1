"""LMDeploy's stack, as far as it shows any: the ``lmdeploy:backend_config`` metric and ``/distserve/engine_info``.

House rules. As ``reading`` has them. The metric's labels are the engine's options as text; 0.18 registers the metric and leaves it empty. The other route answers with JSON inside a JSON text, and
only on the PyTorch engine. No route tells a version.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from engines.dialect import Answer, Fetch, Json
from engines.facts.reading import Facts, get, metric_labels
from engines.lenient_json import NotJson, loads
from engines.rows import whole

#: ``--quant-policy``: how keys and values are kept; 0 is the model's own format.
_KV = {"4": "int4", "8": "int8", "16": "fp8", "17": "fp8_e5m2", "int4": "int4", "int8": "int8", "fp8": "fp8"} | {
    "fp8_e5m2": "fp8_e5m2"
}
_DECISIVE = ("block_size", "cache_block_seq_len", "max_prefill_token_num", "dp", "ep", "quant_policy", "model_format")
_YES = {"true": True, "false": False}
_MODES = {"raw_logprobs": "raw", "raw_logits": "logits"}


async def read(fetch: Fetch, facts: Facts) -> None:
    """Fill in what LMDeploy shows."""
    options = metric_labels(await get(fetch, "/metrics"), "lmdeploy:backend_config_info")
    parallel = _inner(await get(fetch, "/distserve/engine_info"))
    caching, eager = _yes(options, "enable_prefix_caching"), _yes(options, "eager_mode")
    facts.probed |= {
        "dtype": options.get("dtype"),
        "revision": options.get("revision"),
        "quantization": options.get("model_format"),
        "kv_cache_dtype": _KV.get(options.get("quant_policy", "").rpartition(".")[2].lower()),
        "tensor_parallel": whole(parallel.get("tp_size")) or _count(options.get("tp")),
        "prefix_caching": caching,
        "graph_capture": None if eager is None else not eager,
        "logprob_mode": _MODES.get(options.get("logprobs_mode", "")),
    }
    decisive = {name: options[name] for name in _DECISIVE if name in options}
    if decisive:
        facts.probed["config_hash"] = hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()[:8]
    facts.context_length = _count(options.get("session_len")) or facts.context_length


def _yes(options: dict[str, str], name: str) -> bool | None:
    return _YES.get(options.get(name, "").lower())


def _count(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 10 else None


def _inner(answer: Answer) -> Json:
    """Read an object that stands in a text: the route dumps what is dumped again on its way out."""
    value: Any = answer.body if answer.failure is None and answer.status == 200 else b"null"
    for _ in range(2):
        try:
            value = loads(value)
        except NotJson:
            return {}
        if isinstance(value, dict):
            return value
        value = value.encode() if isinstance(value, str) else b"null"
    return {}
