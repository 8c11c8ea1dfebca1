"""Whole replies with logprobs read straight into typed rows: two thirds of the cost of objects, and no object for what is not looked at.

House rules. Total, and only a short cut: what is not exactly the usual shape gives None, and ``body`` reads it the long way, with the same result. The usual
shape: chat rows whose alternatives all have a finite logprob, and are called either by their texts, or all by labels (``token_id:N``). Bytes of
alternatives are not looked at: those of a text are its own, and those of a label are the label's.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from engines.rows import LABEL, LISTED, ROW_TEXT, chat_row, labelled, number
from proxy.compare.columns import Columns
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
    listed = [[entry.token for entry in top] for top in tops]
    values = [[entry.logprob for entry in top] for top in tops]
    ids = _ids(names, listed) if called is Way.LABEL else None
    if (ids is None) if called is Way.LABEL else not _texts(names, listed):
        return None
    if called is Way.SPELLED and not all(map(_spells, rows)):
        return None
    for place, column in enumerate(values):
        if column != sorted(column, reverse=True):
            order = sorted(range(len(column)), key=column.__getitem__, reverse=True)
            listed[place], values[place] = [listed[place][at] for at in order], [column[at] for at in order]
    lowest, highest = LISTED
    if any(not lowest < column[-1] <= column[0] <= highest for column in values if column):
        return None

    def token(index: int) -> Token:
        told = None if texts is None else texts[index]
        return chat_row(_as_json(rows[index], called) | ({} if told is None else {ROW_TEXT: (told,)}))

    logprobs = [number(row.logprob) for row in rows]
    return Columns(
        names,
        logprobs,
        listed,
        values,
        labelled=called is Way.LABEL,
        spelled=called is Way.SPELLED,
        ids=ids,
        token=token,
    )


def _spells(row: SpelledRow) -> bool:
    """Say whether a row's bytes are those of its text; its alternatives' are then as well."""
    try:
        return bytes(row.bytes) == row.token.encode()
    except ValueError:  # no byte is above 255
        return False


def _ids(names: list[str], listed: list[list[str]]) -> tuple[int, ...] | None:
    """Return the chosen tokens' ids, None unless everything is called by a label as engines write them.

    Of a list the ends are looked at: engines label all tokens of a reply or none.
    """
    ids = tuple(map(labelled, names))
    if None in ids or any(str(known) != name[len(LABEL) :] for known, name in zip(ids, names, strict=True)):
        return None
    if not all(column[0].startswith(LABEL) and column[-1].startswith(LABEL) for column in listed if column):
        return None
    return ids  # type: ignore[return-value] # None was ruled out


def _texts(names: list[str], listed: list[list[str]]) -> bool:
    """Say whether every name is a text that can stand for its token."""
    joined = "".join(names) + "".join(map("".join, listed))
    return "" not in names and not any(mark in joined for mark in _UNUSUAL)


def _as_json(row: Any, called: Way) -> Json:
    """Return a row as it was read."""
    top: list[Json] = [{"token": entry.token, "logprob": entry.logprob} for entry in row.top_logprobs or ()]
    if called is Way.SPELLED:
        top = [entry | {"bytes": list(entry["token"].encode())} for entry in top]
    return {"token": row.token, "logprob": row.logprob, "bytes": row.bytes, "top_logprobs": top}
