"""What SGLang's routes say of its stack. The options' names are those of SGLang 0.5.23's start options."""

import asyncio
import json

from engines.dialect import Answer, Defaults
from engines.facts.gather import gather
from engines.footprint import make

OPTIONS = {
    "model_path": "/models/SmolLM2-135M-Instruct",
    "served_model_name": "smollm2",
    "version": "0.5.23",
    "revision": None,
    "dtype": "bfloat16",
    "quantization": "fp8",
    "kv_cache_dtype": "fp8_e4m3",
    "attention_backend": "fa3",
    "prefill_attention_backend": None,
    "decode_attention_backend": None,
    "disable_radix_cache": False,
    "disable_cuda_graph": True,
    "tp_size": 2,
    "context_length": 4096,
    "sampling_defaults": "model",
    "sampling_backend": "flashinfer",
    "enable_deterministic_inference": True,
    "enable_fp32_lm_head": True,
    "triton_attention_reduce_in_fp32": False,
}
#: Beside the stack in the same reply: credentials, and what every start has anew.
NOISE = {
    "api_key": "sk-secret-key-1",
    "admin_api_key": "secret-admin-2",
    "ssl_keyfile_password": "secret-tls-3",
    "watermark": {"key": "secret-mark-4"},
    "random_seed": 12345,
    "port": 30000,
    "nccl_port": 41234,
    "dist_init_addr": "10.1.2.3:5000",
    "startup_time": 12.5,
    "launch_command": "python -m sglang.launch_server --api-key sk-secret-key-1",
    "internal_states": [{"last_gen_throughput": 1.5, "memory_usage": {}}],
}


def collect(scripted, routes, defaults=Defaults()):  # noqa: B008 - frozen
    return asyncio.run(gather(scripted(routes), "sglang", {"id": "smollm2", "max_model_len": 8192}, defaults))


def footprint(facts):
    return make(facts.probed, facts.inferred, {})


def test_a_stack_with_everything(scripted):
    facts = collect(scripted, {"/server_info": OPTIONS | NOISE, "/model_info": {"model_path": OPTIONS["model_path"]}})
    known = footprint(facts).as_json()
    assert {name: value for name, value in known.items() if value is not None} == {
        "engine": "sglang",
        "version": "0.5.23",
        "model": "SmolLM2-135M-Instruct",
        "dtype": "bf16",
        "quantization": "fp8",
        "kv_cache_dtype": "fp8_e4m3",
        "attention_backend": "fa3",
        "prefix_caching": True,
        "graph_capture": False,
        "accumulation": "lm head fp32",
        "tensor_parallel": 2,
        "config_hash": known["config_hash"],
    }
    assert facts.context_length == 4096
    assert facts.defaults == Defaults()


def test_neither_secrets_nor_the_noise_of_a_start_get_in(scripted):
    facts = collect(scripted, {"/server_info": OPTIONS | NOISE})
    assert "secret" not in json.dumps(footprint(facts).as_json())
    assert "10.1.2.3" not in str(facts)
    other = {**NOISE, "random_seed": 6, "port": 30001, "startup_time": 9.0, "nccl_port": 4, "internal_states": []}
    again = collect(scripted, {"/server_info": OPTIONS | other})
    assert footprint(again).id == footprint(facts).id


def test_an_option_that_counts_and_has_no_field_changes_the_hash(scripted):
    one = footprint(collect(scripted, {"/server_info": OPTIONS}))
    for name, value in (("enable_deterministic_inference", False), ("chunked_prefill_size", 2048), ("ep_size", 4)):
        other = footprint(collect(scripted, {"/server_info": {**OPTIONS, name: value}}))
        assert other.value("config_hash") != one.value("config_hash"), name


def test_older_names_of_the_routes(scripted):
    facts = collect(scripted, {"/get_server_info": OPTIONS, "/get_model_info": {"model_path": "org/model"}})
    assert (facts.probed["version"], facts.probed["model"]) == ("0.5.23", "org/model")


def test_backends_of_prefill_and_decoding(scripted):
    split = {**OPTIONS, "prefill_attention_backend": "fa3", "decode_attention_backend": "flashinfer"}
    assert (
        collect(scripted, {"/server_info": split}).probed["attention_backend"] == "fa3 (prefill), flashinfer (decode)"
    )
    half = {**OPTIONS, "attention_backend": None, "decode_attention_backend": "triton"}
    assert collect(scripted, {"/server_info": half}).probed["attention_backend"] == "triton"


def test_defaults_that_are_not_the_models(scripted):
    facts = collect(
        scripted, {"/server_info": {**OPTIONS, "sampling_defaults": "openai"}}, Defaults(max_tokens_completions=16)
    )
    assert (facts.defaults.temperature, facts.defaults.top_p, facts.defaults.top_k) == (1.0, 1.0, 0)
    assert facts.defaults.max_tokens_completions == 16


def test_unresolved_options_are_unknown(scripted):
    facts = collect(
        scripted, {"/server_info": {"dtype": "auto", "kv_cache_dtype": "auto", "tp_size": "2", "version": "1"}}
    )
    known = footprint(facts)
    assert [known.value(name) for name in ("dtype", "kv_cache_dtype", "tensor_parallel", "prefix_caching")] == [""] * 4


def test_no_routes_or_other_answers(scripted):
    for routes in (
        {},
        {"/server_info": Answer(200, (), ((0, b"[1]"),))},
        {"/server_info": Answer(401, (), ((0, b"{}"),))},
    ):
        facts = collect(scripted, routes)
        assert facts.probed["model"] == "smollm2"
        assert facts.probed["version"] is None
        assert facts.context_length == 8192
