"""JSON as engines really write it.

House rules. Strict JSON first; then what Python's own writer lets through: bare ``NaN`` and ``Infinity`` (vLLM and TGI issues
report both), and escapes of lone surrogates, which become U+FFFD so that every text that leaves here can be encoded.
"""

from __future__ import annotations

import json
from typing import Any

import orjson


class NotJson(ValueError):
    """The bytes are no JSON value, or one nested too deeply to read."""


def loads(data: bytes) -> Any:
    """Parse one JSON value. Raises NotJson and nothing else."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        pass
    try:
        return _encodable(json.loads(data.decode("utf-8-sig")))
    except (ValueError, RecursionError):
        raise NotJson("not a JSON value") from None


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    if isinstance(value, list):
        return [_encodable(item) for item in value]
    if isinstance(value, dict):
        return {_encodable(key): _encodable(item) for key, item in value.items()}
    return value
