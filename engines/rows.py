"""Logprob rows to tokens, in each of the shapes engines use.

House rules. Pure and total: whatever a row holds, the result is a token, with ``None`` for what cannot be trusted. The sentinels are
the engines' own: -9999.0 (OpenAI, vLLM and TensorRT-LLM: "not among the alternatives"), float32's lowest value (llama.cpp and SGLang: probability
zero), NaN, infinities and null. What lies below the first is one of them, too: engines mask with -65504, -1e5, -1e9 or -1e30. Logprobs are in nats.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from operator import attrgetter
from typing import Any

from proxy.compare.columns import Columns
from proxy.compare.token_stream import Alternative, Channel, Token, Tokens

#: vLLM's ``return_tokens_as_token_ids`` writes this and the id in place of a token's text.
LABEL = "token_id:"
#: More than an id can have; so many fit into 64 bits.
MOST_DIGITS = 18
#: Keys under which ``stream`` leaves what only the event knew: a channel, and a tuple of one text. JSON holds neither, so that no engine can say them.
ROW_CHANNEL = "_channel"
ROW_TEXT = "_text"

#: OpenAI's way of writing a token that is no text by itself: ``bytes:\\xf0\\x9f``.
_LITERAL = re.compile(r"bytes:((?:\\x[0-9a-f]{2})+)")

_NOT_LISTED = -9999.0
#: The largest 32-bit float. No value of an embedding or score is beyond it.
HIGHEST = float.fromhex("0x1.fffffep+127")
#: No logit is as high as this (the largest seen are below 100), and its exponential is still a float. Values above 0 up to here are kept: float32
#: logprobs exceed 0 by some 1e-6, and raw logits (vLLM's ``--logprobs-mode raw_logits``) must stay to be recognised as such by the probe; their gaps
#: are those of logprobs.
_HIGHEST = 500.0
#: A logprob is above the one and at most the other.
LISTED = (_NOT_LISTED, _HIGHEST)
_REPLACEMENT = b"\xef\xbf\xbd"
_WRITTEN = frozenset({LABEL[:6], "bytes:"})  # how texts begin that are no texts
_LOGPROB = attrgetter("logprob")


def number(value: Any) -> float | None:
    """Return a logprob in nats, None for null, NaN, an infinity, a sentinel or what is below it, or what is too high even for a logit."""
    if type(value) is float:  # nearly always: the bounds leave NaN and infinities out
        return value if _NOT_LISTED < value <= _HIGHEST else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        logprob = float(value)
    except OverflowError:
        return None
    if not math.isfinite(logprob) or not _NOT_LISTED < logprob <= _HIGHEST:
        return None
    return logprob


def whole(value: Any) -> int | None:
    """Return a count or a token id: a non-negative int below 2**63, else None."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63:
        return value
    return None


def ids_of(value: Any) -> tuple[int, ...] | None:
    """Return a list of token ids, None when it is not entirely that."""
    if not isinstance(value, list):
        return None
    ids = tuple(whole(item) for item in value)
    return None if None in ids else ids  # type: ignore[return-value] # mypy does not narrow a tuple by membership


def labelled(text: str) -> int | None:
    """Return the id in a ``token_id:N`` text, None for any other text."""
    if not text.startswith(LABEL):
        return None
    digits = text[len(LABEL) :]
    if not digits.isascii() or not digits.isdigit() or len(digits) > MOST_DIGITS:
        return None
    return int(digits)


def literal(text: str) -> bytes | None:
    r"""Return the bytes in a ``bytes:\xf0\x9f`` text, None for any other text."""
    found = _LITERAL.fullmatch(text) if text.startswith("bytes:") else None
    return bytes.fromhex(found.group(1).replace("\\x", "")) if found else None


