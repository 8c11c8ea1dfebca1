"""Differences that stand beside the tokens: channels, tool calls, how a reply ended; and whether two modes' values may be compared.

House rules. A finding is a name from a closed list (``layers``) and says that something differs, never that somebody is wrong. The layers before the tokens
have files of their own: ``prompt``, ``value_layer``.
"""

from __future__ import annotations

import msgspec

from proxy.compare.token_stream import TokenStream
from proxy.compare.value_layer import LOGPROB_MODE

SAMPLING_DEFAULTS = "sampling_defaults"
STREAM_MISALIGNED = "stream_misaligned"
STOP_HANDLING = "stop_handling"
OUTPUT_LENGTH = "output_length"
FINISH_REASON = "finish_reason"
CHANNEL_SPLIT = "channel_split"
TOKENIZER = "tokenizer"
TOOL_CALL_NAME = "tool_call_name"
TOOL_CALL_ARGUMENTS = "tool_call_arguments"
JSON_STRUCTURE = "json_structure"
TRANSPORT_ERRORS = "transport_errors"


def values_incomparable(primary_mode: str | None, shadow_mode: str | None, *, unfiltered: bool = False) -> str | None:
    """Say why logprob values may not be set against each other: ``logprob_mode``, or None when they may.

    A mode is "raw", "processed" or anything else an engine documents; None and "unknown" are never equal to anything.
    "renormalised" values, of what sampling left, are of no distribution that two engines share, and equal to nothing either.
    ``unfiltered``: effective temperature 1 and no top-p, top-k, min-p, or greedy; no penalties, bias or grammar; then raw and processed
    logprobs are the same numbers.
    """
    known = not {primary_mode, shadow_mode} & {None, "unknown", "renormalised"}
    if known and primary_mode == shadow_mode:
        return None
    if known and unfiltered and {primary_mode, shadow_mode} <= {"raw", "processed"}:
        return None
    return LOGPROB_MODE


def tool_call_findings(primary: TokenStream, shadow: TokenStream) -> tuple[str, ...]:
    """Compare tool calls: names in order, then arguments after JSON canonicalisation (order of keys and blanks do not count)."""
    names = tuple(call.name for call in primary.tool_calls), tuple(call.name for call in shadow.tool_calls)
    if names[0] != names[1]:
        return (TOOL_CALL_NAME,)
    for left, right in zip(primary.tool_calls, shadow.tool_calls, strict=True):
        if canonical(left.arguments) != canonical(right.arguments):
            return (TOOL_CALL_ARGUMENTS,)
    return ()


def canonical(arguments: str) -> bytes:
    """Return JSON with sorted keys and no blanks; text that is not JSON as it stands."""
    try:
        return msgspec.json.encode(msgspec.json.decode(arguments), order="sorted")
    except (msgspec.DecodeError, RecursionError):  # a model may open a hundred thousand brackets
        return arguments.encode("utf-8", "surrogatepass")


def same_tokens_findings(primary: TokenStream, shadow: TokenStream) -> tuple[str, ...]:
    """Compare what two streams of the same tokens show: channels, text, finish reason."""
    found: list[str] = []
    # Rows are not asked for their channel: not every engine says it of a row.
    split = primary.reasoning != shadow.reasoning
    texts = primary.reasoning + primary.text, shadow.reasoning + shadow.text
    if split:
        found.append(CHANNEL_SPLIT)
    elif texts[0] != texts[1] and not primary.tool_calls and not shadow.tool_calls:
        cut = texts[0].startswith(texts[1]) or texts[1].startswith(texts[0])
        found.append(STOP_HANDLING if cut else TOKENIZER)
    if primary.finish_reason != shadow.finish_reason:
        found.append(FINISH_REASON)
    return tuple(found)
