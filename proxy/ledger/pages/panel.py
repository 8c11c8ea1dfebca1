"""What is known of one place of a reply: both arms' alternatives, the gap, what it was judged by.

House rules. Pure. Bars are lengths in [0, 100]; a probability is that of the engine's own list and sums to at most 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from proxy.compare.comparison import Mode, TokenRef
from proxy.compare.token_stream import Alternative
from proxy.ledger.pages.strands import Choice, cell, error, taken

#: Of so many of an engine's alternatives a panel shows all at once; of more the rest is folded, so that both engines' first ones are seen side by side.
FIRST = 6


def panel(choice: Choice, index: int) -> dict[str, Any] | None:
    """Return what the panel of a token shows; None where neither arm has one."""
    if not 0 <= index < max(choice.length("primary"), choice.length("shadow")):
        return None
    flip, compared, at = choice.flip(index), choice.compared, choice.entry(index)
    cells = {arm: cell(choice, arm, index) if index < choice.length(arm) else None for arm in ("primary", "shadow")}
    first = compared.first
    return {
        "index": index,
        "kind": "" if flip is None else flip.kind.value,
        "apart": choice.mode is Mode.FREE and first is not None and index > first.index,
        "unscored": cells["shadow"] is not None and cells["shadow"].unscored,
        "parted_at": None if first is None else first.index,
        "arms": [_arm(choice, arm, index, cells[arm]) for arm in ("primary", "shadow")],
        "error": error(choice, index),
        "gap": flip.gap if flip is not None else taken(compared.gaps, at),
        "gap_at_least": None if flip is None else flip.gap_at_least,
        "shadow_gap": flip.shadow_gap if flip is not None else taken(compared.shadow_gaps, at),
        "between_both": flip is not None,
        "rank": taken(compared.ranks, at),
        "kl": taken(compared.kl_lower_bounds, at),
        "tv": taken(compared.tv_lower_bounds, at),
        "tie_seen_by": None if flip is None or flip.tie_seen_by is None else flip.tie_seen_by.value,
        "lowest": None if flip is None else flip.lowest,
        "ties": [one for one in compared.ties if one.index == index],
    }


def _arm(choice: Choice, arm: str, index: int, own: Any) -> dict[str, Any]:
    side, at, flip = choice.side(arm), choice.entry(index), choice.flip(index)
    top = () if side is None else side.top(index)
    values = choice.compared.primary_logprobs if arm == "primary" else choice.compared.shadow_logprobs
    logprob = side.logprobs[index] if side is not None and index < len(side) else taken(values, at)
    if flip is not None and arm == "shadow":
        logprob = flip.shadow.logprob
    picked = None if own is None else TokenRef(own.id, own.text)
    other = None if flip is None else (flip.shadow if arm == "primary" else flip.primary)
    listed = _listed(top, picked, other)
    at_once = [one for number, one in enumerate(listed) if number < FIRST or one["picked"] or one["other"]]
    return {
        "arm": arm,
        "cell": own,
        "logprob": logprob,
        "probability": probability(logprob),
        "alternatives": at_once,
        "further": [one for one in listed if one not in at_once],
    }


def _listed(top: Sequence[Alternative], picked: TokenRef | None, other: TokenRef | None) -> list[dict[str, Any]]:
    return [
        {
            "rank": sum(each.logprob > one.logprob for each in top) + 1,
            "token": {"id": one.id, "text": one.text},
            "data": one.data if one.text is None or "\ufffd" in one.text else None,
            "logprob": one.logprob,
            "probability": probability(one.logprob),
            "bar": round(100 * (probability(one.logprob) or 0), 2),
            "picked": _is(one, picked),
            "other": _is(one, other),
        }
        for one in top
    ]


def _is(one: Alternative, token: TokenRef | None) -> bool:
    if token is None:
        return False
    if one.id is not None and token.id is not None:
        return one.id == token.id
    return token.text is not None and one.text == token.text


def probability(logprob: float | None) -> float | None:
    """Return e to the logprob; None for None."""
    return None if logprob is None else math.exp(min(0.0, logprob))
