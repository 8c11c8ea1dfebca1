"""One question to a real engine on each generating route: what all of them must agree on."""

from __future__ import annotations

import asyncio
from typing import Any

from engines.dialect import Call, Dialect, Endpoint
from engines.endpoints import speaking
from engines.http_fetch import connect
from proxy.compare.compare_free import compare_free
from proxy.compare.comparison import Source, TauOrigin
from proxy.compare.near_tie import Tau
from proxy.compare.token_stream import Reply

MODEL = "smollm2-135m"
QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
BODIES: dict[Endpoint, tuple[str, dict[str, Any]]] = {
    Endpoint.CHAT: ("/v1/chat/completions", {"messages": QUESTION, "max_tokens": 12}),
    Endpoint.RESPONSES: ("/v1/responses", {"input": QUESTION[0]["content"], "max_output_tokens": 12}),
    Endpoint.MESSAGES: ("/v1/messages", {"messages": QUESTION, "max_tokens": 12}),
}


def replies(url: str, dialect: Dialect) -> dict[tuple[Endpoint, bool], Reply]:
    """Ask each route, whole and streamed (true), greedily and as a shadow is asked."""

    async def main() -> dict[tuple[Endpoint, bool], Reply]:
        found: dict[tuple[Endpoint, bool], Reply] = {}
        async with connect(url) as fetch:
            for endpoint, (path, asked) in BODIES.items():
                for stream in (False, True):
                    body = {"model": MODEL, "temperature": 0, "stream": stream, **asked}
                    shaped = speaking.ask(dialect, endpoint, body, 0)
                    found[endpoint, stream] = speaking.read(dialect, endpoint, shaped, await fetch(Call(path, shaped)))
        return found

    return asyncio.run(main())


def agree(found: dict[tuple[Endpoint, bool], Reply]) -> None:
    """See that every reply says what the whole chat says: text, end, usage; and that comparing any two as text finds nothing."""
    chat = found[Endpoint.CHAT, False]
    assert chat.error is None
    assert chat.choices[0].text
    for which, reply in found.items():
        assert reply.error is None, which
        [choice] = reply.choices
        assert (choice.text, choice.count) == (chat.choices[0].text, chat.choices[0].count), which
        assert reply.prompt_tokens == chat.prompt_tokens, which
        comparison = compare_free(
            found[which[0], False], reply, source=Source.TEXT, tau=Tau(1e-3, TauOrigin.ASSUMED), greedy=True
        )
        assert comparison.incomparable is None, which
        assert comparison.choices[0].first_text_difference is None, which
        assert comparison.findings == (), which
