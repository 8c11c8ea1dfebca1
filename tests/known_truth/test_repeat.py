"""What is recorded of a noisy engine is found again by the record's own commands, whichever engine's words it speaks: the same position, the same two tokens."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from contextlib import AsyncExitStack
from typing import Any

import pytest
from aiohttp import ClientSession

from proxy.compare.comparison import Mode
from proxy.config import Config, Primary, Shadow
from proxy.judge import shown
from proxy.judge.case import ShadowArm
from proxy.judge.examine import Examiner
from proxy.judge.noise import NoiseBook
from proxy.judge.settle import Policy, settlement
from proxy.ledger.detail import Detail
from proxy.ledger.record import Record
from proxy.ledger.repeat import shell
from tests.judged import _examined, _exchange, arm
from tests.planted import serving

SCRIPT = "toy: {length: 30}\n"
NOISY = SCRIPT + "differences: {noise: 1.5}\n"
SCORING = ("vllm", "sglang", "llama_cpp", "lmdeploy", "reference")
SHADOWS = (*SCORING, "tensorrt_llm", "tgi", "ollama")
CHAT: dict[str, Any] = {
    "model": "toy", "temperature": 0, "max_tokens": 30, "logprobs": True, "top_logprobs": 5, "return_token_ids": True,
    "messages": [{"role": "user", "content": "It's a halo; $HOME `id`"}],
}  # fmt: skip
COMPLETION: dict[str, Any] = {
    "model": "toy", "temperature": 0, "max_tokens": 30, "logprobs": 5, "return_token_ids": True, "prompt": "Once upon a time",
}  # fmt: skip
_SAID = re.compile(r"position (\d+): primary (\"(?:[^\"\\]|\\.)*\")?.*?, shadow (?:would say )?(\"(?:[^\"\\]|\\.)*\")?")


async def _run(dialect: str, body: dict[str, Any]) -> list[tuple[Record, Detail | None, str]]:
    async with AsyncExitStack() as stack:
        urls = [
            await stack.enter_async_context(serving(script, engine))
            for script, engine in ((SCRIPT, "vllm"), (NOISY, dialect))
        ]
        primary = await arm("primary", urls[0], "vllm", probed=False)
        candidate = await arm("candidate", urls[1], dialect, probed=True)
        for one in (primary, candidate):
            stack.push_async_callback(one.client.aclose)
        shadow = ShadowArm(candidate, "candidate", (Mode.FREE, Mode.FORCED), {}, 20)
        examiner = Examiner(primary, (shadow,), Policy("text", b"s"), False, 1 << 20, NoiseBook(0.01))
        session = await stack.enter_async_context(ClientSession())
        exchange = await _exchange(session, urls[0], 1, body)
        examined = await _examined(examiner, exchange)
        config = Config(primary=Primary(url=urls[0]), shadows=(Shadow("candidate", urls[1]),))
        found = []
        for outcome in examined.outcomes:
            record = settlement(exchange, examined.asked, examined.primary, outcome, examined.context).record
            assert record is not None
            if any(choice.diverged or choice.flips for choice in record.comparison.choices):
                assert outcome.seen is not None
                detail = shown.detail(record.comparison, outcome.seen, "text")
                script = shell(record, detail, config)
                done = await asyncio.to_thread(
                    subprocess.run, ["bash", "-c", script], capture_output=True, text=True, timeout=60, check=False
                )
                assert done.stderr == ""
                found.append((record, detail, done.stdout))
        return found


@pytest.mark.parametrize("dialect", SHADOWS)
@pytest.mark.parametrize("body", [CHAT, CHAT | {"stream": True}, COMPLETION], ids=["chat", "stream", "completion"])
def test_the_commands_find_what_was_recorded(dialect: str, body: dict[str, Any]) -> None:
    if dialect == "tensorrt_llm" and "prompt" in body:  # it refuses logprobs there: what is compared is text
        body = {name: value for name, value in body.items() if name not in ("logprobs", "return_token_ids")}
    found = asyncio.run(_run(dialect, body))
    modes = {record.comparison.mode for record, _, _ in found}
    assert Mode.FREE in modes
    assert (Mode.FORCED in modes) == (dialect in SCORING)
    for record, _, said in found:
        choice = record.comparison.choices[0]
        flip = choice.first or next(iter(choice.flips), None)
        if flip is None:
            assert said.startswith("character "), said
            continue
        seen = _SAID.match(said)
        assert seen is not None, said
        tokens = [None if one is None else json.loads(one) for one in seen.groups()[1:]]
        assert (int(seen[1]), *tokens) == (flip.index, flip.primary.text, flip.shadow.text), (
            record.comparison.mode,
            said,
        )
