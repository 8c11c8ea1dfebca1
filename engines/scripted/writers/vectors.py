"""Embeddings, rerank and score: one vector a text, one cosine a pair.

House rules. Pure. A text's vector is a hash of its ids, with the planted noise on each element before it is scaled to length 1.
"""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Mapping
from typing import Any

from engines.scripted.asked import texts_of
from engines.scripted.engine import Engine, Query, Route, Whole
from engines.scripted.model import vector
from engines.scripted.refused import Refused
from engines.scripted.render import plain_ids

Json = dict[str, Any]

#: Elements of an embedding.
SIZE = 64


def routes() -> Mapping[str, Route]:
    """Return the routes."""
    return {
        "POST /v1/embeddings": _embeddings,
        "POST /v1/rerank": _rerank,
        "POST /rerank": _rerank,
        "POST /v1/score": _score,
        "POST /score": _score,
    }


def _vector(engine: Engine, text: str) -> tuple[float, ...]:
    return vector(engine.script, plain_ids(engine.script, text), SIZE)


def _usage(engine: Engine, texts: list[str]) -> Json:
    count = sum(len(plain_ids(engine.script, text)) for text in texts)
    return {"prompt_tokens": count, "total_tokens": count}


def _embeddings(engine: Engine, query: Query) -> Whole:
    body = query.body
    given = body.get("input")
    ids = isinstance(given, list) and bool(given) and all(isinstance(one, int) for one in given)
    texts = [engine.toy.table.decode(tuple(given or ()))] if ids else texts_of(body, "input")
    most = body.get("dimensions")
    size = SIZE if most is None else most
    if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= SIZE:
        raise Refused(f"dimensions: a whole number from 1 to {SIZE} is required", param="dimensions")
    data = []
    for place, text in enumerate(texts):
        scaled = _scaled(_vector(engine, text)[:size])
        packed = base64.b64encode(struct.pack(f"<{size}f", *scaled)).decode()
        coded = body.get("encoding_format") == "base64"
        data.append({"index": place, "object": "embedding", "embedding": packed if coded else scaled})
    name = f"embd-{engine.digest(body)[:24]}"
    head = {"id": name, "object": "list", "created": engine.started, "model": engine.script.model}
    return Whole({**head, "data": data, "usage": _usage(engine, texts)})


def _scaled(numbers: tuple[float, ...]) -> list[float]:
    length = math.sqrt(math.fsum(one * one for one in numbers))
    return [one / length for one in numbers]


def _relevance(engine: Engine, one: str, other: str) -> float:
    """Return the cosine of two texts' vectors, mapped to 0 .. 1."""
    pair = _scaled(_vector(engine, one)), _scaled(_vector(engine, other))
    dot = math.fsum(a * b for a, b in zip(*pair, strict=True))
    return 0.5 + 0.5 * dot


def _rerank(engine: Engine, query: Query) -> Whole:
    body = query.body
    (wanted, *more), documents = texts_of(body, "query"), texts_of(body, "documents")
    if more:
        raise Refused("query: one text is required", param="query")
    found = [
        {"index": place, "document": {"text": text}, "relevance_score": _relevance(engine, wanted, text)}
        for place, text in enumerate(documents)
    ]
    found.sort(key=lambda one: (-float(str(one["relevance_score"])), one["index"]))
    most = body.get("top_n")
    results = found[:most] if isinstance(most, int) and most > 0 else found
    head = {"id": f"rerank-{engine.digest(body)[:24]}", "model": engine.script.model}
    return Whole({**head, "usage": _usage(engine, [wanted, *documents]), "results": results})


def _score(engine: Engine, query: Query) -> Whole:
    first, second = texts_of(query.body, "text_1"), texts_of(query.body, "text_2")
    if len(first) not in (1, len(second)):
        raise Refused("text_1: one text, or as many as text_2, is required", param="text_1")
    pairs = zip(first * len(second) if len(first) == 1 else first, second, strict=True)
    data = [
        {"index": place, "object": "score", "score": _relevance(engine, one, other)}
        for place, (one, other) in enumerate(pairs)
    ]
    head = {"id": f"score-{engine.digest(query.body)[:24]}", "object": "list", "created": engine.started}
    return Whole({**head, "model": engine.script.model, "data": data, "usage": _usage(engine, first + second)})