def in_order(alternatives: list[Alternative]) -> tuple[Alternative, ...]:
    """Sort by descending logprob, ties by ascending id, then text."""
    alternatives.sort(key=_LOGPROB, reverse=True)
    if len({one.logprob for one in alternatives}) == len(alternatives):
        return tuple(alternatives)
    return tuple(
        sorted(
            alternatives,
            key=lambda one: (-one.logprob, one.id is None, one.id or 0, one.text or ""),
        )
    )


def chat_rows(rows: Any, *, raw_bytes: bool = False) -> Tokens:
    """Read ``logprobs.content`` of a chat reply (and of llama.cpp's completions).

    ``raw_bytes``: the engine's ``bytes`` are the token's own even for parts of a character; otherwise bytes that hold U+FFFD are the decoder's, not
    the token's, and are left out.
    """
    if isinstance(rows, Columns):
        return rows
    if not isinstance(rows, list):
        return ()
    return tuple(chat_row(row if isinstance(row, dict) else {}, raw_bytes=raw_bytes) for row in rows)


def legacy_rows(logprobs: dict[str, Any]) -> tuple[Token, ...]:
    """Read the parallel arrays of a completions reply.

    They are ``tokens``, ``token_logprobs``, ``top_logprobs`` (dicts by text) and, from Together, ``token_ids``. Equal texts have
    collapsed in the dicts already; that is the engine's loss.
    """
    texts = logprobs.get("tokens")
    if not isinstance(texts, list):
        return ()
    values = _column(logprobs, "token_logprobs", len(texts))
    tops = _column(logprobs, "top_logprobs", len(texts))
    ids = _column(logprobs, "token_ids", len(texts))
    return tuple(
        _legacy_row(text, number(value), top, whole(known))
        for text, value, top, known in zip(texts, values, tops, ids, strict=True)
    )


def prompt_row(row: Any, wanted: int) -> Token | None:
    """Read one entry of vLLM's ``prompt_logprobs``: alternatives keyed by token id. None when ``wanted`` is not in it."""
    if not isinstance(row, dict):
        return None
    alternatives: list[Alternative] = []
    for key, value in row.items():
        known = labelled(LABEL + str(key))
        entry = value if isinstance(value, dict) else {"logprob": value}
        logprob = number(entry.get("logprob"))
        if known is not None and logprob is not None:
            alternatives.append(Alternative(logprob=logprob, id=known, text=_text(entry.get("decoded_token")) or None))
    top = in_order(alternatives)
    found = next((one for one in top if one.id == wanted), None)
    if found is None:
        return None
    return Token(text=found.text or "", id=wanted, logprob=found.logprob, top=top)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _column(logprobs: dict[str, Any], name: str, length: int) -> list[Any]:
    column = logprobs.get(name)
    if not isinstance(column, list) or len(column) != length:
        return [None] * length
    return column


def _data(value: Any, *, raw_bytes: bool) -> bytes | None:
    if not isinstance(value, list) or not value:
        return None
    try:
        data = bytes(value)
    except (TypeError, ValueError):
        return None
    return data if raw_bytes or _REPLACEMENT not in data else None


def _spelling(entry: dict[str, Any], *, raw_bytes: bool) -> tuple[int | None, str, bytes | None]:
    """Id, text and bytes of a row or of one of its alternatives."""
    text, listed, known = entry.get("token"), entry.get("bytes"), entry.get("id")
    if type(text) is not str:
        text = ""
    data = _data(listed, raw_bytes=raw_bytes) if listed else None
    if known is not None:
        known = whole(known)
    if not text.startswith((LABEL, "bytes:")):
        return known, text, data
    written = literal(text)
    if written is not None:
        return known, "", written
    label = labelled(text)
    if label is None:
        return known, text, data
    # The text is a label. A row's bytes are still the token's; an alternative's are those of the label.
    if data is None or data == text.encode():
        return label, "", None
    try:
        return label, data.decode(), data
    except UnicodeDecodeError:  # a part of a character, which other shapes give no text either
        return label, "", data


