"""What an answer says of its tokens, found without reading it: the usage block stands near its end in every engine's reply.

Of embeddings and of a stream of messages some engines tell the prompt's at the beginning. House rules. Pure, a microsecond, any bytes. Only for limits and counts that must not wait until somebody compares; what is compared and recorded
is read properly. A quote inside a text is escaped in JSON, so the searched names cannot come from what a model wrote.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_TAIL = 2048  # OpenAI's longest usage block (with details of both kinds) is 400 bytes, and engines put a few hundred after it
#: Of chat, completions and embeddings; of ``/v1/responses`` and ``/v1/messages``.
_PROMPT, _INPUT = b'"prompt_tokens"', b'"input_tokens"'
_CACHED = b'"cache_read_input_tokens"', b'"cache_creation_input_tokens"'  # messages count them beside the others
_COMPLETION = b'"completion_tokens"', b'"output_tokens"'
_VALUE = re.compile(rb" ?: ?([0-9]{1,15})\b")


def reported(pieces: Sequence[tuple[int, bytes]]) -> tuple[int | None, int | None]:
    """Return prompt and completion tokens as the end of a body says, the prompt's else as its beginning does; None where they do not, or are compressed."""
    tail = pieces[-1][1] if pieces else b""
    for _, piece in reversed(pieces[:-1]):
        if len(tail) >= _TAIL:
            break
        tail = piece[-_TAIL:] + tail
    prompt = _prompt(tail)
    if prompt is None and pieces:
        prompt = _prompt(pieces[0][1][:_TAIL])
    return prompt, _first_known(_COMPLETION, tail)


def completion(pieces: Sequence[tuple[int, bytes]]) -> int:
    """Return the completion tokens as reported, else the events of the stream: engines send about one a token. 0 where there is neither."""
    said = reported(pieces)[1]
    return sum(piece.count(b"data:") for _, piece in pieces) if said is None else said


def _prompt(part: bytes) -> int | None:
    said = _last(_PROMPT, part)
    if said is None and (said := _last(_INPUT, part)) is not None:
        said += sum(_last(name, part) or 0 for name in _CACHED)
    return said


def _first_known(names: tuple[bytes, ...], tail: bytes) -> int | None:
    return next((value for name in names if (value := _last(name, tail)) is not None), None)


def _last(name: bytes, tail: bytes) -> int | None:
    at = tail.rfind(name, max(0, len(tail) - _TAIL))
    found = _VALUE.match(tail, at + len(name)) if at >= 0 else None
    return None if found is None else int(found[1])
