"""What an engine's own routes say of its stack.

House rules. Only harmless GET routes. Every engine shows something else; each has one function here that turns it into footprint fields and leaves
the rest. A route that is missing is no error: the fact stays unknown.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from engines.dialect import Answer, Call, Defaults, Fetch, Json
from engines.lenient_json import NotJson, loads
from engines.rows import whole

_METRIC = re.compile(r"^vllm:cache_config_info\{(.*)\}", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_SAMPLING = ("temperature", "top_p", "top_k", "min_p")


@dataclass(slots=True)
class Facts:
    """Footprint fields by origin, and what else the probe wants to know."""

    probed: dict[str, Any] = field(default_factory=dict)
    inferred: dict[str, Any] = field(default_factory=dict)
    defaults: Defaults = field(default_factory=Defaults)
    context_length: int | None = None


async def gather(fetch: Fetch, engine: str, model: Json, defaults: Defaults) -> Facts:
    """Collect what the routes of this engine say. ``model`` is its entry in ``/v1/models``."""
    facts = Facts(defaults=defaults)
    facts.probed["engine"] = engine
    facts.probed["model"] = _last_part(model.get("root") or model.get("id"))
    facts.context_length = whole(model.get("max_model_len"))
    match engine:
        case "vllm":
            await _vllm(fetch, facts)
        case "llama_cpp":
            await _llama_cpp(fetch, facts)
        case "reference":
            await _reference(fetch, facts)
        case _:
            await _any(fetch, facts)
    return facts


async def get(fetch: Fetch, path: str) -> Answer:
    """Get one route."""
    return await fetch(Call(path, method="GET"))


def as_object(answer: Answer) -> Json:
    """Return the JSON object of a good answer, an empty one for any other."""
    if answer.failure is not None or answer.status != 200:
        return {}
    try:
        value = loads(answer.body)
    except NotJson:
        return {}
    return value if isinstance(value, dict) else {}


async def _any(fetch: Fetch, facts: Facts) -> None:
    facts.probed["version"] = as_object(await get(fetch, "/version")).get("version")


async def _vllm(fetch: Fetch, facts: Facts) -> None:
    """Read ``/version``, the cache metric, and in dev mode ``/server_info``."""
    facts.probed["version"] = as_object(await get(fetch, "/version")).get("version")
    metrics = await get(fetch, "/metrics")
    found = _METRIC.search(metrics.body.decode("utf-8", "replace")) if metrics.status == 200 else None
    cache = dict(_LABEL.findall(found.group(1))) if found else {}
    facts.probed["kv_cache_dtype"] = cache.get("cache_dtype")
    if "enable_prefix_caching" in cache:
        facts.probed["prefix_caching"] = cache["enable_prefix_caching"] == "True"
    info = as_object(await get(fetch, "/server_info?config_format=json"))
    config = info.get("vllm_config")
    if not isinstance(config, dict):
        return
    model, parallel = _part(config, "model_config"), _part(config, "parallel_config")
    facts.probed |= {
        "dtype": str(model.get("dtype") or "").removeprefix("torch."),
        "quantization": model.get("quantization"),
        "revision": model.get("revision"),
        "logprob_mode": _mode(model.get("logprobs_mode")),
        "tensor_parallel": whole(parallel.get("tensor_parallel_size")),
    }
    if isinstance(model.get("enforce_eager"), bool):
        facts.probed["graph_capture"] = not model["enforce_eager"]
    backend = _part(config, "attention_config").get("backend")
    facts.probed["attention_backend"] = backend if isinstance(backend, str) else None


async def _llama_cpp(fetch: Fetch, facts: Facts) -> None:
    """Read ``/props``. Its prompt cache is on for every request that does not turn it off (server README)."""
    props = as_object(await get(fetch, "/props"))
    settings = _part(props, "default_generation_settings")
    values = _part(settings, "params")
    facts.probed["version"] = props.get("build_info")
    facts.probed["model"] = _last_part(props.get("model_path")) or facts.probed["model"]
    kind = props.get("model_ftype")
    if isinstance(kind, str):
        plain = {"F32": "fp32", "F16": "fp16", "BF16": "bf16"}.get(kind.split()[-1].upper())
        facts.probed["quantization"] = "unquantized" if plain else kind
        facts.probed["dtype"] = plain
    facts.inferred["prefix_caching"] = True
    facts.inferred["tensor_parallel"] = 1
    facts.context_length = whole(settings.get("n_ctx")) or facts.context_length
    _sampling(facts, values)


async def _reference(fetch: Fetch, facts: Facts) -> None:
    """Read ``/server_info``, which has the footprint's own names. Its hashes are of definitions; ours are of behaviour, for every engine alike."""
    info = as_object(await get(fetch, "/server_info"))
    own = {
        name: value for name, value in info.items() if name not in ("engine", "tokenizer_hash", "chat_template_hash")
    }
    facts.probed |= {name: value for name, value in own.items() if name != "sampling_defaults"}
    facts.probed["model"] = _last_part(info.get("model")) or facts.probed["model"]
    facts.context_length = whole(info.get("max_model_len")) or facts.context_length
    _sampling(facts, _part(info, "sampling_defaults"))


def _sampling(facts: Facts, values: Json) -> None:
    known = {name: round(float(values[name]), 6) for name in _SAMPLING if _is_number(values.get(name))}
    if not known:
        return
    if "top_k" in known:
        known["top_k"] = int(known["top_k"])
    facts.probed["sampling_defaults"] = known
    facts.defaults = Defaults(
        temperature=known.get("temperature", facts.defaults.temperature),
        top_p=known.get("top_p", facts.defaults.top_p),
        top_k=int(known["top_k"]) if "top_k" in known else facts.defaults.top_k,
        min_p=known.get("min_p", facts.defaults.min_p),
        max_tokens_completions=facts.defaults.max_tokens_completions,
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e9


def _part(value: Json, name: str) -> Json:
    part = value.get(name)
    return part if isinstance(part, dict) else {}


def _mode(value: Any) -> str | None:
    """Name vLLM's ``--logprobs-mode`` as the footprint does."""
    if not isinstance(value, str):
        return None
    named = value.rpartition(".")[2].lower()
    return {"raw_logprobs": "raw", "processed_logprobs": "processed"}.get(named, named)


def _last_part(path: Any) -> str | None:
    """Return the name at the end of a path: where a model lies is not what it is."""
    if not isinstance(path, str) or not path:
        return None
    return (
        path.replace("\\", "/").rstrip("/").rpartition("/")[2]
        if path.startswith(("/", ".", "\\")) or ":\\" in path
        else path
    )
