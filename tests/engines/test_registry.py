"""Dialects by name, and engines recognised by what they say of themselves."""

import asyncio
import json

import pytest

from engines.dialect import Answer, DialectError
from engines.registry import NAMES, detect, dialect


def test_every_name_has_its_dialect():
    assert {"vllm", "llama_cpp", "transformers", "reference", "openai", "sglang", "tgi"} <= set(NAMES)
    for name in NAMES:
        assert dialect(name).name == name
    with pytest.raises(KeyError, match="choose one of"):
        dialect("vlm")


def test_every_configurable_engine_has_a_dialect():
    from typing import get_args

    from proxy.config import EngineName

    assert set(get_args(EngineName)) - {"auto"} == set(NAMES)


@pytest.mark.parametrize(
    ("folder", "name"),
    [("vllm-cpu-bf16", "vllm"), ("llama.cpp-q4_1", "llama_cpp"), ("transformers-serve-fp32", "transformers")],
)
def test_recorded_engines_are_recognised(recorded, scripted, folder, name):
    fetch = scripted({"/v1/models": recorded(folder, "models").answer})
    assert asyncio.run(detect(fetch)) == name
    assert len(fetch.calls) == 1


def test_recognised_without_a_telling_model_list(recorded, scripted):
    unnamed = {"data": [{"id": "m", "owned_by": "organization"}]}
    props = recorded("llama.cpp-q4_1", "props").answer
    for routes, name in (
        ({"/v1/models": unnamed}, "openai"),
        ({"/v1/models": {"data": [{"id": "m", "owned_by": "parhelion"}]}}, "reference"),
        ({"/v1/models": unnamed, "/props": props}, "llama_cpp"),
        ({"/version": {"version": "0.32.0"}}, "vllm"),
        ({"/version": {"version": "1", "engine": "parhelion-reference"}}, "reference"),
        ({"/info": {"model_id": "m", "max_concurrent_requests": 128}}, "tgi"),
        ({"/v1/models": {"data": [{"id": "m", "owned_by": "library"}]}}, "ollama"),
        ({"/v1/models": {"data": [{"id": "m", "owned_by": "sglang"}]}}, "sglang"),
        ({"/v1/models": {"data": [{"id": "m", "owned_by": "lmdeploy"}]}}, "lmdeploy"),
        # SGLang has Ollama's routes too
        ({"/model_info": {"model_path": "m", "is_generation": True}, "/api/version": {"version": "1"}}, "sglang"),
        ({"/v1/models": unnamed, "/get_model_info": {"model_path": "m", "is_generation": True}}, "sglang"),
    ):
        assert asyncio.run(detect(scripted(routes))) == name


@pytest.mark.parametrize(
    ("routes", "reason"),
    [
        ({"/v1/models": Answer(0, failure="refused")}, "refused"),
        ({"/v1/models": Answer(401, (), ((0, b"{}"),))}, "status_401"),
        ({"/v1/models": Answer(200, (), ((0, b"<html>"),))}, "not_an_engine"),
        ({}, "not_an_engine"),
    ],
)
def test_what_is_no_engine(scripted, routes, reason):
    with pytest.raises(DialectError) as error:
        asyncio.run(detect(scripted(routes)))
    assert error.value.reason == reason


def test_the_recording_is_what_the_test_thinks(recorded):
    assert json.loads(recorded("vllm-cpu-bf16", "models").answer.body)["data"][0]["owned_by"] == "vllm"


def test_a_server_that_says_it_is_tensorrt_llm(scripted):
    assert (
        asyncio.run(detect(scripted({"/v1/models": {"data": [{"id": "m", "owned_by": "tensorrt_llm"}]}})))
        == "tensorrt_llm"
    )
