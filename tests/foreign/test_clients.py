"""OpenAI's clients for Python and Node, LangChain and LiteLLM get through Parhelion what they get from the engine."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import programs
from tests.engine_fixtures import MODEL
from tests.foreign.twice import HERE, Front, counted, counts, results, same

pytestmark = [pytest.mark.slow, pytest.mark.llama, pytest.mark.vllm, pytest.mark.torch, pytest.mark.timeout(600)]

OPENAI_LLAMA = "models chat stream left structured completions embeddings responses responses_stream refused together"
OPENAI_VLLM = "choices stream tools tools_stream tools_answered responses_stream refused"
#: Calls to inference routes, where a feature makes more or less than one.
CALLS = {
    "models": 0,
    "together": 4,
    "embeddings": 2,
    ("langchain", "batch"): 3,
    ("langchain", "tools"): 2,
    ("litellm", "asynchronous"): 3,
    ("litellm", "embeddings"): 1,
}


def python(name: str, script: str) -> Callable[[], list[str | Path]]:
    return lambda: [programs.need(programs.ALL[name]) / "python", "-P", HERE / script]


def node() -> list[str | Path]:
    folder = programs.need(programs.ALL["openai-node"])
    return [programs.need(programs.ALL["node"]), HERE / "openai_node.mjs", folder]


CLIENTS = {
    "openai_python": python("openai-python", "openai_python.py"),
    "openai_node": node,
    "langchain": python("langchain", "langchain_client.py"),
    "litellm": python("litellm-client", "litellm_client.py"),
}


@pytest.mark.parametrize(
    ("client", "features", "compared"),
    [
        ("openai_python", OPENAI_LLAMA + " events", 6),
        ("openai_node", OPENAI_LLAMA, 6),
        ("langchain", "invoke stream batch asynchronous structured embeddings", 4),
        ("litellm", "chat stream asynchronous completions structured embeddings", 4),
    ],
)
def test_from_llama_cpp_a_client_gets_the_same(client: str, features: str, compared: int, llama: Front) -> None:
    gets_the_same(client, features.split(), llama, compared)


@pytest.mark.parametrize(
    ("client", "features", "compared"),
    [
        ("openai_python", OPENAI_VLLM, 1),
        ("openai_node", OPENAI_VLLM, 1),
        ("langchain", "tools", 0),
        ("litellm", "tools refused", 0),
    ],
)
def test_from_vllm_a_client_gets_the_same(client: str, features: str, compared: int, vllm: Front) -> None:
    gets_the_same(client, features.split(), vllm, compared)


def gets_the_same(client: str, names: list[str], front: Front, compared: int) -> None:
    """Run the features twice and compare their results; at least ``compared`` calls must have been compared with the shadow."""
    before = counts(front)
    direct, through = results([*CLIENTS[client](), MODEL, ",".join(names)], front)
    assert list(direct) == names
    for name in names:
        assert same(through[name], direct[name], front.within), f"{name}:\n{through[name]}\n{direct[name]}"
        assert len(json.dumps(direct[name])) > 10, name
    counted(front, before, sum(CALLS.get((client, name), CALLS.get(name, 1)) for name in names), compared=compared)
    print(f"{client}: the same results of {', '.join(names)}")
