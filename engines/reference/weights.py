"""Loads a model, its tokenizer and the facts about both.

House rules: the only file beside ``generate.py`` that touches torch, and the only one that touches Transformers. What others need of a tokenizer is given
as plain values here. Nothing is fetched from a hub when ``HF_HUB_OFFLINE`` is set or a local path is named.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from engines.reference.options import DTYPES, EngineStartError, ReferenceOptions
from engines.reference.render import opening
from engines.reference.sampling import Sampling
from engines.reference.tokens import TokenTable, table_from_definition


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model ready to run. ``torch_model`` and ``tokenizer`` are the libraries' own objects; ``vocabulary`` is the width of its logits.

    ``begin`` is the tokenizer's begin token, ``opening`` the tokens by which the template opens a reply. ``facts`` is the footprint as ``/server_info`` shows it.
    """

    torch_model: Any
    tokenizer: Any
    device: Any
    table: TokenTable
    name: str
    vocabulary: int
    end_ids: frozenset[int]
    begin: int | None
    opening: tuple[int, ...]
    max_model_len: int
    defaults: Sampling
    facts: Mapping[str, Any]


def load(options: ReferenceOptions) -> Loaded:
    """Load what ``options`` names. Raises EngineStartError, in one line, when that is impossible."""
    try:
        import torch
        import transformers
    except ImportError as missing:
        raise EngineStartError(
            f"{missing.name} is not installed: pip install 'parhelion[reference]' (in a checkout: '.[reference]')"
        ) from missing
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    _exact(torch)
    device = _device(torch, options.device)
    where, extra = _source(options.model)
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(where, **extra)
        model = transformers.AutoModelForCausalLM.from_pretrained(
            where, **extra, dtype=getattr(torch, DTYPES[options.dtype]), attn_implementation=options.attention
        )
    except (OSError, ValueError, KeyError, ImportError, NotImplementedError) as failed:
        raise EngineStartError(f"cannot load {options.model}: {_one_line(failed)}") from failed
    if options.chat_template is not None:
        tokenizer.chat_template = _template(options.chat_template)
    model = model.to(device).eval()
    definition = _definition(tokenizer)
    vocabulary = int(model.get_output_embeddings().weight.shape[0])
    return Loaded(
        torch_model=model,
        tokenizer=tokenizer,
        device=device,
        table=_table(tokenizer, definition, vocabulary),
        name=options.served_model_name or _model_name(options.model),
        vocabulary=vocabulary,
        end_ids=_end_ids(tokenizer, model.generation_config),
        begin=tokenizer.bos_token_id,
        opening=opening(tokenizer),
        max_model_len=_length(options, model.config),
        defaults=_defaults(model.generation_config, options.temperature),
        facts=_facts(options, torch, model=model, tokenizer=tokenizer, definition=definition, device=device),
    )


def _source(model: str) -> tuple[str, dict[str, str]]:
    """Where Transformers shall look: (directory or hub name, further arguments)."""
    path = Path(model)
    if path.is_dir():
        return str(path), {}
    if model.endswith(".gguf"):
        if not path.is_file():
            raise EngineStartError(f"--model {model}: there is no such file")
        return str(path.parent), {"gguf_file": path.name}
    if path.is_absolute() or model.startswith((".", "~")):
        raise EngineStartError(f"--model {model}: there is no such directory")
    if os.environ.get("HF_HUB_OFFLINE", "") not in {"", "0"}:
        raise EngineStartError(
            f"--model {model}: there is no such directory, and HF_HUB_OFFLINE forbids asking the hub for it"
        )
    return model, {}


def _model_name(model: str) -> str:
    path = Path(model)
    return path.stem if model.endswith(".gguf") else (path.name if path.is_dir() else model)


def _exact(torch: Any) -> None:
    """Full float32 products, and float32 sums in the narrower types, on every device."""
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False


