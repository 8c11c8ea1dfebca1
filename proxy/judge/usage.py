"""What an answer says of its tokens, found without reading it: the usage block stands near its end in every engine's reply.

House rules. Pure, a microsecond, any bytes. Only for limits and counts that must not wait until somebody compares; what is compared and recorded
is read properly. A quote inside a text is escaped in JSON, so the searched names cannot come from what a model wrote.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_TAIL = 2048  # OpenAI's longest usage block (with details of both kinds) is 400 bytes, and engines put a few hundred after it
_PROMPT = re.compile(rb'"prompt_tokens" ?: ?([0-9]{1,15})\b')
_COMPLETION = re.compile(rb'"completion_tokens" ?: ?([0-9]{1,15})\b')


def reported(pieces: Sequence[tuple[int, bytes]]) -> tuple[int | None, int | None]:
    """Return prompt and completion tokens as the end of a body says; None where it does not, or is compressed."""
    tail = b""
    for _, piece in reversed(pieces):
        tail = piece[-_TAIL:] + tail
        if len(tail) >= _TAIL:
            break
    if b'_tokens"' not in tail:
        return None, None
    return _last(_PROMPT, tail), _last(_COMPLETION, tail)


def _last(pattern: re.Pattern[bytes], tail: bytes) -> int | None:
    found = None
    for found in pattern.finditer(tail):  # noqa: B007 - the last one is wanted
        pass
    return None if found is None else int(found[1])
