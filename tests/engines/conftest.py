"""Recorded replies for the tests of the dialects, as ``Answer`` values."""

import json
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from engines.dialect import Answer, Endpoint

RECORDED = Path(__file__).parents[1] / "fixtures"
DIALECTS = {
    "vllm-cpu-bf16": "vllm",
    "vllm-cpu-fp32": "vllm",
    "llama.cpp-q4_1": "llama_cpp",
    "llama.cpp-f32": "llama_cpp",
    "transformers-serve-fp32": "transformers",
}


@dataclass(frozen=True)
class Case:
    """One recorded exchange."""

    folder: str
    name: str
    path: str
    method: str
    request: dict
    answer: Answer

    @property
    def dialect(self):
        return DIALECTS[self.folder]

    @property
    def endpoint(self):
        if self.path.endswith("/chat/completions"):
            return Endpoint.CHAT
        return Endpoint.COMPLETIONS if self.path.endswith("/completions") else Endpoint.OTHER

    def __str__(self):
        return f"{self.folder}/{self.name}"


def load(folder, name):
    head = json.loads((RECORDED / folder / f"{name}.headers.json").read_text())
    files = [RECORDED / folder / f"{name}.{kind}" for kind in ("json", "sse", "txt")]
    body = next((file.read_bytes() for file in files if file.exists()), b"")
    request = head["request"].get("body")
    headers = tuple((key.lower(), value) for key, value in head["response"]["headers"])
    return Case(
        folder=folder,
        name=name,
        path=head["request"]["path"],
        method=head["request"]["method"],
        request=request if isinstance(request, dict) else {},
        answer=Answer(head["response"]["status"], headers, ((0, body),)),
    )


ALL = [
    load(file.parent.name, file.name.removesuffix(".headers.json"))
    for file in sorted(RECORDED.glob("*/*.headers.json"))
]
REPLIES = [case for case in ALL if case.endpoint is not Endpoint.OTHER]


def pytest_generate_tests(metafunc):
    if "reply_case" in metafunc.fixturenames:
        metafunc.parametrize("reply_case", REPLIES, ids=str)
    if "any_case" in metafunc.fixturenames:
        metafunc.parametrize("any_case", ALL, ids=str)


@pytest.fixture(scope="session")
def recorded():
    """Give one recorded exchange by folder and name."""

    def get(folder, name):
        return load(folder, name)

    return get


class Scripted:
    """A ``fetch`` that answers from a table by path; ``calls`` are the requests it got. A function is given the body."""

    def __init__(self, **routes):
        self.routes = routes
        self.calls = []

    async def __call__(self, call):
        self.calls.append(call)
        made = self.routes.get(call.path.partition("?")[0], Answer(404, (), ((0, b'{"detail":"Not Found"}'),)))
        if callable(made):
            made = made(call.body)
        if isinstance(made, Answer):
            return made
        return Answer(200, (("content-type", "application/json"),), ((5, json.dumps(made).encode()),))


@pytest.fixture
def scripted():
    """Make a fetch from a table: scripted({"/tokenize": {"tokens": [1]}})."""

    def make(routes):
        return Scripted(**routes)

    return make


def _gguf():
    """The Q4_1 weights: in PARHELION_MODELS or the user's cache, wherever the demo keeps them."""
    from proxy.demo.weights import Q4_1, models_directory

    directory = models_directory()
    found = [directory / Q4_1, *sorted(directory.glob("**/*.gguf"))]
    return next((file for file in found if file.exists() and "q4_1" in file.name.lower()), None)


@pytest.fixture(scope="session")
def llama(tmp_path_factory):
    """A llama.cpp server on loopback: its base URL. Missing weights fail under CI and skip elsewhere."""
    from engines.launch import start_llama

    weights = _gguf()
    if weights is None:
        reason = "no Q4_1 weights: run `make demo` once, or set PARHELION_MODELS to the directory that has them"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    engine = start_llama(weights, alias="smollm2-135m", log=tmp_path_factory.mktemp("llama") / "server.log")
    try:
        yield engine.url
    finally:
        engine.stop()


def _converted(dtype):
    """The same weights as a Hugging Face directory, and the interpreter of the heavy engines; skips or fails without either."""
    from engines.launch import engine_python, has_package
    from engines.weights_gguf import huggingface_directory

    weights, python = _gguf(), engine_python()
    if weights is None or not has_package(python, "torch"):
        reason = "no weights, or no torch: `make vllm-env`, or set PARHELION_VLLM_PYTHON to an interpreter that has it"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    return huggingface_directory(weights, weights.parent, dtype=dtype, python=python), python


@pytest.fixture(scope="session")
def vllm(tmp_path_factory):
    """A vLLM in bf16 on loopback: its base URL."""
    from engines.launch import has_package, start_vllm

    directory, python = _converted("bf16")
    if not has_package(python, "vllm"):
        (pytest.fail if os.environ.get("CI") else pytest.skip)("no vllm beside that torch: `make vllm-env`")
    engine = start_vllm(
        directory,
        dtype="bfloat16",
        served_model_name="smollm2-135m",
        max_model_len=2048,
        threads=1,
        python=python,
        extra=["--enforce-eager", "--max-num-seqs", "4"],
        log=tmp_path_factory.mktemp("vllm") / "server.log",
    )
    try:
        yield engine.url
    finally:
        engine.stop()


@pytest.fixture(scope="session")
def reference_engine(tmp_path_factory):
    """Our reference engine in fp32 on loopback: its base URL."""
    from engines.launch import start_reference

    directory, python = _converted("fp32")
    log = tmp_path_factory.mktemp("reference") / "server.log"
    engine = start_reference(directory, served_model_name="smollm2-135m", threads=1, python=python, log=log)
    try:
        yield engine.url
    finally:
        engine.stop()