def _device(torch: Any, asked: str) -> Any:
    if asked == "auto":
        asked = "cuda" if torch.cuda.is_available() else "cpu"
    if asked == "cuda" and not torch.cuda.is_available():
        raise EngineStartError(
            f"--device cuda: torch {torch.__version__} sees no CUDA device here; use --device cpu, or a CUDA build of torch"
        )
    return torch.device(asked)


def _definition(tokenizer: Any) -> dict[str, Any] | None:
    """Return the ``tokenizer.json`` definition, None for a tokenizer that has none."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    return json.loads(backend.to_str()) if backend is not None else None


def _table(tokenizer: Any, definition: dict[str, Any] | None, vocabulary: int) -> TokenTable:
    if definition is not None:
        return table_from_definition(definition, vocabulary)
    # Without a definition only whole characters can be told.
    pieces = tuple(tokenizer.decode([number]).encode() for number in range(len(tokenizer)))
    return TokenTable(pieces=pieces, special=frozenset(tokenizer.all_special_ids))


def _end_ids(tokenizer: Any, generation: Any) -> frozenset[int]:
    named = generation.eos_token_id if generation is not None else None
    ids = {*(named if isinstance(named, Sequence) else [named]), tokenizer.eos_token_id}
    return frozenset(number for number in ids if number is not None)


def _length(options: ReferenceOptions, config: Any) -> int:
    own = getattr(config.get_text_config(), "max_position_embeddings", None) or 2048
    return min(options.max_model_len, own) if options.max_model_len else int(own)


def _template(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as failed:
        raise EngineStartError(f"--chat-template {path}: cannot be read: {_one_line(failed)}") from failed


def _defaults(generation: Any, temperature: float | None) -> Sampling:
    """Read the sampling for silent requests: what the options say, else the model's generation_config.json, else neutral; the same rule as vLLM's."""
    names = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
    said = generation.to_diff_dict() if generation is not None else {}
    given = {name: said[name] for name in names if said.get(name) is not None}
    return Sampling(**(given if temperature is None else given | {"temperature": temperature}))


def _facts(
    options: ReferenceOptions, torch: Any, *, model: Any, tokenizer: Any, definition: dict[str, Any] | None, device: Any
) -> dict[str, Any]:
    template = tokenizer.chat_template
    return {
        "engine": "parhelion-reference",
        "version": own_version(),
        "torch": str(torch.__version__),
        "transformers": version("transformers"),
        "model": options.model,
        "architecture": type(model).__name__,
        "dtype": DTYPES[options.dtype],
        "quantization": "gguf, dequantised while loading"
        if options.model.endswith(".gguf")
        else _quantization(model.config),
        "kv_cache_dtype": DTYPES[options.dtype],
        "device": str(device),
        "gpu": torch.cuda.get_device_name(device) if device.type == "cuda" else None,
        "driver": torch.version.cuda if device.type == "cuda" else None,
        "accumulation": "float32",
        "attention_backend": str(getattr(model.config, "_attn_implementation", options.attention)),
        "prefix_caching": False,
        "graph_capture": False,
        "tensor_parallel": 1,
        "threads": torch.get_num_threads(),
        "logprob_mode": "raw",
        "logprobs": "float64 log-softmax of raw float32 logits",
        "tie_break": "lowest id",
        "tokenizer_hash": _hash(json.dumps(definition, sort_keys=True) if definition is not None else repr(tokenizer)),
        "chat_template_hash": _hash(json.dumps(template, sort_keys=True)) if template else None,
        "max_logprobs": options.max_logprobs,
    }


def own_version() -> str:
    """Parhelion's version; "source" when it runs from a checkout that is not installed."""
    try:
        return version("parhelion")
    except PackageNotFoundError:
        return "source"


def _quantization(config: Any) -> str | None:
    declared = getattr(config, "quantization_config", None)
    method = declared.get("quant_method") if isinstance(declared, dict) else getattr(declared, "quant_method", None)
    return str(method) if method is not None else None


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]
