"""Whole replies with logprobs read straight into typed rows: two thirds of the cost of objects, and no object for what is not looked at.

House rules. Total, and only a short cut: what is not exactly the usual shape gives None, and ``body`` reads it the long way, with the same result. The usual
shape: chat rows whose alternatives all have a finite logprob, and are called either by their texts, or all by labels (``token_id:N``). Bytes of
alternatives are not looked at: those of a text are its own, and those of a label are the label's.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from itertools import accumulate, chain, repeat
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from engines.rows import LABEL, LISTED, MOST_DIGITS, ROW_TEXT, chat_row, number
from proxy.compare.columns import Columns, Lists
from proxy.compare.token_stream import Token

Json = dict[str, Any]
R = TypeVar("R")


class Way(Enum):
    """What the tokens of a reply are called by. ``SPELLED``: by texts, and each has its bytes, which are those of its text."""

    LABEL = "label"
    TEXT = "text"
    SPELLED = "spelled"


class _TextEntry(Struct, gc=False):
    """An alternative. A field that is None may not be there as anything else: such rows are not usual."""

    token: str
    logprob: float
    id: None = None
    bytes: None = None


class _SpelledEntry(Struct, gc=False):
    token: str
    logprob: float
    id: None = None


class _LabelEntry(Struct, gc=False):
    token: str
    logprob: float


class TextRow(Struct, gc=False):
    """A row of each way."""

    token: str
    logprob: float | None = None
    top_logprobs: list[_TextEntry] | None = None
    id: None = None
    bytes: None = None


class SpelledRow(Struct, gc=False):
    """A row of each way."""

    token: str
    bytes: list[int]
    logprob: float | None = None
    top_logprobs: list[_SpelledEntry] | None = None
    id: None = None


class LabelRow(Struct, gc=False):
    """A row of each way."""

    token: str
    logprob: float | None = None
    top_logprobs: list[_LabelEntry] | None = None
    bytes: list[int] | None = None


class Logprobs(Struct, Generic[R]):
    """Rows of a choice, or of one event's."""

    content: list[R]
    tokens: None = None


class _Choice(Struct, Generic[R]):
    logprobs: Logprobs[R]
    index: Any = None
    message: Any = None
    text: Any = None
    finish_reason: Any = None
    token_ids: Any = None
    prompt_token_ids: Any = None


class _Reply(Struct, Generic[R]):
    choices: list[_Choice[R]]
    usage: Any = None
    model: Any = None
    system_fingerprint: Any = None
    prompt_token_ids: Any = None
    error: Any = None
    object: Any = None


_DECODERS: dict[Way, msgspec.json.Decoder[Any]] = {
    Way.LABEL: msgspec.json.Decoder(_Reply[LabelRow]),
    Way.TEXT: msgspec.json.Decoder(_Reply[TextRow]),
    Way.SPELLED: msgspec.json.Decoder(_Reply[SpelledRow]),
}
_FIRST = re.compile(rb'"logprobs":\s*\{\s*"content":\s*\[\s*\{\s*"token":\s*"(token_id:)?((?:[^"\\]|\\.)*)"([^{}]*)')
_LOOK_AT = 1 << 16  # the text may stand before the rows, and be long
#: What makes a name more, or less, than a text.
_UNUSUAL = (LABEL, "bytes:", "\ufffd")


def way(body: bytes) -> Way | None:
    """Say by the first row what tokens are called by; None where there are no rows."""
    first = _FIRST.search(body, 0, _LOOK_AT)
    if first is None:
        return None
    if first[1] is not None:
        return Way.LABEL
    return Way.SPELLED if b'"bytes":[' in first[3].replace(b" ", b"") else Way.TEXT


def whole(body: bytes) -> Json | None:
    """Return the reply with its rows as ``Columns``, None when it is to be read the long way."""
    called = way(body)
    if called is None or not is_text(body):
        return None
    try:
        reply = _DECODERS[called].decode(body)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None
    choices = []
    for choice in reply.choices:
        rows = columns(choice.logprobs.content, called)
        if rows is None:
            return None
        choices.append({**_fields(choice, _CHOICE), "logprobs": {"content": rows}})
    return {**_fields(reply, _REPLY), "choices": choices}


def is_text(body: bytes) -> bool:
    """Say whether it is UTF-8 all through: the decoder looks at what it returns, and at nothing that it passes over."""
    if body.isascii():
        return True
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


_CHOICE = tuple(name for name in _Choice.__struct_fields__ if name != "logprobs")
_REPLY = tuple(name for name in _Reply.__struct_fields__ if name != "choices")


