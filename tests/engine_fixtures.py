"""Real engines for tests, one of each kind a session, as base URLs; started when first asked for.

Weights: the demo's SmolLM2-135M-Instruct (Q4_1), and the same as safetensors in fp32 and bf16, kept in PARHELION_MODELS or the user's cache. vLLM and the
reference engine run in the interpreter PARHELION_VLLM_PYTHON, else ``.venv-vllm/bin/python`` beside the sources. What is missing is skipped, and fails the
run when CI=true.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NoReturn

import pytest

from engines.launch import engine_python, has_package, start_reference, start_vllm
from engines.process import EngineError, EngineProcess
from engines.weights_gguf import huggingface_directories
from proxy.demo.weights import WeightsError, fetch, models_directory

MODEL = "smollm2-135m"
CONTEXT = 2048
ENGINES = ("reference_fp32", "vllm_bf16", "vllm_fp32")


def missing(reason: str) -> NoReturn:
    """Skip, or fail where nothing may be missing."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI=true and {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="session")
def engine_interpreter() -> str:
    """The Python that has vLLM, torch and Transformers."""
    python = engine_python()
    try:
        complete = has_package(python, "vllm") and has_package(python, "torch")
    except EngineError as wrong:
        missing(f"PARHELION_VLLM_PYTHON does not run: {wrong}")
    if not complete:
        missing(f"{python} has no vLLM: run `make vllm-env`, or set PARHELION_VLLM_PYTHON")
    return python


@pytest.fixture(scope="session")
def smollm2_q4() -> Path:
    """The Q4_1 GGUF file."""
    try:
        return fetch(models_directory(), print)
    except WeightsError as wrong:
        missing(str(wrong))


@pytest.fixture(scope="session")
def smollm2_directories(smollm2_q4: Path, engine_interpreter: str) -> dict[str, Path]:
    """The same weights in Hugging Face's layout: ``fp32`` and ``bf16``."""
    return huggingface_directories(smollm2_q4, models_directory(), ("fp32", "bf16"), python=engine_interpreter)


def _start(name: str, directories: dict[str, Path], python: str, log: Path) -> EngineProcess:
    match name:
        case "reference_fp32":
            model = directories["fp32"]
            # Healthy at its own address; whoever wants a known fault, or the whole truth, asks for it by another.
            extra = ("--planted-routes", "--full-vocabulary")
            return start_reference(
                model, served_model_name=MODEL, threads=1, python=python, extra=extra, log=log, wait=False
            )
        case "vllm_fp32":
            return _vllm(directories["fp32"], "float32", python, log)
        case "vllm_bf16":
            return _vllm(directories["bf16"], "bfloat16", python, log)
    raise AssertionError(name)


def _vllm(model: Path, dtype: str, python: str, log: Path) -> EngineProcess:
    return start_vllm(
        model,
        dtype=dtype,
        served_model_name=MODEL,
        max_model_len=CONTEXT,
        threads=1,
        python=python,
        extra=(
            "--enforce-eager",
            "--max-num-seqs",
            "16",
            "--enable-auto-tool-choice",
            "--tool-call-parser",
            "pythonic",
        ),
        log=log,
        wait=False,
    )


def _named(parameters: dict[str, object]) -> set[str]:
    """The engines that a parametrised test asks for by name, in a tuple."""
    tuples = [value for value in parameters.values() if isinstance(value, tuple)]
    return {word for value in tuples for word in value if isinstance(word, str)} & set(ENGINES)


@pytest.fixture(scope="session")
def _engines(
    request: pytest.FixtureRequest,
    smollm2_directories: dict[str, Path],
    engine_interpreter: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[dict[str, EngineProcess]]:
    """Every engine that a test of this run asks for, all started at once: each takes most of a minute to load."""
    asked = set()
    for item in request.session.items:
        asked.update(getattr(item, "fixturenames", ()))
        asked.update(_named(getattr(getattr(item, "callspec", None), "params", {})))
    logs = tmp_path_factory.mktemp("engines")
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(_start(name, smollm2_directories, engine_interpreter, logs / f"{name}.log"))
            for name in ENGINES
            if name in asked
        }


@pytest.fixture(scope="session")
def reference_fp32(_engines: dict[str, EngineProcess]) -> str:
    """The reference engine in fp32: its base URL."""
    return _engines["reference_fp32"].wait_ready().url


@pytest.fixture(scope="session")
def vllm_bf16(_engines: dict[str, EngineProcess]) -> str:
    """A real vLLM in bf16: its base URL."""
    return _engines["vllm_bf16"].wait_ready().url


@pytest.fixture(scope="session")
def vllm_fp32(_engines: dict[str, EngineProcess]) -> str:
    """A real vLLM in fp32: its base URL."""
    return _engines["vllm_fp32"].wait_ready().url
