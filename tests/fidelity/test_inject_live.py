"""``inject`` before real engines: the same request past the proxy and through it gives the same reply, byte for byte but for what two replies never share."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import uvloop

from proxy.config import EngineName, Primary
from proxy.counters import Slot
from tests.fidelity import reading
from tests.wire.client import ask, post
from tests.wire.proxied import proxied

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
FRANCE = [{"role": "user", "content": "What is the capital of France?"}]
PARTY = [{"role": "user", "content": "Repeat exactly: 🎉🥳 日本語 naïve Ω"}]
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]
USAGE = {"stream": True, "stream_options": {"include_usage": True}}

#: (route, what is added to a greedy request for 8 tokens, whether it is enlarged)
SHARED: dict[str, tuple[str, dict[str, Any], bool]] = {
    "chat": (CHAT, {"messages": FRANCE}, True),
    "chat of many bytes": (CHAT, {"messages": PARTY}, True),
    "chat stream": (CHAT, {"messages": FRANCE, "stream": True}, True),
    "chat stream of many bytes": (CHAT, {"messages": PARTY, "stream": True}, True),
    "chat stream with usage": (CHAT, {"messages": FRANCE, **USAGE}, True),
    "chat that stops": (CHAT, {"messages": FRANCE, "stop": ["France", "is"]}, True),
    "chat stream that stops": (CHAT, {"messages": FRANCE, "stop": ["France", "is"], "stream": True}, True),
    "chat with tools it may not call": (CHAT, {"messages": FRANCE, "tools": TOOLS, "tool_choice": "none"}, True),
    "chat with logprobs": (CHAT, {"messages": FRANCE, "logprobs": True, "top_logprobs": 0}, True),
    "chat with one alternative": (CHAT, {"messages": FRANCE, "logprobs": True, "top_logprobs": 1}, True),
    "chat stream with one alternative": (
        CHAT,
        {"messages": FRANCE, "logprobs": True, "top_logprobs": 1, "stream": True},
        True,
    ),
    "chat with five alternatives": (CHAT, {"messages": FRANCE, "logprobs": True, "top_logprobs": 5}, True),
    "chat without logprobs": (CHAT, {"messages": FRANCE, "logprobs": False, "top_logprobs": None}, True),
    "chat of one token": (CHAT, {"messages": FRANCE, "max_tokens": 1, "stream": True}, True),
    "completion": (COMPLETIONS, {"prompt": "Once upon"}, True),
    "completion stream": (COMPLETIONS, {"prompt": "Once upon", "stream": True}, True),
    "completion stream with usage": (COMPLETIONS, {"prompt": "Once upon", **USAGE}, True),
    "completion that stops": (COMPLETIONS, {"prompt": "Once upon", "stop": [" time", "a"]}, True),
    "completion with logprobs": (COMPLETIONS, {"prompt": "Once upon", "logprobs": 2}, True),
    "alternatives without logprobs": (CHAT, {"messages": FRANCE, "top_logprobs": 3}, False),
    "no messages": (CHAT, {"messages": None}, True),
    "a bad temperature": (CHAT, {"messages": FRANCE, "temperature": "warm"}, True),
    "no prompt": (COMPLETIONS, {}, True),
}
VLLM = {
    "chat stream with usage in every event": (CHAT, {"messages": FRANCE, "stream": True, "stream_options": {"include_usage": True, "continuous_usage_stats": True}}, True),
    "chat with ids": (CHAT, {"messages": FRANCE, "return_token_ids": True}, True),
    "chat stream with ids": (CHAT, {"messages": FRANCE, "return_token_ids": True, "stream": True}, True),
    "chat with ids for texts": (CHAT, {"messages": FRANCE, "logprobs": True, "top_logprobs": 2, "return_tokens_as_token_ids": True}, True),
    "chat with logprobs asked for by a number": (CHAT, {"messages": FRANCE, "logprobs": 1}, False),
    "several greedy choices": (CHAT, {"messages": FRANCE, "n": 2}, True),
    "another model": (CHAT, {"messages": FRANCE, "model": "other"}, True),
    "completions of a list": (COMPLETIONS, {"prompt": ["Once upon", "a b c"]}, True),
    "completion with its prompt": (COMPLETIONS, {"prompt": "Once upon", "echo": True}, False),
    "completion with logprobs of nothing": (COMPLETIONS, {"prompt": "Once upon", "logprobs": 0}, True),
    "completion with the prompt's logprobs": (COMPLETIONS, {"prompt": "Once upon", "prompt_logprobs": 1}, True),
}  # fmt: skip
LLAMA = {
    "its own way of asking": (CHAT, {"messages": FRANCE, "n_probs": 2}, False),
    "chat with twenty alternatives": (CHAT, {"messages": FRANCE, "logprobs": True}, True),
    "chat stream with twenty alternatives": (CHAT, {"messages": FRANCE, "logprobs": True, "stream": True}, False),
    "chat that says everything": (CHAT, {"messages": FRANCE, "verbose": True}, False),
    "stream with tools": (CHAT, {"messages": FRANCE, "tools": TOOLS, "tool_choice": "none", "stream": True}, False),
}

#: What differs between any two replies to one request: ids, clocks, how much was cached, and values by the noise of the cache.
_ID = re.compile(rb'"(id|request_id)":"[^"]*"')
_CLOCK = re.compile(
    rb'"(created|cached_tokens)":[0-9]+|"timings":\{[^{}]*\}|"prompt_tokens_details":(?:null|\{[^{}]*\})'
)
_VALUE = re.compile(rb"-?[0-9]+\.[0-9]+(?:[eE]-?[0-9]+)?")
_VOLATILE = {b"date", b"content-length", b"x-request-id"}


def settled(body: bytes, digits: int) -> bytes:
    body = _CLOCK.sub(rb"\1", _ID.sub(rb"\1", body))
    return _VALUE.sub(lambda found: b"%.*f" % (digits, float(found[0])), body)


async def compare(
    name: EngineName, url: str, path: str, body: dict[str, Any], state: Path, digits: int, *, enlarged: bool
) -> None:
    request = post(
        json.dumps({"model": "smollm2-135m", "temperature": 0, "max_tokens": 8, **body}, ensure_ascii=False).encode(),
        path,
    )
    parts = urlsplit(url)
    engine = (str(parts.hostname), int(parts.port or 80))
    primary = Primary(url=url, engine=name, logprobs="inject")
    async with proxied(url, state, primary=primary) as proxy:
        await ask(engine, request)  # the next ones find the same cache
        for _ in range(5):
            past = reading.reply(await ask(engine, request), b"POST", ended=True)
            through = reading.reply(await ask(proxy.address, request), b"POST", ended=True)
            assert past is not None
            assert through is not None
            if past.body.count(b"\n\n") == through.body.count(b"\n\n"):
                break  # else one of them holds two tokens in an event: the engine was faster than its socket
        assert (past.whole, through.whole) == (True, True)
        assert through.start == past.start
        assert settled(through.body, digits) == settled(past.body, digits)
        assert [name for name, _ in through.end_to_end()] == [name for name, _ in past.end_to_end()]
        assert stable(through) == stable(past)
        assert bool(proxy[Slot.INJECTED]) == enlarged


def stable(reply: reading.Message) -> reading.Fields:
    return [(name, value) for name, value in reply.end_to_end() if name.lower() not in _VOLATILE]


@pytest.mark.vllm
@pytest.mark.parametrize("case", [*SHARED, *VLLM])
def test_vllm(case: str, vllm_bf16: str, state: Path) -> None:
    path, body, enlarged = {**SHARED, **VLLM}[case]
    uvloop.run(compare("vllm", vllm_bf16, path, body, state, 1, enlarged=enlarged))


@pytest.mark.llama
@pytest.mark.parametrize("case", [*SHARED, *LLAMA])
def test_llama_cpp(case: str, llama: str, state: Path) -> None:
    path, body, enlarged = {**SHARED, **LLAMA}[case]
    uvloop.run(compare("llama_cpp", llama, path, body, state, 3, enlarged=enlarged))
