"""Ollama's own routes: what is a fact, what fills gaps, and what is left."""

import asyncio

import pytest

from engines.facts.gather import gather
from engines.ollama import DIALECT

PARAMETERS = 'stop                           "<|eot_id|>"\ntemperature                    0.6\ntop_k                          20\nrepeat_penalty 1.1'


def routes(*, level="Q4_K_M", size=100, on_gpu=100, parameters=PARAMETERS):
    loaded = {"name": "llama3:8b", "model": "llama3:8b", "digest": "365c0bd3c000a25d28ddbf732fe1c6ad", "size": size}
    return {
        "/api/version": {"version": "0.33.0"},
        "/api/show": lambda body: (
            {
                "details": {"quantization_level": level, "format": "gguf"},
                "parameters": parameters,
                "template": "{{ .Prompt }}",
                "license": "long",
            }
            | ({} if body == {"model": "llama3:8b"} else {"details": {}})
        ),
        "/api/ps": {"models": [{"name": "other"}, {**loaded, "size_vram": on_gpu, "context_length": 4096}]},
    }


def collect(scripted, table):
    return asyncio.run(gather(scripted(table), "ollama", {"id": "llama3:8b"}, DIALECT.defaults))


def test_what_it_shows(scripted):
    facts = collect(scripted, routes())
    assert facts.probed["version"] == "0.33.0"
    assert (facts.probed["quantization"], facts.probed["dtype"]) == ("Q4_K_M", None)
    assert (facts.probed["revision"], facts.context_length) == ("365c0bd3c000", 4096)
    assert facts.inferred["prefix_caching"] is True
    assert "gpu" not in facts.probed


def test_v1_sends_its_own_temperature_and_the_modelfile_the_rest(scripted):
    facts = collect(scripted, routes())
    known = facts.defaults
    assert (known.temperature, known.top_p, known.top_k, known.repetition_penalty) == (1.0, 1.0, 20, 1.1)
    assert collect(scripted, routes(parameters=None)).defaults.top_k == 40


@pytest.mark.parametrize(("level", "dtype"), [("F16", "fp16"), ("BF16", "bf16"), ("f32", "fp32")])
def test_plain_weights_are_not_quantized(scripted, level, dtype):
    facts = collect(scripted, routes(level=level))
    assert (facts.probed["quantization"], facts.probed["dtype"]) == ("unquantized", dtype)


@pytest.mark.parametrize(("on_gpu", "said"), [(0, "none"), (40, "in part")])
def test_a_model_that_does_not_lie_on_the_gpu(scripted, on_gpu, said):
    assert collect(scripted, routes(on_gpu=on_gpu)).probed["gpu"] == said


def test_another_template_is_another_stack(scripted):
    changed = {**routes(), "/api/show": {"details": {}, "template": "{{ .System }}", "parameters": PARAMETERS}}
    one, other = collect(scripted, routes()), collect(scripted, changed)
    assert one.probed["config_hash"] != other.probed["config_hash"]
    assert one.probed["config_hash"] == collect(scripted, routes()).probed["config_hash"]


def test_nothing_is_shown(scripted):
    facts = collect(scripted, {"/api/ps": {"models": "x"}, "/api/version": {"version": None}})
    assert facts.probed["version"] is None
    assert "config_hash" not in facts.probed
    assert facts.defaults == DIALECT.defaults
