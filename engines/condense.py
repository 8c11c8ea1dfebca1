"""A stream of plain text made short before it is read: a run of events that differ in their text alone becomes one event with all of the text.

House rules. Pure and total: bytes in, bytes out; what is read from them is the same (``stream.merge`` joins the texts of a choice anyway), at a tenth of the
cost. What lies between two texts of a run is the same bytes each time: the end of one event and the beginning of the next. It holds a blank line, so no
JSON string can hold it, and taking it away leaves one event. Wherever that is not certain, the stream is left as it is.
"""

from __future__ import annotations

import re
from operator import itemgetter
from typing import Any

import msgspec
import orjson

from proxy.compare.sse import MAX_EVENT

_NEXT = b"\n\ndata: "
#: A text as the one thing in an event that changes from token to token: up to its opening quote, it, and from its closing quote on.
_TEXT = re.compile(rb'(data: \{.*?"(?:content|text)": ?")((?:[^"\\]|\\.)*)(".*)')
#: An escape that is not over, or half of a pair: alone it is a fault, with the next text it might not be one.
_OPEN = rb"\\(?:u[0-9a-fA-F]{0,3}|u[dD][89abAB][0-9a-fA-F]{2})?"
_STRING = msgspec.json.Decoder(str)


def shows_rows(body: bytes) -> bool:
    """Say whether the event in the middle shows tokens: a stream of such is not one of texts alone."""
    start = body.find(_NEXT, len(body) // 2)
    return start >= 0 and b'"token":' in body[start : body.find(b"\n\n", start + 2)]


def condensed(body: bytes) -> bytes:
    """Return a stream of fewer events that says the same, or the very ``body``."""
    start = body.find(_NEXT, len(body) // 2)
    end = body.find(b"\n\n", start + 2)
    if start < 0 or end < 0 or len(body) > MAX_EVENT // 2:
        return body
    if (
        body.find(b"\n", start + 2, end) >= 0
    ):  # nor would the expression match, but to find that out it would try each text of the event
        return body
    found = _TEXT.fullmatch(body, start + 2, end)
    if found is None or not _text_alone(body[start + 2 : end]):
        return body
    before, after = found[1], found[3]
    between = after + b"\n\n" + before
    first = body.find(between)
    last = body.rfind(between) + len(between)
    if first < 0 or b"\r" in between or not _at_a_text(body, first, before) or not _ends_alone(body, last, before):
        return body
    texts = _without(body[first + len(after) + 2 : last - len(before) - 2], before, after, between)
    if texts is None or not _is_string(texts) or (b"\\" in body and re.search(_OPEN + re.escape(between), body)):
        return body
    return body[:first] + texts + body[last:]


def _without(events: bytes, before: bytes, after: bytes, between: bytes) -> bytes | None:
    """Return the texts of events that have nothing else of their own, None when some have.

    Looked for at line ends and then proved: replacing something as long as ``between`` takes three times as long.
    """
    if not events:
        return b""
    texts = list(map(itemgetter(slice(len(before), -len(after))), events.split(b"\n")[::2]))
    return b"".join(texts) if between.join(texts) == events[len(before) : -len(after)] else None


def _text_alone(event: bytes) -> bool:
    """Tell an event that says nothing of its one choice but a piece of its text."""
    try:
        value: Any = orjson.loads(event[6:])
        [choice] = value["choices"]
        said = {name: part for name, part in choice.items() if part is not None and name != "index"}
    except (ValueError, TypeError, KeyError, AttributeError):
        return False
    if value.get("error") or value.get("object") == "error":
        return False
    match said:
        case {"delta": {"content": str(), **more}, **others}:
            return not more and not others
        case {"text": str(), **others}:
            return not others
        case _:
            return False


def _at_a_text(body: bytes, end: int, before: bytes) -> bool:
    """Say whether the event whose text ends at ``end`` begins as those of the run."""
    begun = body.rfind(b"\n\n", 0, end)
    begun = 0 if begun < 0 else begun + 2
    return body.startswith(before, begun) and _is_string(body[begun + len(before) : end])


def _ends_alone(body: bytes, start: int, before: bytes) -> bool:
    """Say whether the event whose text begins at ``start`` is sound and has no other line: its faults and type would be those of the whole run."""
    end = body.find(b"\n\n", start)
    rest = body[start:end]
    if end < 0 or b"\n" in rest or b"\r" in rest:
        return False
    try:
        orjson.loads(before[6:] + rest)
    except orjson.JSONDecodeError:
        return False
    return True


def _is_string(inner: bytes) -> bool:
    """Say whether these bytes between quotes are one JSON string."""
    try:
        _STRING.decode(b'"' + inner + b'"')
    except (msgspec.DecodeError, ValueError):
        return False
    return True
