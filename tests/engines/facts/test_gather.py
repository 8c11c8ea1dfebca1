"""What the routes of engines say of their stacks: recorded ones, and one route at a time."""

import asyncio
import json

from engines.dialect import Defaults
from engines.facts.gather import gather


def collect(fetch, engine, entry, defaults=Defaults()):  # noqa: B008 - frozen
    return asyncio.run(gather(fetch, engine, entry, defaults))


def entry_of(case):
    return json.loads(case.answer.body)["data"][0]


def test_vllm(recorded, scripted):
    folder = "vllm-cpu-bf16"
    fetch = scripted({"/version": recorded(folder, "version").answer, "/metrics": recorded(folder, "metrics").answer})
    facts = collect(fetch, "vllm", entry_of(recorded(folder, "models")))
    assert facts.probed["version"] == "0.32.0"
    assert facts.probed["model"] == "smollm2-135m"
    assert facts.probed["prefix_caching"] is True
    assert facts.probed["kv_cache_dtype"] == "auto"  # unresolved: the footprint makes it unknown
    assert facts.context_length == 2048


def test_vllm_in_development_mode_tells_more(scripted):
    config = {
        "model_config": {
            "dtype": "torch.bfloat16",
            "quantization": None,
            "revision": "abc",
            "enforce_eager": True,
            "logprobs_mode": "LogprobsMode.PROCESSED_LOGPROBS",
        },
        "parallel_config": {"tensor_parallel_size": 2},
        "attention_config": {"backend": "FLASH_ATTN"},
    }
    facts = collect(
        scripted({"/server_info": {"vllm_config": config, "vllm_env": {"X_KEY": "secret"}}}), "vllm", {"id": "m"}
    )
    assert facts.probed["dtype"] == "bfloat16"
    assert facts.probed["tensor_parallel"] == 2
    assert facts.probed["graph_capture"] is False
    assert facts.probed["logprob_mode"] == "processed"
    assert facts.probed["attention_backend"] == "FLASH_ATTN"
    assert "secret" not in str(facts.probed)


def test_llama_cpp(recorded, scripted):
    folder = "llama.cpp-q4_1"
    facts = collect(
        scripted({"/props": recorded(folder, "props").answer}), "llama_cpp", entry_of(recorded(folder, "models"))
    )
    assert facts.probed["quantization"] == "Q4_1"
    assert facts.probed["dtype"] is None
    assert facts.probed["model"] == "smollm2-135m-q4_1.gguf"
    assert facts.probed["sampling_defaults"] == {"temperature": 0.8, "top_p": 0.95, "top_k": 40, "min_p": 0.05}
    penalties = {"repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}
    assert facts.defaults == Defaults(temperature=0.8, top_p=0.95, top_k=40, min_p=0.05, **penalties)
    assert facts.context_length == 2048


def test_llama_cpp_unquantized(scripted):
    facts = collect(scripted({"/props": {"model_ftype": "all F32", "model_path": "/models/x.gguf"}}), "llama_cpp", {})
    assert (facts.probed["quantization"], facts.probed["dtype"], facts.probed["model"]) == (
        "unquantized",
        "fp32",
        "x.gguf",
    )


def test_a_format_that_is_blank_is_unknown(scripted):
    facts = collect(scripted({"/props": {"model_ftype": " ", "build_info": "b1"}}), "llama_cpp", {})
    assert ("dtype" in facts.probed, facts.probed["version"]) == (False, "b1")


def test_the_reference_engine(scripted):
    info = {
        "dtype": "float32",
        "model": "/models/smollm2",
        "gpu": None,
        "sampling_defaults": {"temperature": 1.0, "top_k": 50},
        "max_model_len": 8192,
        "tokenizer_hash": "theirs",
    }
    facts = collect(scripted({"/server_info": info}), "reference", {"id": "m"}, Defaults(max_tokens_completions=16))
    assert (facts.probed["dtype"], facts.probed["model"], facts.context_length) == ("float32", "smollm2", 8192)
    assert facts.defaults == Defaults(temperature=1.0, top_k=50, max_tokens_completions=16)
    assert "tokenizer_hash" not in facts.probed  # of the definition; ours is of behaviour, alike for every engine


def test_missing_routes_leave_facts_unknown(scripted):
    for engine in ("vllm", "llama_cpp", "reference", "transformers", "openai"):
        facts = collect(scripted({}), engine, {"id": "m"})
        assert facts.probed["engine"] == engine
        assert facts.probed["model"] == "m"
        assert facts.probed.get("version") is None
