"""Recorded replies for the tests of the dialects, as ``Answer`` values."""

import json
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
ENDINGS = {"completions": Endpoint.COMPLETIONS}


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
        last = self.path.rpartition("/")[2]
        return Endpoint(last) if last in {one.value for one in Endpoint} else ENDINGS.get(last, Endpoint.OTHER)

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
REPLIES = [case for case in ALL if case.endpoint.by_token]


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


@pytest.fixture(scope="session")
def llama(smollm2_q4, tmp_path_factory):
    """A llama.cpp server on loopback: its base URL."""
    from engines.launch import start_llama

    with start_llama(smollm2_q4, alias="smollm2-135m", log=tmp_path_factory.mktemp("llama") / "server.log") as engine:
        yield engine.url
