"""Responses, messages and embeddings through the proxy, answered by real llama.cpp servers: Q4_1 answers, F32 and Q4_1 again are asked too."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from engines.launch import start_llama
from proxy.demo import weights
from tests.engine_fixtures import MODEL
from tests.running import parhelion, post, until

pytestmark = [pytest.mark.slow, pytest.mark.llama, pytest.mark.timeout(600)]

QUESTION = [{"role": "user", "content": "Write two sentences about halos around the sun."}]
TOOL = {"name": "note", "description": "Keep a note", "parameters": {"type": "object", "required": ["text"]}}
BODIES = [
    ("embeddings", {"model": MODEL, "input": ["Halos form around the sun.", "Bread needs flour."]}),
    ("embeddings", {"model": MODEL, "input": "Ice crystals", "encoding_format": "base64"}),
    ("responses", {"model": MODEL, "input": QUESTION[0]["content"], "temperature": 0, "max_output_tokens": 16}),
    ("responses", {"model": MODEL, "input": "Hello", "temperature": 0, "max_output_tokens": 12, "stream": True}),
    ("messages", {"model": MODEL, "messages": QUESTION, "temperature": 0, "max_tokens": 16}),
    ("messages", {"model": MODEL, "messages": QUESTION, "temperature": 0, "max_tokens": 16, "stream": True}),
    ("responses", {"model": MODEL, "input": "Hello", "temperature": 0, "tools": [{"type": "function", **TOOL}], "max_output_tokens": 64}),
]  # fmt: skip


def test_real_engines_on_every_route_they_have(smollm2_q4: Path, tmp_path: Path) -> None:
    full = weights.f32(smollm2_q4, print)
    with ExitStack() as stack:
        urls = [
            stack.enter_context(
                start_llama(
                    model, alias=MODEL, extra=("--no-prompt-cache", "--embeddings"), log=tmp_path / f"{name}.log"
                )
            ).url
            for name, model in (("primary", smollm2_q4), ("f32", full), ("control", smollm2_q4))
        ]
        shadows = [
            {"name": "f32", "url": urls[1], "modes": ["free"]},
            {"name": "control", "role": "control", "url": urls[2], "modes": ["free"]},
        ]
        proxy = stack.enter_context(parhelion(tmp_path, urls[0], shadows))
        proxy.wait_known(["primary", "f32", "control"], 120)
        for path, body in BODIES:
            status, _, reply = post(f"{proxy.clients}/v1/{path}", body)
            assert status == 200, (path, body, reply)
        until(lambda: proxy.metric("parhelion_sampled_total") == len(BODIES), 30, "the sampling")
        until(lambda: proxy.open_work() == 0, 180, "the settling")
        f32, control = (shadow["modes"]["free"] for shadow in proxy.report()["shadows"])
        for free in (f32, control):
            assert (free["requests"], free["incomparable"], free["shed"]) == (len(BODIES), {}, {})
            assert free["embeddings"]["vectors"] == 3
        # The control is the same build on the same weights: whatever it says otherwise would be a fault of reading.
        assert sum(control["divergences"].values()) == control["measured"] == 0
        assert control["identical"] + control["censored"] == len(BODIES)
        assert control["embeddings"]["element_error"]["max"] == 0.0
        assert f32["measured"] == 2
        assert 1e-6 < f32["embeddings"]["cosine_distance"]["max"] < 0.1  # activations of 8 bits
        print(f"\nf32: {f32['embeddings']}, {f32['divergences']}, {f32.get('tools')}")
