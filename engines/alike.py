"""A reply that says, to the byte, what another one said: read once.

House rules. Pure and total. Two replies to the same request differ in their id and time even where all else is equal; those stand before ``"choices":``, in a
whole reply once, in a stream at the beginning of every event. Nothing is taken for equal that does not have the same bytes apart from that.
"""

from __future__ import annotations

import orjson
from msgspec import Struct

from engines.body import is_stream
from engines.dialect import Answer, Dialect, Endpoint, Json
from proxy.compare.token_stream import Reply

_CHOICES = b'"choices":'
_EVENT = b'data: {"'
_FURTHEST = 2048  # ids are below 100 bytes, names of models below 300
#: What differs from reply to reply and is not read, and what is.
_UNREAD, _READ = ("id", "created"), ("object", "model", "system_fingerprint", "service_tier")
_PART = 1 << 13  # bytes looked at in one go: most differ early, and a large slice has to be copied
_GLANCE = 40  # bytes at either end that are looked at first


class Known(Struct, frozen=True):
    """An answer that has been read: by which dialect, as an answer to what."""

    dialect: Dialect
    request: Json
    answer: Answer
    reply: Reply


def read(dialect: Dialect, endpoint: Endpoint, request: Json, answer: Answer, known: Known | None = None) -> Reply:
    """Read the answer, or return the known reply when it would be the same."""
    if known is None or known.dialect.read is not dialect.read or known.request.get("echo") != request.get("echo"):
        return dialect.read(endpoint, request, answer)
    answer = in_one(answer)
    return known.reply if says_the_same(known.answer, answer) else dialect.read(endpoint, request, answer)


def in_one(answer: Answer) -> Answer:
    """Return the answer with its body in one piece, for whoever looks at it more than once."""
    return Answer(answer.status, answer.headers, ((0, answer.body),) if answer.pieces else (), answer.failure)


def says_the_same(one: Answer, other: Answer) -> bool:
    """Say whether two whole answers are equal but for the ids and times of the reply."""
    if (one.status, one.failure) != (other.status, other.failure) or is_stream(one) is not is_stream(other):
        return False
    left, right = one.body, other.body
    if left == right:
        return True
    heads = _head(left), _head(right)
    if heads[0] is None or heads[1] is None or _read(heads[0]) is None or _read(heads[0]) != _read(heads[1]):
        return False
    mine, its = len(heads[0]), len(heads[1])
    if left[mine : mine + _GLANCE] != right[its : its + _GLANCE] or left[-_GLANCE:] != right[-_GLANCE:]:
        return False
    if not is_stream(one):
        return len(left) - mine == len(right) - its and all(
            left[at : at + _PART] == right[at + its - mine : at + its - mine + _PART]
            for at in range(mine, len(left), _PART)
        )
    same = _same_end(heads[0], heads[1])
    ours, theirs = heads[0][: mine - same], heads[1][: its - same]
    start = right[:_PART].replace(theirs, ours)
    if not left.startswith(start[: -len(heads[1])]):  # what may be a part of a beginning was not replaced
        return False
    # Such a beginning holds quotes, so it is in no JSON string: an event that has it is the same event with the other.
    return (mine != its or len(left) == len(right)) and right.replace(theirs, ours) == left


def _same_end(one: bytes, other: bytes) -> int:
    """Return how many bytes of two beginnings need not be looked for, for both end with them: short ones are found in half of the time.

    What is left tells the beginning of an event from all else: ``data: {`` and the quote after it.
    """
    least, most = 0, min(len(one), len(other)) - len(_EVENT)
    if not one.startswith(_EVENT) or not other.startswith(_EVENT):
        return 0
    while least < most:
        middle = (least + most + 1) // 2
        if one[-middle:] == other[-middle:]:
            least = middle
        else:
            most = middle - 1
    return least


def _head(body: bytes) -> bytes | None:
    at = body.find(_CHOICES, 0, _FURTHEST)
    return body[:at] if at > 0 else None


def _read(head: bytes) -> Json | None:
    """Return what is read of the fields before the choices, None when something else may be among them."""
    try:
        value = orjson.loads(head.removeprefix(b"data: ") + b'"choices":0}')
    except orjson.JSONDecodeError:
        return None
    if not isinstance(value, dict) or not value.keys() <= {*_UNREAD, *_READ, "choices"}:
        return None
    return {name: value.get(name) for name in _READ}
