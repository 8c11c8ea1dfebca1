"""The probe finds in every healthy scripted engine what its dialect can do, and nothing that is wrong; and what is planted under its own name."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from engines.footprint import Fact, Origin
from engines.probe import Probe, probe
from engines.registry import dialect
from engines.scripted.writers.registry import NAMES
from tests.engines.scripted.playing import engine, fetching, script

#: What a dialect has no means to do is said, and is no fault: token ids, scoring, logprobs.
CANNOT = {
    "ollama": {"no_forced_scoring"},
    "openai": {"no_forced_scoring"},
    "tensorrt_llm": {"no_forced_scoring"},
    "tgi": {"no_forced_scoring"},
    "transformers": {"no_logprobs"},
}
WITH_IDS = {"vllm", "sglang", "llama_cpp", "lmdeploy", "reference"}


def probed(name: str, **differences: Any) -> Probe:
    played = engine(script(differences=differences))
    return asyncio.run(probe(fetching(name, played), dialect(name)))


def findings(found: Probe) -> set[str]:
    return {one.finding for one in found.findings}


@pytest.mark.parametrize("name", NAMES)
def test_a_healthy_engine_is_found_to_be_what_it_is(name: str) -> None:
    found = probed(name)
    seen = found.capabilities
    assert findings(found) == CANNOT.get(name, set())
    assert found.model == "toy"
    assert seen.token_ids == (name in WITH_IDS)
    assert seen.forced == (name in WITH_IDS)
    assert seen.self_noise == (0.0 if name in WITH_IDS else None)
    assert seen.text_only == (name == "transformers")
    if name != "transformers":
        assert seen.rows_per_token
        assert seen.stream_same
        assert seen.logprob_mode == ("processed" if name in ("sglang", "tgi") else "raw")
        assert seen.logits_step == "fp32"


@pytest.mark.parametrize("name", ["vllm", "openai", "tgi", "llama_cpp"])
def test_rows_shifted_in_streams_are_found_under_their_name(name: str) -> None:
    assert findings(probed(name, shifted_rows=True)) == {"logprob_alignment"} | CANNOT.get(name, set())


@pytest.mark.parametrize("name", ["vllm", "llama_cpp", "reference"])
def test_temperature_scaled_values_are_seen(name: str) -> None:
    assert probed(name, processed_logprobs=True).capabilities.logprob_mode == "processed"
    assert probed(name, precision="bf16").capabilities.logits_step == "bf16"


@pytest.mark.parametrize("name", ["vllm", "llama_cpp", "sglang", "tgi"])
def test_another_template_is_another_hash(name: str) -> None:
    well = probed(name).footprint
    for planted in ({"double_bos": True}, {"template": {"turn": "[{role}] {content}\n", "open": "[assistant] "}}):
        other = probed(name, **planted).footprint
        assert other.value("chat_template_hash") != well.value("chat_template_hash")
        assert other.value("tokenizer_hash") == well.value("tokenizer_hash")


def test_no_secret_of_an_engine_gets_into_its_footprint() -> None:
    secrets = {"api_key": "sk-secret-1", "admin_api_key": "sk-secret-2", "ssl_keyfile_password": "sk-secret-3"}
    for name, route in (
        ("sglang", "/server_info"),
        ("tgi", "/info"),
        ("llama_cpp", "/props"),
        ("reference", "/server_info"),
    ):
        played = engine(script(routes={route: {**secrets, "dtype": "bfloat16"}}))
        found = asyncio.run(probe(fetching(name, played), dialect(name)))
        assert "sk-secret" not in str(found.footprint.as_json()), name
        assert "sk-secret" not in str(found.findings)


@pytest.mark.parametrize("name", ["sglang", "reference", "lmdeploy"])
@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_an_engine_tells_the_number_format_it_computes_in(name: str, precision: str) -> None:
    assert probed(name, precision=precision).footprint.fact("dtype") == Fact(precision, Origin.PROBED)


def test_an_engine_restarted_with_other_flags_has_another_footprint() -> None:
    played = engine(script(routes={"/server_info": {"dtype": "bfloat16", "attention_backend": "fa3"}}))
    other = asyncio.run(probe(fetching("sglang", played), dialect("sglang"))).footprint
    well = probed("sglang").footprint
    assert (other.value("dtype"), other.value("attention_backend")) == ("bf16", "fa3")
    assert other.id != well.id
    assert probed("sglang").footprint.id == well.id
