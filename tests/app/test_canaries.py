"""What ``check`` finds between a primary and a shadow: what is planted, by its name and layer, and nothing on an identical pair."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest

from proxy.app.canaries import ask_about, told
from proxy.app.seen import ask_all
from proxy.config import Config, Primary, Shadow
from tests.planted import serving


async def held(primary: str, shadow: str, engines: tuple[str, str]) -> list[dict[str, Any]]:
    async with AsyncExitStack() as stack:
        urls = [
            await stack.enter_async_context(serving(script, engine))
            for script, engine in zip((primary, shadow), engines, strict=True)
        ]
        config = Config(primary=Primary(url=urls[0]), shadows=(Shadow(name="cand", url=urls[1]),))
        seen = await ask_all(config)
        found = await ask_about(config, seen)
        return told(found["cand"], seen[0], seen[1])


def found(
    differences: str = "", *, primary: str = "{}", engines: tuple[str, str] = ("vllm", "vllm")
) -> list[dict[str, Any]]:
    script = f"differences: {{{differences}}}" if differences else "{}"
    return asyncio.run(held(primary, script, engines))


@pytest.mark.parametrize("engines", [("vllm", "vllm"), ("llama_cpp", "llama_cpp"), ("vllm", "llama_cpp")], ids="-".join)
def test_engines_that_differ_in_nothing_give_no_finding(engines: tuple[str, str]) -> None:
    seen = found(engines=engines)
    if engines[0] == engines[1]:
        assert seen == []
    else:  # what their documents say of omitted fields differs, and nothing else does
        assert {one["finding"] for one in seen} <= {"sampling_defaults", "output_length"}


@pytest.mark.parametrize(
    ("name", "layer", "differences", "evidence"),
    [
        ("prompt_double_bos", "prompt", "double_bos: true", {"arm": "shadow", "begin_token": 1}),
        ("prompt_template", "prompt", 'template: {turn: "[{role}] {content}\\n", open: "[a] "}', {"same_before": 1}),
        ("context_truncated", "prompt", "context_cut: 100", {"arm": "shadow", "shadow_tokens": 100}),
        ("stop_handling", "structure", "keep_stop: true", {}),
        ("logprob_mode", "logprobs", "processed_logprobs: true", {"primary": "raw", "shadow": "processed"}),
        ("alternatives_incomplete", "logprobs", "alternatives: duplicated", {}),
    ],
)
def test_what_is_planted_is_found_under_its_name(
    name: str, layer: str, differences: str, evidence: dict[str, Any]
) -> None:
    seen = found(differences)
    assert {one["layer"] for one in seen} == {layer}, seen
    assert {one["finding"] for one in seen} <= {name, "prompt_tokens"}  # and under no other
    (mine,) = [one for one in seen if one["finding"] == name]
    assert mine["evidence"].items() >= evidence.items()
    assert mine["remedy"]


def test_another_default_temperature_is_named_with_what_was_done_about_it() -> None:
    (seen,) = found("temperature: 0.3", engines=("llama_cpp", "llama_cpp"))
    assert (seen["finding"], seen["severity"]) == ("sampling_defaults", "notice")
    assert seen["evidence"] == {"temperature_primary": 0.8, "temperature_shadow": 0.3, "neutralised": True}
    assert "On cand (llama_cpp): --temp" in seen["remedy"]


def test_an_engine_that_cannot_be_used_is_left_out() -> None:
    async def alone() -> None:
        async with serving("{}") as url:
            config = Config(primary=Primary(url=url), shadows=(Shadow(name="gone", url="http://127.0.0.1:1"),))
            assert await ask_about(config, await ask_all(config)) == {}

    asyncio.run(alone())
