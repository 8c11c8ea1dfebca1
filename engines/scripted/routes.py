"""A request to one of the writer's routes: key, body, model; the script's own routes laid over what the dialect answers.

House rules. Pure: from the method, path and body to a reply; ``served`` is the one door.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson

from engines.scripted.engine import Engine, Query, Stream, Whole, Writer
from engines.scripted.refused import Refused

Json = dict[str, Any]


def served(
    engine: Engine, writer: Writer, method: str, path: str, parameters: Mapping[str, str], body: bytes
) -> Whole | Stream:
    """Answer one request; every refusal is an answer too."""
    try:
        return _laid_over(engine, path, _answer(engine, writer, method, path, Query(_object(method, body), parameters)))
    except Refused as refused:
        return Whole(writer.refuse(refused), status=refused.status)


def _answer(engine: Engine, writer: Writer, method: str, path: str, query: Query) -> Whole | Stream:
    route = writer.routes.get(f"{method} {path}")
    if route is None and method == "GET" and path in engine.script.routes:
        return Whole({})
    if route is None:
        known = any(name.partition(" ")[2] == path for name in writer.routes)
        raise Refused("Method Not Allowed" if known else "Not Found", status=405 if known else 404)
    return route(engine, query)


def _laid_over(engine: Engine, path: str, answer: Whole | Stream) -> Whole | Stream:
    """Lay the script's value over a route's own: objects are merged, null is 404, anything else takes its place."""
    if path not in engine.script.routes or isinstance(answer, Stream):
        return answer
    given = engine.script.routes[path]
    if given is None:
        raise Refused("Not Found", status=404)
    merged = _merged(answer.value, given) if isinstance(given, dict) and isinstance(answer.value, dict) else given
    return replace(answer, value=merged)


def _merged(own: Json, given: Json) -> Json:
    result = dict(own)
    for name, value in given.items():
        inner = result.get(name)
        result[name] = _merged(inner, value) if isinstance(inner, dict) and isinstance(value, dict) else value
    return result


def _object(method: str, body: bytes) -> Json:
    if method != "POST":
        return {}
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as broken:
        raise Refused(f"the body is not JSON: {broken}", param="body") from None
    if not isinstance(value, dict):
        raise Refused("the body must be a JSON object", param="body")
    return value
