"""The toy engine with the other inference routes: responses, messages, embeddings, rerank, score. ``python -m tests.toy_routes``, options as the toy's.

Everything is a pure function of the text and of the engine's noise, as in the toy itself: a test can say what two of them must disagree about.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

from aiohttp import web

from tests import toy

DIMENSIONS = 8
Body = dict[str, Any]


def embed(engine: toy.Toy, text: str) -> list[float]:
    """A vector of length 1, moved by the engine's noise."""
    values = [2 * one - 1 for one in toy._numbers(text.encode(), DIMENSIONS)]
    own = toy._numbers(text.encode() + bytes([engine.seed]), DIMENSIONS)
    values = [value + engine.noise * (2 * other - 1) for value, other in zip(values, own, strict=True)]
    length = math.hypot(*values)
    return [value / length for value in values]


def embeddings(engine: toy.Toy, body: Body) -> Body:
    """OpenAI's shape, as floats."""
    texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
    data = [{"index": index, "embedding": embed(engine, text)} for index, text in enumerate(texts)]
    count = sum(map(len, texts))
    return {"object": "list", "model": "toy", "data": data, "usage": {"prompt_tokens": count, "total_tokens": count}}


def _scores(engine: toy.Toy, query: str, documents: list[str]) -> list[float]:
    asked = embed(engine, query)
    return [sum(a * b for a, b in zip(asked, embed(engine, one), strict=True)) for one in documents]


def rerank(engine: toy.Toy, body: Body) -> Body:
    """Cohere's shape, best first."""
    scored = enumerate(_scores(engine, body["query"], body["documents"]))
    results = [{"index": index, "relevance_score": score} for index, score in sorted(scored, key=lambda one: -one[1])]
    return {"id": "toy-1", "model": "toy", "results": results}


def score(engine: toy.Toy, body: Body) -> Body:
    """vLLM's shape."""
    listed = enumerate(_scores(engine, body["text_1"], body["text_2"]))
    return {"object": "list", "model": "toy", "data": [{"index": index, "score": value} for index, value in listed]}


def _generate(engine: toy.Toy, messages: list[Body], body: Body, limit: str) -> tuple[str, str, Body]:
    prompt = engine.chat_ids(messages)
    ids, reason = engine.generate(prompt, body | {"max_tokens": body.get(limit)}, 0)
    return toy.decode(ids), reason, {"input_tokens": len(prompt), "output_tokens": len(ids)}


def responses(engine: toy.Toy, body: Body) -> Body:
    """OpenAI's shape, whole."""
    said, reason, usage = _generate(engine, [{"role": "user", "content": body["input"]}], body, "max_output_tokens")
    message = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": said}]}
    ended = (
        {"status": "completed"}
        if reason == "stop"
        else {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    )
    return {"object": "response", "model": "toy", "output": [message], "usage": usage, **ended}


def messages(engine: toy.Toy, body: Body) -> Body:
    """Anthropic's shape, whole."""
    said, reason, usage = _generate(engine, body["messages"], body, "max_tokens")
    content = [{"type": "text", "text": said}]
    stop = "end_turn" if reason == "stop" else "max_tokens"
    return {
        "type": "message",
        "role": "assistant",
        "model": "toy",
        "content": content,
        "stop_reason": stop,
        "usage": usage,
    }


def application(engine: toy.Toy) -> web.Application:
    """The toy's own routes and these."""
    app = toy.Server(engine).application()

    def serve(answer: Callable[[toy.Toy, Body], Body]) -> Callable[[web.Request], Any]:
        async def handle(request: web.Request) -> web.Response:
            body = json.loads(await request.read())
            engine.requests.append(body)
            return web.json_response(answer(engine, body))

        return handle

    for answer in (responses, messages, embeddings, rerank, score):
        app.router.add_post(f"/v1/{answer.__name__}", serve(answer))
    return app


if __name__ == "__main__":
    toy.main(application)
