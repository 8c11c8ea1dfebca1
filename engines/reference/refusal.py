"""A request body as a JSON object, and what is said when it cannot be carried out.

House rules: pure; knows no field by name. Error texts name fields and numbers, never the text of a prompt.
"""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec

Json = dict[str, Any]
Fields = TypeVar("Fields")

_ABSENT = re.compile(r"missing required field `(\w+)`")


class RefusalError(Exception):
    """A request that is not carried out, in OpenAI's error shape."""

    def __init__(
        self, message: str, *, param: str | None = None, status: int = 400, kind: str = "BadRequestError"
    ) -> None:
        super().__init__(message)
        self.status = status
        self.body: Json = {"error": {"message": message, "type": kind, "param": param, "code": status}}


def decode(body: bytes, content_type: str) -> Json:
    """Read a JSON object from a request body."""
    if content_type != "application/json":
        raise RefusalError("Unsupported media type: only 'application/json' is understood")
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as broken:
        raise RefusalError(f"the body is not JSON: {broken}", param="body") from broken
    if not isinstance(value, dict):
        raise RefusalError("the body must be a JSON object", param="body")
    return value


def convert(body: Json, kind: type[Fields]) -> Fields:
    """Read the fields of ``kind`` from a body; a wrong type is refused with the field's name."""
    try:
        return msgspec.convert(body, kind)
    except msgspec.ValidationError as wrong:
        said, _, where = str(wrong).partition(" - at `$.")
        absent = _ABSENT.search(said)
        param = where.rstrip("`") or (absent.group(1) if absent else "body")
        raise RefusalError(f"{param}: {said}", param=param) from wrong


def known_ids(given: tuple[int, ...], vocabulary: int, name: str) -> None:
    """Refuse ids that the model has no row for."""
    for token in given:
        if not 0 <= token < vocabulary:
            raise RefusalError(f"{name}: token id {token} is out of vocabulary (0 .. {vocabulary - 1})", param=name)
