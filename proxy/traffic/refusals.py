"""Every answer that is ours and not the primary's, as constant bytes.

House rules. Nothing a peer sent is ever part of these texts: a header value may hold a key. The bodies have the shape of OpenAI's
errors, so that client libraries show the message. A refusal of a head always closes the connection, because nobody can say where the
next request would start.
"""

from __future__ import annotations

import orjson
from msgspec import Struct


class Refusal(Struct, frozen=True):
    """One constant answer: its status, its machine-readable code, and the bytes to send with the connection kept or closed."""

    status: int
    code: str
    closing: bytes
    keeping: bytes


def _refusal(status: int, reason: str, kind: str, code: str, message: str) -> Refusal:
    body = orjson.dumps({"error": {"message": message, "type": kind, "code": code}})
    head = f"HTTP/1.1 {status} {reason}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return Refusal(status, code, f"{head}Connection: close\r\n\r\n".encode() + body, f"{head}\r\n".encode() + body)


def _bad(code: str, message: str) -> Refusal:
    return _refusal(400, "Bad Request", "invalid_request_error", code, message)


def _gateway(code: str, message: str) -> Refusal:
    return _refusal(502, "Bad Gateway", "proxy_error", code, message)


MALFORMED = _bad("malformed_http", "The request is not well-formed HTTP/1.1.")
BAD_TARGET = _bad("bad_target", "The request target must be a path on this server.")
BAD_HOST = _bad("bad_host", "The request must carry exactly one valid Host header.")
BAD_FRAMING = _bad("bad_framing", "The length of the request body is not stated in one unambiguous way.")
BAD_UPGRADE = _bad("bad_upgrade", "A websocket must be offered with a GET that has no body.")
HEAD_TOO_LARGE = _refusal(
    431, "Request Header Fields Too Large", "invalid_request_error", "head_too_large", "The request head is too large."
)
HEAD_TIMEOUT = _refusal(
    408, "Request Timeout", "invalid_request_error", "head_timeout", "The request did not arrive in time."
)
BAD_VERSION = _refusal(
    505,
    "HTTP Version Not Supported",
    "invalid_request_error",
    "http_version",
    "Only HTTP/1.1 and HTTP/1.0 are spoken here.",
)
PRIMARY_UNREACHABLE = _gateway("primary_unreachable", "The primary engine cannot be reached.")
PRIMARY_CUT = _gateway("primary_cut", "The primary engine closed the connection without an answer.")
PRIMARY_PROTOCOL = _gateway("primary_protocol", "The primary engine's answer is not well-formed HTTP/1.1.")
PRIMARY_TIMEOUT = _refusal(
    504, "Gateway Timeout", "proxy_error", "primary_timeout", "The primary engine did not answer in time."
)
