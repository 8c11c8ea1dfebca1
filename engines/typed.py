"""Whole replies with logprobs read straight into typed rows: two thirds of the cost of objects, and no object for what is not looked at.

House rules. Total, and only a short cut: what is not exactly the usual shape gives None, and ``body`` reads it the long way, with the same result. The usual
shape: chat rows whose alternatives all have a finite logprob, and are called either by their texts alone, or all by labels (``token_id:N``), whose
bytes are those of the label.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import Struct

from engines.rows import LABEL, LISTED, ROW_TEXT, chat_row, labelled, number
from proxy.compare.columns import Columns
from proxy.compare.token_stream import Token

Json = dict[str, Any]


class _Entry(Struct, gc=False):
    """An alternative. A field that is None may not be there as anything else: such rows are not usual."""

    token: str
    logprob: float
    id: None = None
    bytes: None = None


class _Row(Struct, gc=False):
    token: str
    logprob: float | None = None
    top_logprobs: list[_Entry] | None = None
    id: None = None
    bytes: None = None


class _LabelEntry(Struct, gc=False):
    token: str
    logprob: float


class _LabelRow(Struct, gc=False):
    token: str
    logprob: float | None = None
    top_logprobs: list[_LabelEntry] | None = None
    bytes: list[int] | None = None


class TextLogprobs(Struct):
    """Rows whose tokens are called by their texts."""

    content: list[_Row]
    tokens: None = None


class LabelLogprobs(Struct):
    """Rows whose tokens are called by labels."""

    content: list[_LabelRow]
    tokens: None = None


class _Choice(Struct):
    logprobs: TextLogprobs
    index: Any = None
    message: Any = None
    text: Any = None
    finish_reason: Any = None
    token_ids: Any = None
    prompt_token_ids: Any = None


class _LabelChoice(_Choice):
    logprobs: LabelLogprobs  # type: ignore[assignment] # msgspec builds a class of its own from each


class _Reply(Struct):
    choices: list[_Choice]
    usage: Any = None
    model: Any = None
    system_fingerprint: Any = None
    prompt_token_ids: Any = None
    error: Any = None
    object: Any = None


class _LabelReply(_Reply):
    choices: list[_LabelChoice]  # type: ignore[assignment] # likewise


_BY_TEXT, _BY_LABEL = msgspec.json.Decoder(_Reply), msgspec.json.Decoder(_LabelReply)
_FIRST = re.compile(rb'"content":\s*\[\s*\{\s*"token":\s*"(token_id:)?')
_LOOK_AT = 1 << 16  # the text stands before the rows, and may be long
#: What makes a name more, or less, than a text.
_UNUSUAL = (LABEL, "bytes:", "\ufffd")


def whole(body: bytes) -> Json | None:
    """Return the reply with its rows as ``Columns``, None when it is to be read the long way."""
    first = _FIRST.search(body, 0, _LOOK_AT)
    if first is None:
        return None
    by_label = first[1] is not None
    try:
        reply = (_BY_LABEL if by_label else _BY_TEXT).decode(body)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None
    choices = []
    for choice in reply.choices:
        rows = columns(choice.logprobs.content, by_label=by_label)
        if rows is None:
            return None
        choices.append({**_fields(choice, _CHOICE), "logprobs": {"content": rows}})
    return {**_fields(reply, _REPLY), "choices": choices}


_CHOICE = tuple(name for name in _Choice.__struct_fields__ if name != "logprobs")
_REPLY = tuple(name for name in _Reply.__struct_fields__ if name != "choices")


def _fields(value: Struct, names: tuple[str, ...]) -> Json:
    return {name: getattr(value, name) for name in names}


def columns(rows: list[Any], *, by_label: bool, texts: list[str | None] | None = None) -> Columns | None:
    """Return typed rows as columns, None when they are not of the usual shape. ``texts``: what else is known of the rows' own."""
    names = [row.token for row in rows]
    tops = [row.top_logprobs or () for row in rows]
    listed = [[entry.token for entry in top] for top in tops]
    values = [[entry.logprob for entry in top] for top in tops]
    ids = _ids(names, listed) if by_label else None
    if (ids is None) if by_label else not _texts(names, listed):
        return None
    for place, column in enumerate(values):
        if column != sorted(column, reverse=True):
            order = sorted(range(len(column)), key=column.__getitem__, reverse=True)
            listed[place], values[place] = [listed[place][at] for at in order], [column[at] for at in order]
    lowest, highest = LISTED
    if any(not lowest < column[-1] <= column[0] <= highest for column in values if column):
        return None

    def token(index: int) -> Token:
        return chat_row(_as_json(rows[index]) | ({} if texts is None else {ROW_TEXT: texts[index]}))

    return Columns(
        names, [number(row.logprob) for row in rows], listed, values, labelled=by_label, ids=ids, token=token
    )


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


def _as_json(row: Any) -> Json:
    """Return a row as it was read."""
    top = [{"token": entry.token, "logprob": entry.logprob} for entry in row.top_logprobs or ()]
    return {"token": row.token, "logprob": row.logprob, "bytes": row.bytes, "top_logprobs": top}
