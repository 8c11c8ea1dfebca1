"""What the records of ``filled`` are shown with: both arms' tokens, what else they could have said, what they were sent."""

from __future__ import annotations

import json
import random

from proxy.compare.comparison import ChoiceComparison, Comparison, Flip, Mode
from proxy.compare.token_stream import Alternative, Channel
from proxy.ledger.detail import ChoiceDetail, Detail, Listed, Partial, Run, Sent, Side


def detail_of(comparison: Comparison, words: list[str], body: dict[str, object]) -> Detail | None:
    """Make the detail of a comparison whose primary said ``words``; None where nothing could be compared."""
    if not comparison.choices:
        return None
    draw = random.Random(len(words))
    sent = Sent("/v1/chat/completions", json.dumps(body | {"logprobs": True, "top_logprobs": 5}))
    differs = comparison.outcome == "diverged" or any(choice.flips for choice in comparison.choices)
    return Detail(
        tuple(_choice(one, comparison.mode, words, draw) for one in comparison.choices),
        primary=sent if differs else None,
        shadow=(sent,) if differs else (),
        prompt_ids=(128000, 128006, 882, 128007) if differs else None,
    )


def _choice(choice: ChoiceComparison, mode: Mode, words: list[str], draw: random.Random) -> ChoiceDetail:
    total = choice.primary_tokens or len(words)
    texts = [f" {words[at % len(words)]}" for at in range(total)]
    ids = [1000 + (17 * at) % 900 for at in range(total)]
    values = [*choice.primary_logprobs, *(-draw.random() for _ in range(total))][:total]
    theirs = [*choice.shadow_logprobs, *(-draw.random() for _ in range(total))][:total]
    flips = [choice.first] if choice.first is not None else list(choice.flips)
    for one in flips:
        texts[one.index], ids[one.index] = one.primary.text or "", one.primary.id or 0
    primary = _side(ids, texts, values, flips, own=True)
    if mode is Mode.FORCED or choice.first is None:
        return ChoiceDetail(choice.index, primary, _side(ids, texts, theirs, flips, own=False))
    at = choice.first.index
    other = [
        *texts[:at],
        choice.first.shadow.text or "",
        *(f" {words[-1 - n % len(words)]}" for n in range(total - at + 8)),
    ]
    other_ids = [*ids[:at], choice.first.shadow.id or 0, *(1900 + n for n in range(total - at + 8))]
    return ChoiceDetail(
        choice.index,
        primary,
        _side(other_ids, other, [*theirs[:at], *(-draw.random() for _ in other[at:])], flips, own=False),
    )


def _side(ids: list[int], texts: list[str], values: list[float | None], flips: list[Flip], *, own: bool) -> Side:
    listed = tuple(Listed(one.index, _top(one, own=own)) for one in flips)
    # A character of three bytes that two tokens share, as models with byte tokens make them.
    partial = (Partial(1, b"\xe2\x88"), Partial(2, b"\x9e")) if len(texts) > 3 else ()
    shown = [text if at not in (1, 2) else "\ufffd" for at, text in enumerate(texts)] if partial else texts
    return Side(
        tuple(values[: len(texts)]),
        tuple(ids[: len(texts)]),
        tuple(shown),
        partial,
        (Run(0, Channel.CONTENT),),
        listed,
        len(texts),
    )


def _top(one: Flip, *, own: bool) -> tuple[Alternative, ...]:
    """The two tokens concerned, the arm's own first, and three more."""
    first, second = (one.primary, one.shadow) if own else (one.shadow, one.primary)
    gap = one.gap if one.gap is not None else 0.4
    start = first.logprob if first.logprob is not None else -0.5
    return (
        Alternative(start, first.id, first.text),
        Alternative(start - gap, second.id, second.text),
        *(Alternative(start - gap - 1 - n, 40 + n, text) for n, text in enumerate((" refracted", "\n", "\u202eright"))),
    )
