"""Whose line it is, and what it asks: Parhelion's exports, OpenAI's batch files, request bodies alone, requests with their replies.

Each line is recognised by itself, by the fields it has:

- ``comparison`` and ``exchange``: a record of ``parhelion export`` (see ``proxy.ledger.record``); its ``content`` must be text.
- ``custom_id`` and ``body``: OpenAI's batch input (https://platform.openai.com/docs/api-reference/batch/request-input); ``custom_id`` and ``response``: its output.
- ``request``: a body, or an object with ``url`` (or ``path``) and ``body``; beside it ``response``, ``time``, ``conversation``.
- ``body`` and ``url`` (or ``path``): the same without the wrapping.
- anything else: a request's body.

House rules. Pure; total but for ``LineError``. A ``url`` is a path: what names a host is refused, for a file says what is asked and never whom.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from datetime import datetime
from typing import Any

import orjson

from proxy.replay.line import Line, LineError, Replied
from proxy.rollouts.spelling import looks_like
from proxy.traffic.routes import route_of

Json = dict[str, Any]

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
#: The route under which a record's endpoint is asked.
_ROUTES = {
    "chat_completions": CHAT,
    "completions": COMPLETIONS,
    "responses": "/v1/responses",
    "messages": "/v1/messages",
    "embeddings": "/v1/embeddings",
    "rerank": "/v1/rerank",
    "score": "/v1/score",
}
#: What only one route's body has; the first that fits.
_TELLING = (
    ("messages", CHAT),
    ("prompt", COMPLETIONS),
    ("documents", "/v1/rerank"),
    ("text_1", "/v1/score"),
)
#: The year 5138 in seconds, and 1973 in milliseconds: those would be no time ago however old they are.
_FAR = 1e11
_WRAP = 'write {"url": "/v1/...", "body": {...}}'


def read_line(text: bytes, number: int) -> Line:
    """Read one line of a file of requests. Raises LineError."""
    value = _object(text)
    if "comparison" in value and "exchange" in value:
        return _record(value, number)
    if "custom_id" in value:
        return _batch(value, number)
    if isinstance(value.get("request"), dict):
        return _pair(value, number)
    if isinstance(value.get("body"), dict) and ("url" in value or "path" in value):
        return _asked(value, value, number, _replied(value.get("response")))
    if looks_like(value):
        raise LineError(
            "a rollout of reinforcement learning, which is no request", "compare it with `parhelion rollouts FILE`"
        )
    return Line(number, _route_of_body(value), orjson.dumps(value))


def read_reply(text: bytes) -> tuple[str, Replied | None]:
    """Read one line of a batch's output: the request's ``custom_id`` and its reply, None where the batch has none. Raises LineError."""
    value = _object(text)
    key = value.get("custom_id")
    if not isinstance(key, str) or "response" not in value:
        raise LineError(
            "no reply of a batch: it lacks custom_id or response", "give OpenAI's batch output with --replies"
        )
    return key, _replied(value["response"])


def _object(text: bytes) -> Json:
    try:
        value = orjson.loads(text.removeprefix(BOM_UTF8))  # as some editors begin a file
    except orjson.JSONDecodeError as error:
        raise LineError(
            f"not JSON (column {error.colno})", "write one JSON object a line, without commas between them"
        ) from None
    if not isinstance(value, dict):
        raise LineError("not a JSON object", "write one request a line, as {...}")
    return value


def _record(value: Json, number: int) -> Line:
    content = value.get("content")
    if not isinstance(content, dict):
        raise LineError("a record without its request (records.content: none)", _KEEP)
    body = _request_text(content.get("request"))
    path = _ROUTES.get(str(value.get("endpoint")))
    if path is None:
        raise LineError("a record of a route that is not compared", "leave it out")
    talk, exchange = value.get("conversation"), value["exchange"]
    if not isinstance(exchange, str) or not exchange:
        raise LineError("a record that does not say of which exchange it is", "leave it out, or export anew")
    return Line(
        number,
        path,
        body,
        time=_time(value.get("time")),
        conversation=talk if isinstance(talk, str) else "",
        exchange=exchange,
    )


_KEEP = "replay needs records that keep their text: set `records.content: text` and record anew"


def _request_text(text: object) -> bytes:
    if text == "":
        raise LineError("a record whose request the redaction hook has withheld", "leave it out")
    if not isinstance(text, str) or not text.startswith("{"):
        raise LineError("a record that keeps a hash of its request (records.content: hash)", _KEEP)
    try:
        body = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise LineError("a record whose request is cut or redacted and no JSON any more", "leave it out") from None
    return orjson.dumps(body)


def _batch(value: Json, number: int) -> Line:
    key = value["custom_id"]
    if "body" not in value:
        raise LineError(
            "a batch's output, which has no requests", "give the batch's input as FILE, and this with --replies"
        )
    if not isinstance(key, str):
        raise LineError("custom_id is not text", "write it in quotes")
    line = _asked(value, value, number, _replied(value.get("response")))
    return Line(number, line.path, line.body, line.time, line.conversation, key, reply=line.reply)


def _pair(value: Json, number: int) -> Line:
    request = value["request"]
    reply = _replied(value.get("response"))
    if isinstance(request.get("body"), dict):
        return _asked(request, request | value, number, reply)
    return _asked({"url": value.get("url", value.get("path")), "body": request}, value, number, reply)


def _asked(request: Json, around: Json, number: int, reply: Replied | None) -> Line:
    body = request["body"]
    if not isinstance(body, dict):
        raise LineError("body is not a JSON object", 'write the request as "body": {...}')
    if request.get("method", "POST") != "POST":
        raise LineError("a method other than POST", "leave it out: only inference is replayed")
    url = request.get("url", request.get("path"))
    path = _route_of_body(body) if url is None else _route(url)
    return Line(number, path, orjson.dumps(body), _time(around.get("time")), _talk(around), reply=reply)


def _route(url: object) -> str:
    if not isinstance(url, str) or not url.startswith("/") or url.startswith("//") or not url.isprintable():
        raise LineError(
            "url is not a path: it names a host, or nothing", "write the path alone, such as /v1/chat/completions"
        )
    path = url.partition("?")[0]
    if not path.isascii() or " " in path or not route_of(path.encode()).mirrored:
        raise LineError("url is no inference route", "leave it out, or mend it: such as /v1/chat/completions")
    return path


def _route_of_body(body: Json) -> str:
    for field, path in _TELLING:
        if field in body:
            return path
    if "input" in body:
        raise LineError('"input" is what /v1/embeddings and /v1/responses both have', _WRAP)
    raise LineError("no request: it has neither messages nor prompt", _WRAP + ", or leave it out")


def _talk(around: Json) -> str:
    talk = around.get("conversation")
    if talk is None or isinstance(talk, str):
        return talk or ""
    raise LineError("conversation is not text", "write the key of the conversation in quotes")


def _time(value: object) -> float | None:
    """Unix seconds, or ISO 8601 with its offset."""
    if value is None:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _FAR:
        return float(value)
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            pass
        else:
            if moment.tzinfo is not None:
                return moment.timestamp()
    raise LineError("time is no moment", "write Unix seconds (not milliseconds), or 2026-01-31T12:00:00Z")


def _replied(value: object) -> Replied | None:
    """Read a reply: an object, OpenAI's batch form of one (``status_code``, ``body``), or the text of a stream; None where there is none."""
    if value is None:
        return None
    if isinstance(value, str):
        return _said(value.encode("utf-8", "surrogatepass"))
    if not isinstance(value, dict):
        raise LineError("response is neither an object nor text", "write the reply's JSON, or its stream as text")
    if "status_code" in value and "body" in value:
        status, inner = value["status_code"], value["body"]
        if not isinstance(status, int) or not 100 <= status <= 599:
            raise LineError("status_code is no HTTP status", "write a number such as 200")
        reply = _replied(inner)
        return None if reply is None else Replied(reply.body, reply.stream, status)
    return Replied(orjson.dumps(value), stream=False)


def _said(text: bytes) -> Replied:
    start = text.lstrip()
    if start.startswith((b"data:", b"event:", b":", b"id:", b"retry:")):
        return Replied(text, stream=True)
    if start.startswith(b"{"):
        return Replied(text, stream=False)
    raise LineError("response is text, and neither events nor JSON", "write the stream as it came: data: {...}")
