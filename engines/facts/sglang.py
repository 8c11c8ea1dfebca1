"""SGLang's stack: ``/server_info``, which shows every start option as resolved, and ``/model_info``; both under older names too.

House rules. As ``reading`` has them, here above all: the options hold ``api_key``, ``admin_api_key``, passwords of TLS files, ports, seeds and live counters, so each one that counts is
named here. What decides numbers and has no field of its own goes into ``config_hash``.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from engines.dialect import Fetch, Json
from engines.facts.reading import Facts, as_object, get, last_part, sampling
from engines.rows import whole

#: Options that can change a number or an answer, beside those with a field.
_DECISIVE = (
    "sampling_backend",
    "grammar_backend",
    "page_size",
    "chunked_prefill_size",
    "enable_mixed_chunk",
    "pp_size",
    "dp_size",
    "ep_size",
    "enable_dp_attention",
    "enable_deterministic_inference",
    "enable_fp32_lm_head",
    "triton_attention_reduce_in_fp32",
    "triton_attention_num_kv_splits",
    "flashinfer_mla_disable_ragged",
    "moe_runner_backend",
    "moe_a2a_backend",
    "fp8_gemm_runner_backend",
    "fp4_gemm_runner_backend",
    "mamba_ssm_dtype",
    "torchao_config",
    "enable_torch_compile",
    "disable_custom_all_reduce",
    "speculative_algorithm",
    "speculative_num_steps",
    "speculative_eagle_topk",
    "speculative_num_draft_tokens",
    "context_length",
    "sampling_defaults",
    "reasoning_parser",
    "tool_call_parser",
)


async def read(fetch: Fetch, facts: Facts) -> None:
    """Fill in what SGLang shows."""
    info = await _either(fetch, "/server_info", "/get_server_info")
    model = await _either(fetch, "/model_info", "/get_model_info")
    path = model.get("model_path") or info.get("model_path")
    facts.probed |= {
        "version": info.get("version"),
        "model": last_part(path) or facts.probed["model"],
        "revision": info.get("revision"),
        "dtype": info.get("dtype"),
        "quantization": info.get("quantization"),
        "kv_cache_dtype": info.get("kv_cache_dtype"),
        "attention_backend": _attention(info),
        "tensor_parallel": whole(info.get("tp_size")),
        "accumulation": _accumulation(info),
    }
    for field, option in (("prefix_caching", "disable_radix_cache"), ("graph_capture", "disable_cuda_graph")):
        if isinstance(info.get(option), bool):
            facts.probed[field] = not info[option]
    decisive = {name: info[name] for name in _DECISIVE if info.get(name) is not None}
    if decisive:
        facts.probed["config_hash"] = hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()[:8]
    facts.context_length = whole(info.get("context_length")) or facts.context_length
    if info.get("sampling_defaults") == "openai":  # otherwise the model's own, which no route shows
        sampling(facts, {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0})


async def _either(fetch: Fetch, path: str, older: str) -> Json:
    return as_object(await get(fetch, path)) or as_object(await get(fetch, older))


def _attention(info: Json) -> str | None:
    """Name the backend; where prefill and decoding have their own, both."""
    both: Any = info.get("attention_backend")
    parts = {name: info.get(f"{name}_attention_backend") or both for name in ("prefill", "decode")}
    named = {name: part for name, part in parts.items() if isinstance(part, str)}
    if len(set(named.values())) == 1:
        return next(iter(named.values()))
    return ", ".join(f"{part} ({name})" for name, part in named.items()) or None


def _accumulation(info: Json) -> str | None:
    """Say which sums are known to be in fp32; of the others no option tells."""
    known = {"attention": info.get("triton_attention_reduce_in_fp32"), "lm head": info.get("enable_fp32_lm_head")}
    return ", ".join(f"{part} fp32" for part, on in known.items() if on is True) or None
