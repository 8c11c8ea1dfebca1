"""Replies of ``/v1/embeddings`` as vectors, in the order of the inputs.

House rules. Pure and total. A vector is an array of doubles, whatever it was written as: a JSON list, or base64 of 32-bit floats, least byte first (OpenAI's
``encoding_format``). Other widths and byte orders are vLLM's own fields of a request; they are not read but said to be so.
"""

from __future__ import annotations

import binascii
import sys
from array import array
from collections.abc import Sequence
from typing import Any

from engines.dialect import Answer, Json
from engines.endpoints.parsed import parsed, record, records, text
from engines.rows import HIGHEST, whole
from proxy.compare.token_stream import Reply

#: Values of vLLM's fields that are what everybody else does.
_USUAL = {"embed_dtype": (None, "float32"), "endianness": (None, "little", "native")}


def read(request: Json, answer: Answer) -> Reply:
    """Read an answer. Never raises. ``error``: also ``no_vectors``, ``vector_encoding`` where one is no list of numbers as 32-bit floats are."""
    found = parsed(answer)
    usage = record(found.object.get("usage"))
    vectors, error = ((), found.error) if found.error is not None else _vectors(request, found.object)
    return Reply(
        prompt_tokens=whole(usage.get("prompt_tokens")),
        model=text(found.object.get("model")) or None,
        error=error,
        vectors=vectors,
    )


def _vectors(request: Json, document: Json) -> tuple[tuple[Sequence[float], ...], str | None]:
    listed = records(document.get("data"))
    if not listed:
        return (), "no_vectors"
    given = [whole(one.get("index")) for one in listed]
    if None not in given and len(set(given)) == len(given):
        listed = [one for _, one in sorted(zip(given, listed, strict=True), key=lambda pair: pair[0] or 0)]
    plain = all(request.get(name) in usual for name, usual in _USUAL.items())
    vectors: list[Sequence[float]] = []
    for one in listed:
        vector = _vector(one.get("embedding"), plain=plain)
        if vector is None:
            return (), "vector_encoding"
        vectors.append(vector)
    return tuple(vectors), None


def _vector(value: Any, *, plain: bool) -> Sequence[float] | None:
    if isinstance(value, str):
        return _decoded(value) if plain else None
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], list):
        value = value[0]  # llama.cpp's native form has a list of vectors, one where it pools
    if not isinstance(value, list) or not value:
        return None
    try:
        vector = array("d", value)
    except (TypeError, OverflowError):
        return None
    return vector if _usual(vector) else None


def _decoded(value: str) -> Sequence[float] | None:
    try:
        data = binascii.a2b_base64(value, strict_mode=True)
    except ValueError:
        return None
    if not data or len(data) % 4:
        return None
    floats = array("f", data)
    if sys.byteorder == "big":
        floats.byteswap()
    vector = array("d", floats)
    return vector if _usual(vector) else None


def _usual(vector: Sequence[float]) -> bool:
    """Whether every element is a number that an engine can have computed: no NaN, and none so large that a difference would be infinite."""
    return all(-HIGHEST <= element <= HIGHEST for element in vector)
