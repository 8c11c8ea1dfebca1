"""Lists of alternatives that cannot be what they are shown as, taken out: no list is compared as if it said nothing, a wrong one as if it were true.

House rules. No I/O; a token keeps everything but its list. Each function looks for one fault that engines are known for, by its trace in the reply and not
by the engine's version. What has no trace stays.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from proxy.compare.token_stream import Alternative, Token


def without_copies(tokens: tuple[Token, ...]) -> tuple[Token, ...]:
    """Leave out a list that is the one before it again.

    Seen where an event carries several tokens: each is shown the alternatives of the first. Two neighbouring positions whose lists are equal to the last digit
    are otherwise those of a model with nothing left to decide: a list of one at probability 1 is kept.
    """
    kept: list[Token] = []
    before: tuple[Alternative, ...] = ()
    for token in tokens:
        copied = token.top == before and (len(before) > 1 or not _listed(token))
        before = token.top
        kept.append(replace(token, top=()) if copied and token.top else token)
    return tuple(kept)


def _listed(token: Token) -> bool:
    return any(one.logprob == token.logprob for one in token.top)


def drop_short(logprobs: Any, asked: int) -> None:
    """Empty every list in a choice's ``logprobs`` that has fewer entries than ``asked``, in place: by text, tokens of equal text became one, and which is not known."""
    rows, lists = (logprobs.get("content"), logprobs.get("top_logprobs")) if isinstance(logprobs, dict) else ((), ())
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict) and isinstance(row.get("top_logprobs"), list) and len(row["top_logprobs"]) < asked:
            row["top_logprobs"] = []
    if isinstance(lists, list):
        logprobs["top_logprobs"] = [one if isinstance(one, dict) and len(one) >= asked else None for one in lists]


def without_latin_1(tokens: tuple[Token, ...]) -> tuple[Token, ...]:
    r"""Take the text from alternatives where it may be a part of a character, written as one letter per byte: ``é`` may be U+00E9, or the byte E9 alone."""
    return tuple(
        replace(token, top=tuple(replace(one, text=None) if _ambiguous(one) else one for one in token.top))
        if any(map(_ambiguous, token.top))
        else token
        for token in tokens
    )


def _ambiguous(one: Alternative) -> bool:
    if one.id is not None or one.text is None or one.text.isascii():
        return False
    try:
        one.text.encode("latin-1").decode()
    except UnicodeEncodeError:  # letters above U+00FF are no bytes
        return False
    except UnicodeDecodeError:
        return True
    return False
