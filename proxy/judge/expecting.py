"""What a request lets one expect of its reply's structure: the tools it offers, and whether it asks for JSON.

House rules. Pure, over a client's parsed body, which is read leniently: what has another shape than the route's own asks for nothing. Schemas are passed on as
they are, unread.
"""

from __future__ import annotations

from typing import Any

from engines.dialect import Endpoint, Json
from proxy.compare.json_validity import Expected

_NOTHING = Expected()


def expected(endpoint: Endpoint, body: Json) -> Expected:
    """Return what to expect."""
    if body.keys().isdisjoint(_TELLING):
        return _NOTHING
    match endpoint:
        case Endpoint.CHAT | Endpoint.COMPLETIONS:
            asked, schema = _format(body.get("response_format"), nested="json_schema")
            if not asked:
                asked, schema = _guided(body)
            return Expected(_chat_tools(body), asked, schema)
        case Endpoint.RESPONSES:
            asked, schema = _format(_record(body.get("text")).get("format"))
            return Expected(_tools(body.get("tools"), "parameters", kinds=("function",)), asked, schema)
        case Endpoint.MESSAGES:
            wanted = body.get("output_format") or _record(body.get("output_config")).get("format")
            asked, schema = _format(wanted)
            return Expected(_tools(body.get("tools"), "input_schema", kinds=(None, "custom")), asked, schema)
        case _:
            return _NOTHING


_TELLING = frozenset({
    "tools", "functions", "response_format", "guided_json", "structured_outputs", "json_schema", "text", "output_format", "output_config",
})  # fmt: skip


def _record(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def _tools(listed: Any, parameters: str, *, kinds: tuple[str | None, ...]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for tool in listed if isinstance(listed, list) else ():
        if isinstance(tool, dict) and isinstance(tool.get("name"), str):
            found[tool["name"]] = tool.get(parameters) if tool.get("type") in kinds else None
    return found


def _chat_tools(body: Json) -> dict[str, Any]:
    offered = body.get("tools")
    functions = [_record(tool).get("function") for tool in offered] if isinstance(offered, list) else []
    older = body.get("functions")
    return _tools([*functions, *(older if isinstance(older, list) else ())], "parameters", kinds=(None,))


def _format(wanted: Any, nested: str | None = None) -> tuple[bool, Any]:
    """Return whether a format object asks for JSON, and its schema."""
    wanted = _record(wanted)
    match wanted.get("type"):
        case "json_object":
            return True, wanted.get("schema")  # llama.cpp takes a schema here
        case "json_schema":
            return True, (_record(wanted.get(nested)) if nested else wanted).get("schema")
        case _:
            return False, None


def _guided(body: Json) -> tuple[bool, Any]:
    """Return the same of engines' own fields: vLLM's two, and llama.cpp's."""
    for schema in (
        body.get("guided_json"),
        _record(body.get("structured_outputs")).get("json"),
        body.get("json_schema"),
    ):
        if isinstance(schema, dict):
            return True, schema
    return False, None
