"""Why a reply ended where it ended, and whether another that went on can be held against it.

House rules. An end-of-sequence against anything else is a difference of the engines; a token limit, a stop string, a
cancel or a deadline is not: there the observation is censored. Labels are bounded, engines' own words are mapped.
"""

from __future__ import annotations

import re

from proxy.compare.findings import canonical
from proxy.compare.token_stream import Tokens, TokenStream

#: Finish reasons with which a model ends its own output.
_OWN_END = ("stop", "tool_calls", "function_call")
#: What models are taught to put around their reasoning.
_REASONING_MARKS = re.compile(r"</?(?:think|thinking|reasoning)>")


def ended(stream: TokenStream) -> str:
    """Return ``end``, ``max_tokens``, ``cut`` (no finish reason: cancelled, deadline, broken off) or ``other``."""
    match stream.finish_reason:
        case None:
            return "cut"
        case "length":
            return "max_tokens"
        case reason if reason in _OWN_END:
            return "end"
        case _:
            return "other"


def both_ended(primary: TokenStream, shadow: TokenStream) -> str:
    """Return why two streams of the same length are over: the reason that is not the model's own where there is one."""
    reasons = ended(primary), ended(shadow)
    return next((reason for reason in reasons if reason != "end"), "end")


def shorter_ended(primary: TokenStream, shadow: TokenStream, stop: tuple[str, ...]) -> str:
    """Return why the shorter of two streams with a common prefix ended; ``end`` is a difference, all else censors.

    Engines report a stop string like an end of sequence, so it is looked for in what was said; some keep its tokens in
    their rows, some do not, and then the longer stream's next row shows its beginning.
    """
    shorter, longer = sorted((primary, shadow), key=lambda stream: len(stream.tokens))
    reason = ended(shorter)
    if reason != "end":
        return reason
    said, more = _said(shorter.tokens), _said(longer.tokens)
    upto = len(_said(longer.tokens[: len(shorter.tokens) + 1]))
    for text in stop:
        at = more.find(text, max(0, len(said) - len(text)))
        if text in said or 0 <= at < upto:
            return "stop_string"
    return "end"


def same_visible_end(primary: TokenStream, shadow: TokenStream) -> bool:
    """Say whether two streams of unequal length ended alike: same text, same finish reason of the model's own.

    The longer one then lists an end token, or the tokens of a stop string, that the other leaves out.
    """
    if ended(primary) != "end" or primary.finish_reason != shadow.finish_reason:
        return False
    return visible(primary) == visible(shadow)


def visible(stream: TokenStream) -> str:
    """Return all that a client can read of a stream: reasoning, content, tool calls (their arguments however they are spelled)."""
    if not stream.tool_calls:
        return stream.reasoning + stream.text
    calls = "".join(
        f"\n{call.name}({canonical(call.arguments).decode('utf-8', 'replace')})" for call in stream.tool_calls
    )
    return stream.reasoning + stream.text + calls


def comparable_texts(primary: TokenStream, shadow: TokenStream) -> tuple[str, str]:
    """Return what a client can read of each stream, as far as the two can be held against each other.

    Where one engine's parser took the reasoning out of the content and the other's left it there, with its marks: both without the marks and the blanks around them,
    if they then are the same.
    """
    texts = visible(primary), visible(shadow)
    if texts[0] != texts[1] and primary.reasoning != shadow.reasoning:
        bare = _unmarked(primary), _unmarked(shadow)
        if bare[0] == bare[1]:
            return bare
    return texts


def _unmarked(stream: TokenStream) -> str:
    parts = (*_REASONING_MARKS.split(stream.reasoning), *_REASONING_MARKS.split(stream.text))
    calls = visible(stream)[len(stream.reasoning) + len(stream.text) :]
    return "".join(part.strip() for part in parts) + calls


def _said(tokens: Tokens) -> str:
    return "".join(token.text for token in tokens)
