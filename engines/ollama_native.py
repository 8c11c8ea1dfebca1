"""Ollama's own routes (``/api/chat``, ``/api/generate``) in OpenAI's words: requests, and replies of one object or a stream of lines with one object each.

House rules. Pure and total. Sources: Ollama's API types and those of its Python client. A stream is what a request without ``stream`` gets; the last object has
``done``, the reason and the counts. Arguments of tool calls are objects here and texts there. What a field means is ``choices``' business.
"""

from __future__ import annotations

from typing import Any

import orjson

from engines.dialect import Answer, Json
from engines.lenient_json import NotJson, loads

#: How the paths of these routes end.
ROUTES = ("/api/chat", "/api/generate")

#: Names of a request's ``options`` where they are not OpenAI's.
_RENAMED = {"num_predict": "max_tokens", "repeat_penalty": "repetition_penalty"}
_SAME = ("temperature", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty", "stop", "seed")


def as_openai(body: Json) -> Json:
    """Return a request with what its ``options`` say beside them under OpenAI's names, where Ollama does not look; without ``stream`` it is one."""
    given = body.get("options")
    options: Json = given if isinstance(given, dict) else {}
    names = {**dict(zip(_SAME, _SAME, strict=True)), **_RENAMED}
    shown = {name: options[own] for own, name in names.items() if options.get(own) is not None}
    bound = shown.get("max_tokens")
    if isinstance(bound, int) and bound < 0:  # -1: no bound, -2: to the end of the context
        del shown["max_tokens"]
    return {"stream": True, **shown, **body}


def native_document(answer: Answer) -> tuple[Json, str | None] | None:
    """Return an answer of Ollama's own routes as one object in OpenAI's shape and the error label; None when it is no such answer.

    Labels are those of ``body``: ``error_in_body`` for a whole reply, ``stream_error``, ``not_json`` and ``cut`` for lines.
    """
    if answer.failure is not None and not answer.pieces:
        return None
    if not 200 <= answer.status <= 299:
        return None
    declared = next((value for name, value in answer.headers if name == "content-type"), "").lower()
    parts, error = _parts(answer.body)
    first = parts[0] if parts else {}
    if "ndjson" not in declared and not ("done" in first and ("message" in first or "response" in first)):
        return None
    return _merged(parts), answer.failure or error or _unfinished(parts)


def _parts(body: bytes) -> tuple[list[Json], str | None]:
    """Read one object a line, up to the first that is none."""
    parts: list[Json] = []
    for line in body.splitlines():
        if not line.strip():
            continue
        try:
            value = loads(line)
        except NotJson:
            return parts, "not_json" if body.endswith(b"\n") else "cut"
        if not isinstance(value, dict):
            return parts, "not_json"
        if value.get("error"):
            return parts, "stream_error"
        parts.append(value)
    return parts, None


def _unfinished(parts: list[Json]) -> str | None:
    if not parts:
        return "no_choices"
    return None if parts[-1].get("done") is True else "cut"


def _merged(parts: list[Json]) -> Json:
    content, reasoning = "", ""
    calls: list[Json] = []
    rows: list[Any] = []
    for part in parts:
        message = part.get("message")
        said = message if isinstance(message, dict) else {"content": part.get("response"), **part}
        content += _text(said.get("content"))
        reasoning += _text(said.get("thinking"))
        calls += _calls(said.get("tool_calls"))
        rows += part["logprobs"] if isinstance(part.get("logprobs"), list) else []
    last = parts[-1] if parts else {}
    message = {"role": "assistant", "content": content, "reasoning": reasoning, "tool_calls": calls}
    reason = last.get("done_reason")
    choice = {
        "index": 0,
        "message": message,
        "finish_reason": "tool_calls" if calls and reason else reason,
        "logprobs": {"content": rows} if rows else None,
    }
    usage = {"prompt_tokens": last.get("prompt_eval_count"), "completion_tokens": last.get("eval_count")}
    return {"model": last.get("model"), "choices": [choice] if parts else [], "usage": usage}


def _calls(listed: Any) -> list[Json]:
    calls: list[Json] = []
    for call in listed if isinstance(listed, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            arguments = function.get("arguments")
            written = arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode()
            calls.append({"function": {"name": function.get("name"), "arguments": written}})
    return calls


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
