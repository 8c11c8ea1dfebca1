"""Three engines with a proxy before each, started when first asked for and kept for this folder's tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from engines.launch import start_llama
from tests.engine_fixtures import MODEL
from tests.foreign.twice import Front
from tests.running import parhelion


@contextmanager
def _front(
    directory: Path, engine: str, shadow: str, *modes: str, within: float = 0.0, lumps: bool = False
) -> Iterator[Front]:
    """All sampled. Without the forced mode the primary is asked nothing on the mirror's account, so that its own batches stay the client's."""
    arm = {"name": "shadow", "url": shadow, "modes": list(modes)}
    with parhelion(directory, engine, [arm]) as proxy:
        proxy.wait_known(["primary", "shadow"], 120)
        yield Front(engine, proxy, "shadow", modes, within, lumps)


@pytest.fixture(scope="package")
def llama_embedding(smollm2_q4: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A llama.cpp that answers embedding requests too: its base URL."""
    log = tmp_path_factory.mktemp("llama") / "engine.log"
    with start_llama(smollm2_q4, alias=MODEL, extra=("--no-prompt-cache", "--embeddings"), log=log) as engine:
        yield engine.url


@pytest.fixture(scope="package")
def llama(llama_embedding: str, reference_fp32: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    """llama.cpp answers; the reference engine is the shadow."""
    with _front(tmp_path_factory.mktemp("front"), llama_embedding, reference_fp32, "free") as front:
        yield front


@pytest.fixture(scope="package")
def vllm(vllm_fp32: str, reference_fp32: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    """vLLM answers; the reference engine is the shadow."""
    with _front(tmp_path_factory.mktemp("front"), vllm_fp32, reference_fp32, "free", within=1e-4, lumps=True) as front:
        yield front


@pytest.fixture(scope="package")
def reference(reference_fp32: str, llama_embedding: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    """The reference engine answers; llama.cpp is the shadow."""
    with _front(tmp_path_factory.mktemp("front"), reference_fp32, llama_embedding, "free") as front:
        yield front
