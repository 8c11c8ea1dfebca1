"""Differences planted in a real engine by its own options, found under their names by ``check``'s canaries; and none between a real engine and its like."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engines.launch import start_llama, start_reference
from proxy.app.canaries import ask_about, told
from proxy.app.seen import ask_all
from proxy.config import Config, Primary, Shadow
from tests.engine_fixtures import MODEL

pytestmark = [pytest.mark.slow, pytest.mark.torch, pytest.mark.timeout(600)]


def own_template(model: Path) -> str:
    alone = model / "chat_template.jinja"
    if alone.is_file():
        return alone.read_text(encoding="utf-8")
    return str(json.loads((model / "tokenizer_config.json").read_text(encoding="utf-8"))["chat_template"])


@pytest.fixture(scope="module")
def planted(
    smollm2_directories: dict[str, Path], engine_interpreter: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The reference engine on the same weights, its begin token twice, and greedy where a request does not say: its base URL."""
    folder, model = tmp_path_factory.mktemp("planted"), smollm2_directories["fp32"]
    (folder / "twice.jinja").write_text("<|im_start|>" + own_template(model), encoding="utf-8")
    options = ("--chat-template", str(folder / "twice.jinja"), "--temperature", "0.25")
    with start_reference(
        model,
        served_model_name=MODEL,
        threads=1,
        python=engine_interpreter,
        extra=options,
        log=folder / "log",
        wait=False,
    ) as engine:
        yield engine.wait_ready().url


def found(primary: str, **shadows: str) -> dict[str, list[dict[str, Any]]]:
    async def held() -> dict[str, list[dict[str, Any]]]:
        arms = tuple(Shadow(name=name, url=url) for name, url in shadows.items())
        config = Config(primary=Primary(url=primary), shadows=arms)
        seen = await ask_all(config)
        by_name = await ask_about(config, seen)
        return {one.name: told(by_name[one.name], seen[0], one) for one in seen[1:]}

    return asyncio.run(held())


def test_what_is_planted_in_a_real_engine_is_found_under_its_name(reference_fp32: str, planted: str) -> None:
    seen = found(reference_fp32, same=reference_fp32, other=planted)
    assert seen["same"] == []
    names = [one["finding"] for one in seen["other"]]
    assert names == ["prompt_double_bos", "prompt_tokens", "sampling_defaults"]
    assert seen["other"][0]["evidence"]["arm"] == "shadow"
    defaults = seen["other"][2]["evidence"]
    assert (defaults["temperature_shadow"], defaults["neutralised"]) == (0.25, True)


@pytest.mark.vllm
def test_a_real_vllm_differs_in_nothing_from_itself(vllm_bf16: str) -> None:
    assert found(vllm_bf16, same=vllm_bf16) == {"same": []}


@pytest.mark.llama
def test_a_real_llama_cpp_differs_in_nothing_from_another(smollm2_q4: Path, tmp_path: Path) -> None:
    with (
        start_llama(smollm2_q4, alias=MODEL, log=tmp_path / "one.log") as one,
        start_llama(smollm2_q4, alias=MODEL, log=tmp_path / "other.log") as other,
    ):
        assert found(one.url, same=other.url) == {"same": []}
