"""JSON read and written again without a change of value.

House rules. orjson, but for what it would change or refuse and clients can read: integers of more than 64 bits (it makes floats of them), NaN and
infinities (vLLM and TGI write them). Those go through the standard library, which keeps them. Spelling may change (``1e2`` as ``100.0``, escapes), values never.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any

import orjson

Write = Callable[[Any], bytes]

#: An integer that may not fit into 64 bits. Digits behind a point do not count: logprobs have seventeen and more.
_LONG = re.compile(rb"(?<![0-9.])[0-9]{19}")


class Unreadable(ValueError):
    """The bytes are no JSON value, or one that would not survive being written again."""


def read(data: bytes, *, strict: bool = False) -> tuple[Any, Write]:
    """Return the value, and what writes it again. ``strict``: NaN and its like are refused. Raises Unreadable."""
    if not _LONG.search(data):
        try:
            return orjson.loads(data), _write
        except orjson.JSONDecodeError:
            if strict:
                raise Unreadable("not a JSON value") from None
    try:
        constant = _refuse if strict else float
        return json.loads(data.decode("utf-8"), parse_float=_finite, parse_constant=constant), _write_slowly
    except (ValueError, RecursionError):
        raise Unreadable("not a JSON value") from None


def _write(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        raise Unreadable("cannot be written as JSON") from None


def _write_slowly(value: Any) -> bytes:
    try:
        return json.dumps(value, separators=(",", ":")).encode("ascii")
    except (ValueError, RecursionError):
        raise Unreadable("cannot be written as JSON") from None


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):  # 1e999 would be written as Infinity, which is another thing
        raise ValueError("not a double")
    return number


def _refuse(text: str) -> float:
    raise ValueError(text)
