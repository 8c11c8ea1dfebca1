"""What a text that should be JSON is worth: whole replies where JSON was asked for, and the arguments of tool calls.

House rules. Judged strictly, as a client's parser does: text around the JSON, code fences, NaN and a missing bracket all make it none. The schema is the
request's own. Nothing here knows an engine or the other arm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from msgspec import Struct

from proxy.compare.comparison import Validity
from proxy.compare.json_schema import STEPS, fits
from proxy.compare.token_stream import ToolCall


class Expected(Struct, frozen=True):
    """What a request lets one expect of its reply.

    ``tools``: the parameter schemas of the offered functions by name (None: without one; empty: none is offered). ``json``: a JSON reply was asked for, of
    ``schema`` where that is not None.
    """

    tools: Mapping[str, Any] = {}
    json: bool = False
    schema: Any = None


def validity(text: str, schema: Any, *, steps: int = STEPS) -> Validity:
    """Judge a text: whether it is one JSON value, and whether that fits the schema (None: there is none), as far as ``steps`` tell."""
    data = text.encode("utf-8", "surrogatepass")
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return Validity.NOT_JSON
    if schema is None:
        return Validity.VALID
    match fits(value, len(data), schema, steps=steps):
        case True:
            return Validity.VALID
        case False:
            return Validity.AGAINST_SCHEMA
        case None:
            return Validity.UNJUDGED


def reply_validity(text: str, expected: Expected) -> Validity:
    """Judge a reply to a request for JSON; without a schema it has to be an object, as JSON mode promises."""
    found = validity(text, expected.schema)
    if found is Validity.VALID and expected.schema is None and not text.lstrip().startswith("{"):
        return Validity.AGAINST_SCHEMA
    return found


def calls_validity(calls: Sequence[ToolCall], expected: Expected) -> tuple[Validity, ...]:
    """Judge the tool calls of a reply, which share the steps of one: a model can be talked into thousands."""
    return tuple(call_validity(call, expected, steps=STEPS // len(calls)) for call in calls)


def call_validity(call: ToolCall, expected: Expected, *, steps: int = STEPS) -> Validity:
    """Judge a tool call: its name must be one that was offered, its arguments an object that fits the tool's parameters.

    Engines write no arguments as an empty text, or as an empty object; both are the latter.
    """
    if call.name not in expected.tools:
        return Validity.UNKNOWN_TOOL
    arguments = call.arguments.strip() or "{}"
    found = validity(arguments, expected.tools[call.name], steps=steps)
    return Validity.AGAINST_SCHEMA if found is Validity.VALID and not arguments.startswith("{") else found
