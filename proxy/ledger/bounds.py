"""Names and texts from outside, cut to a length before they are stored: one model name of a megabyte in each record would fill the disk.

House rules. Pure. What is cut says so, with its length and a part of its hash, so that different values stay different. ``content`` is not cut
here: it is what ``records.content`` asks to be kept, and ``limits.capture_bytes`` bounds it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from proxy.compare.comparison import ChoiceComparison, Comparison, Flip, TokenRef
from proxy.ledger.record import Record

#: Characters. The longest model names seen are paths of about a hundred; the longest tokens of real vocabularies have 128 characters or so.
MODEL = 256
TEXT = 1024
VALUE = 4096


def short(text: str, longest: int) -> str:
    """Return a text of at most ``longest`` characters; one that was cut ends in a mark. Twice is the same as once."""
    if len(text) <= longest:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    mark = f"… ({len(text)} characters, {digest[:8]})"
    return text[: longest - len(mark)] + mark


def bounded(record: Record) -> Record:
    """Return the record with its model, its reason's detail and the texts of its tokens cut."""
    comparison = record.comparison
    detail = None if comparison.detail is None else short(comparison.detail, TEXT)
    choices = tuple(map(_choice, comparison.choices)) if _has_long_text(comparison) else comparison.choices
    if len(record.model) <= MODEL and detail == comparison.detail and choices is comparison.choices:
        return record
    return replace(
        record, model=short(record.model, MODEL), comparison=replace(comparison, detail=detail, choices=choices)
    )


def bounded_values(value: Any) -> Any:
    """Return plain JSON values with every text in them cut."""
    match value:
        case str():
            return short(value, VALUE)
        case Mapping():
            return {short(str(key), TEXT): bounded_values(item) for key, item in value.items()}
        case list() | tuple():
            return [bounded_values(item) for item in value]
        case _:
            return value


def _has_long_text(comparison: Comparison) -> bool:
    return any(
        len(token.text or "") > TEXT
        for choice in comparison.choices
        for flip in (choice.first, *choice.flips)
        if flip is not None
        for token in (flip.primary, flip.shadow)
    )


def _choice(choice: ChoiceComparison) -> ChoiceComparison:
    first = None if choice.first is None else _flip(choice.first)
    return replace(choice, first=first, flips=tuple(map(_flip, choice.flips)))


def _flip(flip: Flip) -> Flip:
    return replace(flip, primary=_token(flip.primary), shadow=_token(flip.shadow))


def _token(token: TokenRef) -> TokenRef:
    return token if token.text is None else replace(token, text=short(token.text, TEXT))
