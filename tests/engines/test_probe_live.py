"""Real engines started twice the same way: one footprint id, one prompt, nothing found, and their true level."""

import asyncio

import pytest

from engines.footprint import difference
from engines.http_fetch import connect
from engines.launch import start_llama, start_reference
from engines.parity import parity
from engines.probe import probe
from engines.registry import detect, dialect
from tests.engine_fixtures import MODEL


def found(url):
    async def main():
        async with connect(url, timeout=120) as fetch:
            return await probe(fetch, dialect(await detect(fetch)))

    return asyncio.run(main())


def check_the_same(one, again):
    assert one.findings == again.findings == ()
    assert one.footprint.id == again.footprint.id
    assert difference(one.footprint, again.footprint) == ()
    held = parity(one.prompt, again.prompt)
    assert (held.same, held.findings) == (True, ())
    assert one.capabilities.level.value == again.capabilities.level.value == "full"
    told = "probed" if one.dialect == "reference" else "unknown"  # our own engine says it, no other does
    assert one.footprint.fact("accumulation").origin.value == told
    for noise in (one.capabilities.cold_warm, one.capabilities.batch_mates):
        assert noise.positions > 0


@pytest.mark.llama
def test_llama_cpp_started_again(llama, smollm2_q4, tmp_path):
    with start_llama(smollm2_q4, alias=MODEL, log=tmp_path / "again.log") as again:
        one, other = found(llama), found(again.url)
    check_the_same(one, other)
    assert one.footprint.origins()["version"] == "probed"
    assert one.footprint.fact("logit_step").value == "fp32"


@pytest.mark.torch
def test_the_reference_engine_started_again(reference_fp32, smollm2_directories, engine_interpreter, tmp_path):
    one = found(reference_fp32)
    model = smollm2_directories["fp32"]
    with start_reference(
        model, served_model_name=MODEL, threads=1, python=engine_interpreter, log=tmp_path / "again.log"
    ) as again:
        other = found(again.url)
    check_the_same(one, other)
    assert one.footprint.fact("dtype").value == "fp32"
    assert one.footprint.fact("tokenizer_hash").origin.value == "probed"
    assert one.capabilities.self_noise < 1e-4


@pytest.mark.vllm
def test_vllm_asked_twice(vllm_bf16):
    one, again = found(vllm_bf16), found(vllm_bf16)
    check_the_same(one, again)
    assert one.footprint.fact("logit_step").value == "bf16"
    assert one.footprint.fact("dtype").origin.value in ("inferred", "probed")
    assert 0 < one.capabilities.self_noise < 0.5
