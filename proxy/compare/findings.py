"""Differences that explain others or stand beside the tokens: prompt, logprob mode, channels, tool calls, how a reply ended.

House rules. A finding is a name from a closed list and says that something differs, never that somebody is wrong. Layers
come in the order of the pipeline: a prompt that differs explains every token after it, so nothing behind it is compared.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from proxy.compare.distance import correlation
from proxy.compare.token_stream import Reply, TokenStream

PROMPT_TOKENS = "prompt_tokens"
PROMPT_DOUBLE_BOS = "prompt_double_bos"
CONTEXT_TRUNCATED = "context_truncated"
LOGPROB_MODE = "logprob_mode"
LOGPROB_ALIGNMENT = "logprob_alignment"
STREAM_MISALIGNED = "stream_misaligned"
STOP_HANDLING = "stop_handling"
OUTPUT_LENGTH = "output_length"
FINISH_REASON = "finish_reason"
CHANNEL_SPLIT = "channel_split"
TOKENIZER = "tokenizer"
TOOL_CALL_NAME = "tool_call_name"
TOOL_CALL_ARGUMENTS = "tool_call_arguments"
TRANSPORT_ERRORS = "transport_errors"

#: Healthy arms correlate at about 0.999 (public reinforcement-learning roll-outs), values of unrelated tokens hardly; 16 pairs
#: tell the two apart.
_RELATED, _UNRELATED, _ENOUGH_VALUES = 0.95, 0.6, 16


def prompt_findings(
    primary_ids: tuple[int, ...] | None,
    shadow_ids: tuple[int, ...] | None,
    primary_count: int | None = None,
    shadow_count: int | None = None,
) -> tuple[str, ...]:
    """Compare what the arms were asked: ids where both give them, else token counts; empty when nothing differs or is known.

    One begin token more on either side is ``prompt_double_bos``; the end of the other's prompt only, ``context_truncated``.
    """
    if primary_ids is None or shadow_ids is None:
        differ = primary_count is not None and shadow_count is not None and primary_count != shadow_count
        return (PROMPT_TOKENS,) if differ else ()
    if primary_ids == shadow_ids:
        return ()
    shorter, longer = sorted((primary_ids, shadow_ids), key=len)
    found = [PROMPT_TOKENS]
    if longer == (*shorter[:1], *shorter):
        found.append(PROMPT_DOUBLE_BOS)
    elif len(shorter) < len(longer) and len(shorter) > 1 and longer[1 - len(shorter) :] == shorter[1:]:
        found.append(CONTEXT_TRUNCATED)
    return tuple(found)


def reply_prompt_findings(primary: Reply, shadow: Reply) -> tuple[str, ...]:
    """``prompt_findings`` of two replies: every choice's ids, and the counts that the engines report."""
    found: list[str] = []
    for left, right in zip(primary.choices, shadow.choices, strict=False):
        if left.prompt_ids is not None and right.prompt_ids is not None:
            found += prompt_findings(left.prompt_ids, right.prompt_ids)
        else:
            found += prompt_findings(None, None, primary.prompt_tokens, shadow.prompt_tokens)
    return tuple(dict.fromkeys(found))


def values_incomparable(primary_mode: str | None, shadow_mode: str | None, *, unfiltered: bool = False) -> str | None:
    """Say why logprob values may not be set against each other: ``logprob_mode``, or None when they may.

    A mode is "raw", "processed" or anything else an engine documents; None and "unknown" are never equal to anything.
    ``unfiltered``: effective temperature 1, no top-p, top-k, min-p, penalties, bias or grammar; then raw and processed
    logprobs are the same numbers.
    """
    known = primary_mode not in (None, "unknown") and shadow_mode not in (None, "unknown")
    if known and primary_mode == shadow_mode:
        return None
    if known and unfiltered and {primary_mode, shadow_mode} <= {"raw", "processed"}:
        return None
    return LOGPROB_MODE


def alignment_findings(primary: Sequence[float | None], shadow: Sequence[float | None]) -> tuple[str, ...]:
    """Find values that belong to the neighbouring token: both arms' logprobs of one choice, position by position.

    Such a fault leaves the mean as it is. The sign of it: the values do not correlate where they are, and do one row away.
    """
    pairs = list(zip(primary, shadow, strict=True))
    ahead, behind = list(zip(primary, shadow[1:], strict=False)), list(zip(primary[1:], shadow, strict=False))
    here = _correlation(pairs)
    if here is None or here > _UNRELATED:
        return ()
    beside = max((one for one in map(_correlation, (ahead, behind)) if one is not None), default=0.0)
    return (LOGPROB_ALIGNMENT,) if beside > _RELATED else ()


def _correlation(pairs: Sequence[tuple[float | None, float | None]]) -> float | None:
    known = [(p, q) for p, q in pairs if p is not None and q is not None]
    return correlation(known) if len(known) >= _ENOUGH_VALUES else None


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
    except msgspec.DecodeError:
        return arguments.encode("utf-8", "surrogatepass")


def same_tokens_findings(primary: TokenStream, shadow: TokenStream) -> tuple[str, ...]:
    """Compare what two streams of the same tokens show: channels, text, finish reason."""
    found: list[str] = []
    split = primary.reasoning != shadow.reasoning or any(
        left.channel is not right.channel for left, right in zip(primary.tokens, shadow.tokens, strict=False)
    )
    texts = primary.reasoning + primary.text, shadow.reasoning + shadow.text
    if split:
        found.append(CHANNEL_SPLIT)
    elif texts[0] != texts[1] and not primary.tool_calls and not shadow.tool_calls:
        cut = texts[0].startswith(texts[1]) or texts[1].startswith(texts[0])
        found.append(STOP_HANDLING if cut else TOKENIZER)
    if primary.finish_reason != shadow.finish_reason:
        found.append(FINISH_REASON)
    return tuple(found)