def _fields(value: Struct, names: tuple[str, ...]) -> Json:
    return {name: getattr(value, name) for name in names}


def columns(rows: list[Any], called: Way, texts: list[str | None] | None = None) -> Columns | None:
    """Return typed rows as columns, None when they are not of the usual shape. ``texts``: what else is known of the rows' own."""
    names = [row.token for row in rows]
    tops = [row.top_logprobs or () for row in rows]
    lists = Lists(
        [entry.token for top in tops for entry in top],
        [entry.logprob for top in tops for entry in top],
        list(map(len, tops)),
    )
    ids = _ids(names, lists) if called is Way.LABEL else None
    if (ids is None) if called is Way.LABEL else not _texts(names, lists.names):
        return None
    if (called is Way.SPELLED and not _spell(names, rows)) or not _ordered(lists):
        return None

    logprobs = [row.logprob for row in rows]
    token = _maker(names, logprobs, lists, called, spelled=[row.bytes for row in rows], texts=texts)
    if rows and (None in logprobs or not LISTED[0] < min(logprobs) <= max(logprobs) <= LISTED[1]):
        logprobs = list(map(number, logprobs))
    return Columns(
        names,
        logprobs,
        lists,
        labelled=called is Way.LABEL,
        spelled=called is Way.SPELLED,
        ids=ids,
        token=token,
    )


def _maker(
    names: list[str],
    logprobs: list[Any],
    lists: Lists,
    called: Way,
    *,
    spelled: list[Any],
    texts: list[str | None] | None,
) -> Callable[[int], Token]:
    """Return what makes the token of a row, from nothing but columns: the rows they were read from make room for the other arm's."""
    starts = list(accumulate(lists.sizes, initial=0))

    def token(index: int) -> Token:
        at, to = starts[index : index + 2]
        top: list[Json] = [
            {"token": name, "logprob": value}
            for name, value in zip(lists.names[at:to], lists.values[at:to], strict=True)
        ]
        if called is Way.SPELLED:
            top = [entry | {"bytes": list(entry["token"].encode())} for entry in top]
        row = {"token": names[index], "logprob": logprobs[index], "bytes": spelled[index], "top_logprobs": top}
        told = None if texts is None else texts[index]
        return chat_row(row if told is None else row | {ROW_TEXT: (told,)})

    return token


def _ordered(lists: Lists) -> bool:
    """Put the alternatives of each token in order where they lie; False when a value is not usual."""
    names, values, _ = lists
    if not values:
        return True
    for at, to in lists.places():
        column = values[at:to]
        if column != sorted(column, reverse=True):
            order = sorted(range(at, to), key=values.__getitem__, reverse=True)
            names[at:to], values[at:to] = [names[place] for place in order], [values[place] for place in order]
    width = lists.width or 1  # of rows of one length the ends are looked at
    lowest, highest = LISTED
    return lowest < min(values[width - 1 :: width]) and max(values[::width]) <= highest


def _spell(names: list[str], rows: list[SpelledRow]) -> bool:
    """Say whether the rows' bytes are those of their texts; their alternatives' are then as well."""
    joined, spelled = "".join(names), [row.bytes for row in rows]
    sizes = map(len, names) if joined.isascii() else map(len, map(str.encode, names))
    try:
        return list(map(len, spelled)) == list(sizes) and bytes(chain.from_iterable(spelled)) == joined.encode()
    except ValueError:  # no byte is above 255
        return False


def _ids(names: list[str], lists: Lists) -> tuple[int, ...] | None:
    """Return the chosen tokens' ids, None unless everything is called by a label as engines write them.

    Of a list the ends are looked at: engines label all tokens of a reply or none.
    """
    if width := lists.width:
        ends = lists.names[::width] + lists.names[width - 1 :: width]
    else:
        ends = [name for at, to in lists.places() if at < to for name in (lists.names[at], lists.names[to - 1])]
    if not all(map(str.startswith, chain(names, ends), repeat(LABEL))):
        return None
    digits = [name[len(LABEL) :] for name in names]
    try:
        ids = tuple(map(int, digits))
    except ValueError:
        return None
    usual = list(map(str, ids)) == digits and min(ids, default=0) >= 0 and max(ids, default=0) < 10**MOST_DIGITS
    return ids if usual else None


def _texts(names: list[str], listed: list[str]) -> bool:
    """Say whether every name is a text that can stand for its token."""
    if "" in names:
        return False
    joined = "".join(names) + "".join(listed)
    if joined.isascii() and ":" not in joined:  # as each of the marks has
        return True
    return not any(mark in joined for mark in _UNUSUAL)