def chat_row(row: dict[str, Any], *, raw_bytes: bool = False) -> Token:
    """Read one row; see ``chat_rows``."""
    known, text, data = _spelling(row, raw_bytes=raw_bytes)
    listed = row.get("top_logprobs")
    alternatives = _alternatives(listed, (known, text, data), raw_bytes=raw_bytes) if isinstance(listed, list) else []
    told, channel = row.get(ROW_TEXT), row.get(ROW_CHANNEL)
    if type(told) is tuple and not text and labelled(_text(row.get("token"))) is not None:
        (text,) = told
    return Token(
        text=text,
        id=known,
        data=data,
        logprob=number(row.get("logprob")),
        top=in_order(alternatives),
        channel=channel if isinstance(channel, Channel) else Channel.CONTENT,
    )


def _alternatives(
    listed: list[Any], chosen: tuple[int | None, str, bytes | None], *, raw_bytes: bool
) -> list[Alternative]:
    """Read a row's list. An entry that is only a label and the chosen token itself borrows what the row knows of it.

    Bytes beside a label are the label's, unless they are ``raw_bytes``.
    This is the innermost loop of all reading: the common shapes (a finite float; a label with its own bytes or none) are recognised in
    line, everything else by the functions that say what is meant.
    """
    found: list[Alternative] = []
    for entry in listed:
        if not isinstance(entry, dict):
            continue
        logprob = entry.get("logprob")
        if type(logprob) is not float or not _NOT_LISTED < logprob <= _HIGHEST:
            logprob = number(logprob)
            if logprob is None:
                continue
        text, data = entry.get("token"), entry.get("bytes")
        if not data and type(text) is str and text[:6] not in _WRITTEN and "id" not in entry:
            found.append(Alternative(logprob, None, text))
            continue
        label = _known_label(text) if type(text) is str and text.startswith(LABEL) else None
        if label is not None and (not raw_bytes or data is None or data == label[1]):
            if label[0] == chosen[0]:
                found.append(Alternative(logprob, label[0], chosen[1], chosen[2]))
            else:
                found.append(Alternative(logprob, label[0]))
            continue
        its_id, its_text, its_data = _spelling(entry, raw_bytes=raw_bytes)
        if label is None or its_data is not None:
            found.append(Alternative(logprob, its_id, its_text, its_data))
        elif its_id == chosen[0]:
            found.append(Alternative(logprob, its_id, chosen[1], chosen[2]))
        else:
            found.append(Alternative(logprob, its_id))
    return found


@lru_cache(1 << 14)
def _known_label(text: str) -> tuple[int, list[int]] | None:
    """Return a label's id and its own spelling as engines list bytes; labels come again and again."""
    label = labelled(text)
    return None if label is None else (label, list(text.encode()))


def _legacy_row(text: Any, logprob: float | None, top: Any, known: int | None) -> Token:
    alternatives: list[Alternative] = []
    for key, value in top.items() if isinstance(top, dict) else ():
        its_logprob, (its_id, its_text, its_data) = number(value), _key(key)
        if its_logprob is not None:
            shown = its_text if its_id is None else None
            alternatives.append(Alternative(logprob=its_logprob, id=its_id, text=shown, data=its_data))
    listed = number(top.get(text)) if isinstance(top, dict) and isinstance(text, str) else logprob
    label, text, data = _key(_text(text))
    if logprob is not None and listed is not None and listed != logprob:
        # Another token of the same text took the chosen one's place in the dict; it was listed all the same.
        alternatives.append(Alternative(logprob=logprob, id=known if label is None else label, text=text, data=data))
    return Token(
        text=text, id=known if label is None else label, data=data, logprob=logprob, top=in_order(alternatives)
    )


def _key(text: str) -> tuple[int | None, str, bytes | None]:
    """Read a text of the parallel arrays: a label, written bytes, or plain text."""
    label, written = labelled(text), literal(text)
    return label, text if label is None and written is None else "", written
