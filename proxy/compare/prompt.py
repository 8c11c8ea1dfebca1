"""The prompt layer: what the arms were really asked, by token ids where both tell them, else by how many there were.

House rules. Ids and counts only, never the text behind them. A count that differs says that the prompts differ and not how, unless a known context
length says that one of them cannot have fitted.
"""

from __future__ import annotations

from collections import Counter

from proxy.compare.layers import NOTHING, Evidence, Found, Known
from proxy.compare.token_stream import Reply

PROMPT_TOKENS = "prompt_tokens"
PROMPT_TEMPLATE = "prompt_template"
PROMPT_DOUBLE_BOS = "prompt_double_bos"
PROMPT_MISSING_BOS = "prompt_missing_bos"
CONTEXT_TRUNCATED = "context_truncated"

#: Where no context length is known, a part that is missing from a prompt shorter than this is the template's doing: the smallest window that engines
#: come with by themselves has 2,048 tokens, and those that cut leave at least a quarter of it.
_NEVER_CUT_BELOW = 512
#: So many tokens no template adds by itself: default system messages have some dozens. (What it says of tools can be longer.)
_NEVER_ADDED = 256

Ids = tuple[int, ...]


def prompt_findings(
    primary_ids: Ids | None,
    shadow_ids: Ids | None,
    primary_count: int | None = None,
    shadow_count: int | None = None,
    known: Known = NOTHING,
) -> tuple[Found, ...]:
    """Compare what the arms were asked: ids where both give them, else token counts; empty when nothing differs or is known.

    One begin token more is ``prompt_double_bos`` (``prompt_missing_bos`` where the other has none), a hole in a prompt that did not fit
    ``context_truncated``, other ids around the same ones ``prompt_template``; each beside ``prompt_tokens``, which says only that they differ.
    """
    if primary_ids is None or shadow_ids is None:
        if primary_count is None or shadow_count is None or primary_count == shadow_count:
            return ()
        return _by_counts(primary_count, shadow_count, known)
    if primary_ids == shadow_ids:
        return ()
    seen: Evidence = {"primary_tokens": len(primary_ids), "shadow_tokens": len(shadow_ids)}
    special = _how(primary_ids, shadow_ids, known)
    seen["first_difference"] = _common(primary_ids, shadow_ids)
    return (*((Found(special.name, seen | special.evidence),) if special else ()), Found(PROMPT_TOKENS, seen))


def reply_prompt_findings(primary: Reply, shadow: Reply, known: Known = NOTHING) -> tuple[Found, ...]:
    """``prompt_findings`` of two replies: every choice's ids, and the counts that the engines report."""
    found: dict[str, Found] = {}
    for left, right in zip(primary.choices, shadow.choices, strict=False):
        if left.prompt_ids is not None and right.prompt_ids is not None:
            seen = prompt_findings(left.prompt_ids, right.prompt_ids, known=known)
        else:
            seen = prompt_findings(None, None, primary.prompt_tokens, shadow.prompt_tokens, known)
        for one in seen:
            found.setdefault(one.name, one)
    return tuple(found.values())


def _by_counts(primary: int, shadow: int, known: Known) -> tuple[Found, ...]:
    seen: Evidence = {"primary_tokens": primary, "shadow_tokens": shadow}
    arm, context = ("shadow", known.contexts[1]) if shadow < primary else ("primary", known.contexts[0])
    if context is not None and max(primary, shadow) + (known.max_tokens or 0) > context:
        cut = Found(CONTEXT_TRUNCATED, seen | {"arm": arm, "context": context, "missing": abs(primary - shadow)})
        return (cut, Found(PROMPT_TOKENS, seen))
    return (Found(PROMPT_TOKENS, seen),)


def _how(primary: Ids, shadow: Ids, known: Known) -> Found | None:
    """Say in which way two different prompts differ; None when the ids alone do not tell."""
    longer_is_shadow = len(shadow) > len(primary)
    shorter, longer = (primary, shadow) if longer_is_shadow else (shadow, primary)
    long_arm, short_arm = ("shadow", "primary") if longer_is_shadow else ("primary", "shadow")
    if len(longer) == len(shorter) + 1 and longer[1:] == shorter:
        if longer[:1] == shorter[:1]:
            return Found(PROMPT_DOUBLE_BOS, {"arm": long_arm, "begin_token": longer[0]})
        return Found(PROMPT_MISSING_BOS, {"arm": short_arm, "begin_token": longer[0]})
    ahead = _common(shorter, longer)
    behind = _common(shorter[ahead:][::-1], longer[ahead:][::-1])
    if ahead + behind == len(shorter) and len(shorter) < len(longer):
        context = known.contexts[0 if longer_is_shadow else 1]
        if _did_not_fit(len(shorter), len(longer), context, known):
            missing = len(longer) - len(shorter)
            return Found(CONTEXT_TRUNCATED, {"arm": short_arm, "context": context, "missing": missing, "at": ahead})
    shared = (Counter(primary) & Counter(shadow)).total()
    if known.chat and shorter and 2 * shared >= len(shorter):
        return Found(PROMPT_TEMPLATE, {"same_before": ahead, "same_after": behind, "shared": shared})
    return None


def _did_not_fit(shorter: int, longer: int, context: int | None, known: Known) -> bool:
    if not known.tools and longer - shorter >= _NEVER_ADDED:
        return True
    return shorter >= _NEVER_CUT_BELOW if context is None else longer + (known.max_tokens or 0) > context


def _common(left: Ids, right: Ids) -> int:
    """Return how many ids two prompts share from the start."""
    for index, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            return index
    return min(len(left), len(right))
