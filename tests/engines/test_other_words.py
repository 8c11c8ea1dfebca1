"""The whole proxy between engines that speak otherwise: one model behind each of them is the same model, and Ollama's own routes are compared too."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.running import parhelion, post, scripted
from tests.whole import law, settle

pytestmark = pytest.mark.slow

CHAT = {
    "model": "toy",
    "messages": [{"role": "user", "content": "What of the world?"}],
    "temperature": 0,
    "max_tokens": 8,
}
#: What the others would refuse, misread or overlook, were it sent to them as it stands.
CLIENTS = (
    {"logprobs": True, "top_logprobs": 3},
    {"logprobs": True, "top_logprobs": 8, "stream": True, "presence_penalty": 0.0, "frequency_penalty": 0.0},
    {"logprobs": True, "top_logprobs": 2, "stop": "\n\n", "top_p": 1.0, "top_k": -1, "n": 1},
)
OTHERS = ("ollama", "tgi", "tensorrt_llm")


def test_a_request_to_vllm_means_the_same_to_the_others(tmp_path: Path) -> None:
    with ExitStack() as started:
        primary, *urls = (started.enter_context(scripted(name)) for name in ("vllm", *OTHERS))
        arms = [{"name": name, "url": url, "modes": ["free"]} for name, url in zip(OTHERS, urls, strict=True)]
        proxy = started.enter_context(parhelion(tmp_path, primary, arms))
        proxy.wait_known(["primary", *OTHERS], 60)
        for change in CLIENTS:
            post(f"{proxy.clients}/v1/chat/completions", CHAT | change)
        settle(proxy, len(CLIENTS))
        law(proxy, [(name, "free") for name in OTHERS])
        for shadow in proxy.report()["shadows"]:
            free = shadow["modes"]["free"]
            assert (shadow["name"], shadow["findings"], free["incomparable"]) == (shadow["name"], [], {})
            assert (free["identical"], free["tokens_compared"]) == (len(CLIENTS), 8 * len(CLIENTS)), shadow["name"]
            assert free["logprob_error_nats"]["max"] < 1e-6, shadow["name"]


def test_two_ollamas_on_their_own_route(tmp_path: Path) -> None:
    own = {"model": "toy", "messages": CHAT["messages"], "options": {"temperature": 0, "num_predict": 8}}
    with scripted("ollama") as primary, scripted("ollama") as candidate:
        arms = [{"name": "cand", "url": candidate, "modes": ["free"]}]
        with parhelion(tmp_path, primary, arms) as proxy:
            proxy.wait_known(["primary", "cand"], 60)
            for change in (
                {"stream": False, "logprobs": True, "top_logprobs": 3},
                {"logprobs": True, "top_logprobs": 2},
            ):
                replies = [post(f"{url}/api/chat", own | change) for url in (proxy.clients, primary)]
                assert replies[0] == replies[1]
            settle(proxy, 2)
            law(proxy, [("cand", "free")])
            (shadow,) = proxy.report()["shadows"]
            free = shadow["modes"]["free"]
            assert (shadow["findings"], free["incomparable"], free["identical"]) == ([], {}, 2)
            assert free["tokens_compared"] == 16
