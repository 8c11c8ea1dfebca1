"""Records of a real engine's own replies, as a judge would have written them, in a store of their own."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

from engines.dialect import Endpoint
from engines.http_fetch import connect
from engines.registry import dialect
from engines.subject import Subject
from proxy.compare.compare_free import compare_free
from proxy.compare.comparison import Source, TauOrigin
from proxy.compare.near_tie import Tau
from proxy.ledger.record import Content, Record, Settlement
from proxy.ledger.store import Store

PROMPTS = (
    "The capital of France is", "Once upon a time there was", "def add(a, b):", "The sea was calm and", "My favourite food is", "Dear Sir or Madam, I am",
    "In the year 2050 people will", "The best way to learn is", "She opened the door and", "Water boils at", "A good friend is someone who", "The history of Rome",
    "To make bread you need", "The cat sat on", "When I was young I", "The president said that", "Music is", "The first computer was", "If it rains tomorrow",
    "The largest planet is",
)  # fmt: skip


def fill(url: str, engine: str, model: str, store: Path, *, tokens: int = 24, prompts: int = len(PROMPTS)) -> None:
    """Ask an engine each prompt, and write what it said as if a control had said the same."""
    with Store.open(f"sqlite:///{store}") as opened:
        opened.settle(
            [Settlement("one", "control", "free", "compared", record=one) for one in asyncio.run(_records(url, engine, model, tokens, prompts))]
        )  # fmt: skip


async def _records(url: str, engine: str, model: str, tokens: int, prompts: int) -> list[Record]:
    found = []
    async with connect(url) as fetch:
        subject = Subject(fetch, dialect(engine), model, Endpoint.COMPLETIONS)
        for number, prompt in enumerate(PROMPTS[:prompts]):
            body = {"model": model, "prompt": prompt, "max_tokens": tokens, "temperature": 0}
            reply = await subject.put(body, 5)
            comparison = compare_free(reply, reply, source=Source.REPLY, tau=Tau(1e-3, TauOrigin.ASSUMED), greedy=True)
            found.append(
                Record(
                    id=f"r{number}", time=time.time(), exchange=f"x{number}", model=model, endpoint="completions", shadow="control", role="control",
                    comparison=comparison, content=Content(json.dumps(body), (reply.choices[0].text,), ("",)), prompt=f"p{number}",
                )
            )  # fmt: skip
    return found
