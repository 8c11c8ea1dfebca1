"""JSON changed in place: what is not changed keeps its bytes, whatever its spelling.

House rules. Pure. orjson reads; the standard library's scanner, which says where a value ends, finds the places. Nothing that stays is ever written again, so
blanks, escapes, the spelling of numbers (``1e2``, integers of any size, NaN, which vLLM and TGI write) and the order and repetition of members
stay what they were. ``Unreadable`` is the only error.
"""

from __future__ import annotations

import json
import re
from typing import Any

import orjson

#: (start, end, replacement): indices into the text, ascending.
_Edit = tuple[int, int, str]

_BLANKS = re.compile(r"[ \t\n\r]*")
# Numbers are measured and not read, so that their size does not matter.
_scan = json.JSONDecoder(parse_float=float, parse_int=float).raw_decode


class Unreadable(ValueError):
    """The bytes are no JSON value, or nested too deeply to be changed."""


def read(data: bytes, *, strict: bool = False) -> Any:
    """Return the value, for looking at: integers of more than 64 bits are floats in it. ``strict``: NaN and its like are refused. Raises Unreadable."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        if strict:
            raise Unreadable("not a JSON value") from None
    try:
        return json.loads(data.decode("utf-8"), parse_int=float)
    except (ValueError, RecursionError):
        raise Unreadable("not a JSON value") from None


def rewrite(data: bytes, before: Any, after: Any) -> bytes:
    """Turn ``data``, which reads as ``before``, into what reads as ``after``; the same object when nothing changes.

    ``after`` may lack members and the ends of lists, hold other values, and have new members, which are put last. Members of one name
    that stand several times in an object share their fate. Raises Unreadable.
    """
    if _spelt(before) == data and (written := _spelt(after)):
        # As most engines write it: then writing the rest again gives the same bytes, ten times as fast.
        return data if written == data else written
    edits: list[_Edit] = []
    try:
        text = data.decode("utf-8")
        _change(text, _past_blanks(text, 0), before, after, edits)
    except (ValueError, IndexError, RecursionError):
        raise Unreadable("not to be changed in place") from None
    if not edits:
        return data
    pieces: list[str] = []
    at = 0
    for start, end, new in edits:
        pieces += (text[at:start], new)
        at = end
    pieces.append(text[at:])
    return "".join(pieces).encode("utf-8")


def _spelt(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        return b""


def _change(text: str, at: int, before: Any, after: Any, edits: list[_Edit]) -> int:
    """Note what changes the value at ``at``, and return the index behind it."""
    if before == after and type(before) is type(after):
        return _scan(text, at)[1]
    if isinstance(before, dict) and isinstance(after, dict) and text[at] == "{":
        return _change_members(text, at + 1, before, after, edits)
    if isinstance(before, list) and isinstance(after, list) and text[at] == "[" and 0 < len(after) <= len(before):
        return _change_elements(text, at + 1, before, after, edits)
    end = _scan(text, at)[1]
    if text[at:end] != (new := _written(after)):
        edits.append((at, end, new))
    return end


def _change_members(text: str, at: int, before: dict[str, Any], after: dict[str, Any], edits: list[_Edit]) -> int:
    """Note the changes inside an object; ``at`` is behind its brace."""
    at = last = _past_blanks(text, at)
    orphan = -1  # where dropped members begin that no kept one precedes
    kept = False
    while text[at] != "}":
        start = at
        name, at = _scan(text, at)
        at = _past_blanks(text, _past_blanks(text, at) + 1)  # and past the colon
        if name in after:
            if orphan >= 0 and not kept:
                edits.append((orphan, start, ""))
            kept = True
            at = _change(text, at, before.get(name), after[name], edits)
        else:
            at = _scan(text, at)[1]
            if kept:
                edits.append((last, at, ""))
            elif orphan < 0:
                orphan = start
        last = at
        at = _past_blanks(text, at)
        if text[at] == ",":
            at = _past_blanks(text, at + 1)
    if orphan >= 0 and not kept:
        edits.append((orphan, last, ""))
    added = [f"{_written(name)}:{_written(value)}" for name, value in after.items() if name not in before]
    if added:
        edits.append((last, last, "," * kept + ",".join(added)))
    return at + 1


def _change_elements(text: str, at: int, before: list[Any], after: list[Any], edits: list[_Edit]) -> int:
    """Note the changes inside a list that loses nothing but its end; ``at`` is behind its bracket."""
    at = _past_blanks(text, at)
    cut = last = at
    for index, value in enumerate(before):
        if index < len(after):
            cut = at = _change(text, at, value, after[index], edits)
        else:
            at = _scan(text, at)[1]
        last = at
        at = _past_blanks(text, at)
        if text[at] == ",":
            at = _past_blanks(text, at + 1)
    if last > cut:
        edits.append((cut, last, ""))
    return at + 1


def _past_blanks(text: str, at: int) -> int:
    found = _BLANKS.match(text, at)
    assert found is not None
    return found.end()


def _written(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
