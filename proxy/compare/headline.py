"""Every headline number three times: raw (the arm), floor (the control in the same mode), excess, each with an interval.

House rules. What the numbers are is said in ``quantities``. The excess is bootstrapped in pairs, for the two arms of one conversation are resampled together.
What happened a few times or never has the intervals of ``rare``, as in ``hazard``. No interval is ever a point, and where none can be given the key is absent and
``no_interval`` says why, in one of ``REASONS``; what was not measured is absent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from proxy.compare import rare
from proxy.compare.addends import Addends, by_conversation
from proxy.compare.comparison import Comparison, Mode
from proxy.compare.hazard import CONFIDENCE, ENOUGH_CONVERSATIONS, Edges
from proxy.compare.quantities import Quantile, Quantity, Ratio, quantities
from proxy.compare.resampled import TAIL, Arm, percentiles, resample

Headline = dict[str, dict[str, Any]]
_Replicates = list[float] | None

#: Why there is no interval.
REASONS = {
    "conversations_unknown": "it is not known which replies are of one conversation",
    "few_conversations": f"fewer than {ENOUGH_CONVERSATIONS} conversations",
    "never_seen": "neither arm has any of it",
    "no_spread": "it is the same in every conversation",
    "undefined": "it cannot be formed without some of the conversations",
}


def headline(
    mode: Mode,
    comparisons: Sequence[Comparison],
    conversations: Sequence[str] | None = None,
    control: Sequence[Comparison] = (),
    control_conversations: Sequence[str] | None = None,
) -> Headline:
    """Return the headline numbers of an arm's comparisons in one mode, by name.

    ``control``: the control's comparisons in the same mode over the same time; in ``forced`` mode these are the primary's tokens scored by the primary's own
    stack. ``conversations`` (one key per comparison, and the control's likewise) allow intervals; None: they are not known.
    """
    own = by_conversation(comparisons, conversations or [""] * len(comparisons))
    floor = by_conversation(control, control_conversations or [""] * len(control))
    known = bool(conversations) and (not floor or bool(control_conversations))
    return headline_of(mode, own, floor, known=known)


def headline_of(
    mode: Mode, own: Mapping[str, Addends], floor: Mapping[str, Addends] | None = None, *, known: bool = True
) -> Headline:
    """Return the same from what each conversation adds up to (``addends``); ``known``: they are conversations, and give intervals.

    Each number has ``raw``, ``n`` (what it is a share or mean of) and ``conversations``; ``raw_interval``; with a control ``floor``, ``floor_n``,
    ``floor_conversations``, ``floor_interval`` and ``excess``; and ``interval``, of the excess, or without a control of the raw number. Intervals are [low, high]
    at 95 %; ``no_interval`` names by its key why one is absent (``REASONS``). ``is_kl`` stands beside k1 and k3: the share of tokens for which their means estimate a KL; ``left_out`` beside relative errors: nearly certain
    tokens.
    """
    return headline_of_arms(mode, Arm(own), Arm(floor or {}), known=known)


def headline_of_arms(mode: Mode, arm: Arm, base: Arm, *, known: bool) -> Headline:
    """Return the same from both arms (``base`` empty: no control), which may be used again: what was resampled of them is kept."""
    return numbers_of(quantities(mode), arm, base, known=known)


def numbers_of(wanted: Iterable[Quantity], arm: Arm, base: Arm, *, known: bool) -> Headline:
    """Return the numbers of any quantities, each as ``headline_of`` gives it; those that were not measured are left out."""
    if known:
        resample((arm, base))
    found: Headline = {}
    for quantity in wanted:
        raw = arm.value(quantity)
        if raw is not None:
            found[quantity.name] = _number(quantity, raw, arm, base, known=known) | _beside(quantity, arm)
    return found


def _number(quantity: Quantity, raw: float, arm: Arm, base: Arm, *, known: bool) -> dict[str, Any]:
    number: dict[str, Any] = {"raw": raw, "n": arm.n(quantity), "conversations": arm.seen(quantity)}
    floor = base.value(quantity)
    if floor is not None:
        number |= {
            "floor": floor,
            "excess": raw - floor,
            "floor_n": base.n(quantity),
            "floor_conversations": base.seen(quantity),
        }
    if not known:
        del number["conversations"]
        number.pop("floor_conversations", None)
        return number | {"no_interval": {"interval": "conversations_unknown"}}
    own, others = arm.replicates(quantity), base.replicates(quantity) if floor is not None else None
    alone = arm.edges(quantity, own, 1.0 - CONFIDENCE, base)
    edges = {"raw_interval": alone, "interval": alone}
    why: dict[str, tuple[Arm, ...]] = {"raw_interval": (arm,), "interval": (arm,)}
    if floor is not None:
        edges["floor_interval"] = base.edges(quantity, others, 1.0 - CONFIDENCE, arm)
        edges["interval"] = _excess(quantity, (arm, own), (base, others))
        why |= {"floor_interval": (base,), "interval": (arm, base)}
    number |= {name: list(one) for name, one in edges.items() if one is not None}
    absent = {name: _reason(quantity, why[name]) for name, one in edges.items() if one is None}
    return number | ({"no_interval": absent} if absent else {})


def _reason(quantity: Quantity, arms: Sequence[Arm]) -> str:
    """Say why there is no interval of these arms' number, by the first that holds of ``REASONS``."""
    if any(arm.seen(quantity) < ENOUGH_CONVERSATIONS for arm in arms):
        return "few_conversations"
    if isinstance(quantity, Ratio):
        return "no_spread" if any(arm.sums[quantity.part] for arm in arms) else "never_seen"
    return "undefined" if any(arm.replicates(quantity) is None for arm in arms) else "no_spread"


def _beside(quantity: Quantity, arm: Arm) -> dict[str, Any]:
    match quantity:
        case Ratio(name="k1_nats" | "k3_nats"):
            return {"is_kl": arm.sums["kl_values"] / arm.sums["values"]}
        case Quantile(bins="relative"):
            return {"left_out": arm.sums["left_out"]}
        case _:
            return {}


def _excess(quantity: Quantity, own: tuple[Arm, _Replicates], floor: tuple[Arm, _Replicates]) -> Edges | None:
    """Return the interval of the difference, paired where both arms have replicates that say enough."""
    (arm, ours), (base, theirs) = own, floor
    if ours is None or theirs is None or arm.few(quantity, ours) or base.few(quantity, theirs):
        return _combined(quantity, own, floor)
    low, high = percentiles([one - other for one, other in zip(ours, theirs, strict=True)])
    if isinstance(quantity, Ratio) and arm.parts(quantity) == base.parts(quantity):
        # Not one conversation in which the arms differ: each way is bounded like any thing never seen.
        up, down = arm.bound(quantity, TAIL, base), base.bound(quantity, TAIL, arm)
        if up is not None and down is not None:
            widest = sorted((quantity.per * up, -quantity.per * down))
            low, high = min(low, widest[0]), max(high, widest[1])
    return (low, high) if low < high else _combined(quantity, own, floor)


def _combined(quantity: Quantity, own: tuple[Arm, _Replicates], floor: tuple[Arm, _Replicates]) -> Edges | None:
    """Return the interval of a difference from those of its terms. Each edge of a term may fail half as often as the interval."""
    (arm, ours), (base, theirs) = own, floor
    if isinstance(quantity, Ratio) and not quantity.once and _unknown(quantity, arm, base):
        return None
    one, other = arm.edges(quantity, ours, TAIL, base), base.edges(quantity, theirs, TAIL, arm)
    raw, floored = arm.value(quantity), base.value(quantity)
    if one is None or other is None or raw is None or floored is None:
        return None
    return rare.difference((raw, one), (floored, other))


def _unknown(quantity: Ratio, arm: Arm, base: Arm) -> bool:
    """Say whether nothing shows how much a conversation would have of what one of the arms never, or always, has."""
    for one, other in ((arm, base), (base, arm)):
        always = one.always(quantity)
        if (always or not one.sums[quantity.part]) and not one.sized(quantity, other, other=always):
            return True
    return False
