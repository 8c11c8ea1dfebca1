"""How often the arms part, per token at which they could have, with intervals whose unit is the conversation.

House rules. Tokens of one conversation are not independent, so a conversation is the unit of resampling. There is no random
source: a conversation's weight in a replicate comes from a hash of the two, so that any number of workers agree, and two
arms of the same conversation are resampled together. What happened a few times has the interval of a count, what never did is
bounded by the rule of three (``rare``), and no interval is ever a point.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from msgspec import Struct, field

from proxy.compare import rare
from proxy.compare.quantile import quantile
from proxy.compare.rare import Edges
from proxy.compare.resample import REPLICATES, lanes, replicates, weights

__all__ = [
    "CONFIDENCE",
    "ENOUGH_CONVERSATIONS",
    "REPLICATES",
    "Edges",
    "Exposure",
    "Intervals",
    "Seen",
    "bound",
    "compared",
    "gathered",
    "intervals",
    "per_thousand",
    "rates",
    "weights",
]

#: Share of replicates inside the interval.
CONFIDENCE = 0.95
#: Fewer conversations than this resample to almost nothing but themselves.
ENOUGH_CONVERSATIONS = 10

_TAIL = (1.0 - CONFIDENCE) / 2


class Exposure(Struct, frozen=True):
    """What one comparison adds to its conversation.

    First differences, positions at which there could have been one, and in how many token streams (each can part once).
    """

    conversation: str
    events: int
    exposed: int
    streams: int = 1


class Intervals(NamedTuple):
    """Intervals per 1,000 exposed tokens: the arm's hazard, the control's, and the excess. None where none can be given."""

    own: Edges | None
    floor: Edges | None = None
    excess: Edges | None = None


class Seen(Struct):
    """What was seen of one arm, added up over its conversations.

    ``conversations`` with exposure, their ``streams`` (each can part once), ``most_streams`` of any one conversation, and by conversation how often it ``parted``.
    ``drawn_events`` and ``drawn_exposed``: the same in every replicate, as lanes; they stay 0 where nobody needs them. ``once``: each stream parts once at the most; else nothing but
    its length limits how often a conversation does.
    """

    events: int = 0
    exposed: int = 0
    conversations: int = 0
    streams: int = 0
    most_streams: int = 0
    parted: dict[str, int] = field(default_factory=dict)
    drawn_events: int = 0
    drawn_exposed: int = 0
    once: bool = True


class _Sum(Struct):
    events: int = 0
    exposed: int = 0
    streams: int = 0


def per_thousand(events: float, exposed: float) -> float | None:
    """Return events per 1,000 exposed tokens, None without exposure."""
    return 1000.0 * events / exposed if exposed else None


def intervals(arm: Iterable[Exposure], control: Iterable[Exposure] = ()) -> Intervals:
    """Return the intervals of an arm and, where the control has exposure, of the floor and of the excess over it (see ``compared``)."""
    return compared(gathered(arm), gathered(control))


def compared(own: Seen, floor: Seen) -> Intervals:
    """Return the intervals of what was seen of an arm and of its control; a control without exposure is none.

    With events: percentiles of the bootstrap, or with few the interval of a count (``rare``); None with fewer than ``ENOUGH_CONVERSATIONS`` exposed
    conversations. Without: from 0 to ``bound``, however few there are. The excess is bootstrapped in pairs where both arms have many events, and otherwise
    put together from the two arms' own intervals (``rare.difference``), so that a floor of 0 is no more certain than it is. Where an arm may part at
    every position, the excess of what neither arm ever did has no interval.
    """
    ours, theirs = _Arm(own, _replicates(own)), _Arm(floor, _replicates(floor))
    alone = _edges(ours, theirs, 1.0 - CONFIDENCE)
    if not floor.exposed:
        return Intervals(alone)
    return Intervals(alone, _edges(theirs, ours, 1.0 - CONFIDENCE), _excess(ours, theirs))


def rates(own: Seen, floor: Seen, *, resampled: bool) -> dict[str, Any]:
    """Return events per 1,000: ``raw``, ``floor``, ``excess``, and their intervals where conversations are known (``resampled``), JSON-ready.

    ``raw_interval``, ``floor_interval``, and ``interval`` of the excess, or of the raw rate without a control. Empty without exposure.
    """
    raw, base = per_thousand(own.events, own.exposed), per_thousand(floor.events, floor.exposed)
    if raw is None:
        return {}
    found: dict[str, Any] = {"raw": raw}
    if base is not None:
        found |= {"floor": base, "excess": raw - base}
    if resampled:
        edges = compared(own, floor)
        named = {"raw_interval": edges.own, "floor_interval": edges.floor}
        named["interval"] = edges.own if base is None else edges.excess
        found |= {name: list(one) for name, one in named.items() if one is not None}
    return found


def bound(arm: Iterable[Exposure], miss: float = 1.0 - CONFIDENCE) -> float | None:
    """Return the upper bound of the hazard per 1,000 tokens of an arm without events; it fails with probability ``miss`` at most.

    If conversation i parts with probability p_i, none of them does with probability prod(1 - p_i) <= exp(-sum p_i), so that
    sum p_i <= ln(1 / miss): 3 for 95 %, the rule of three (Hanley and Lippman-Hand 1983, "If nothing goes wrong, is everything
    all right?", JAMA 249, 1743-1745). A conversation that parts does so in each of its streams at the worst, so the expected
    events are at most 3 times the streams of the largest conversation, and never more than all streams. None without exposure.
    """
    return _bound(gathered(arm), Seen(), miss)


def _bound(arm: Seen, beside: Seen, miss: float) -> float | None:
    most = arm.most_streams if arm.once or not _sized(arm, beside) else rare.size(beside.parted.values())
    return per_thousand(min(rare.unseen(miss) * most, arm.streams), arm.exposed)


def _sized(arm: Seen, beside: Seen) -> bool:
    """Say whether the arm beside shows how often a conversation parts that does, and enough of them are known that do not."""
    return bool(beside.parted) and arm.conversations >= ENOUGH_CONVERSATIONS


def gathered(exposures: Iterable[Exposure]) -> Seen:
    """Add exposures up, by conversation first."""
    found: dict[str, _Sum] = {}
    for exposure in exposures:
        if exposure.exposed:
            total = found.setdefault(exposure.conversation, _Sum())
            total.events += exposure.events
            total.exposed += exposure.exposed
            total.streams += exposure.streams
    seen = Seen(
        events=sum(one.events for one in found.values()),
        exposed=sum(one.exposed for one in found.values()),
        conversations=len(found),
        streams=sum(one.streams for one in found.values()),
        most_streams=max((one.streams for one in found.values()), default=0),
        parted={conversation: one.events for conversation, one in found.items() if one.events},
    )
    if seen.events and seen.conversations >= ENOUGH_CONVERSATIONS:
        for conversation, added in found.items():
            weight = lanes(conversation)
            seen.drawn_exposed += weight * added.exposed
            if added.events:
                seen.drawn_events += weight * added.events
    return seen


def _hazard(arm: Seen) -> float:
    return per_thousand(arm.events, arm.exposed) or 0.0


def _replicates(arm: Seen) -> list[float] | None:
    """Return the arm's hazard in each replicate; None without events, with too few conversations, or where one has no exposure."""
    if arm.conversations < ENOUGH_CONVERSATIONS or not arm.events:
        return None
    drawn = zip(replicates(arm.drawn_events), replicates(arm.drawn_exposed), strict=True)
    known = [hazard for pair in drawn if (hazard := per_thousand(*pair)) is not None]
    return known if len(known) == REPLICATES else None


def _percentiles(values: Iterable[float]) -> Edges:
    ordered = sorted(values)
    return quantile(ordered, _TAIL), quantile(ordered, 1.0 - _TAIL)


class _Arm(NamedTuple):
    seen: Seen
    drawn: list[float] | None


def _wider(arm: _Arm) -> float:
    """Return what one event is worth of a position (``rare.wider``)."""
    seen, spread = arm.seen, rare.variance(arm.drawn or [0.0])
    return rare.wider(spread / 1000.0 / 1000.0, seen.events / seen.exposed, len(seen.parted), 1.0 / seen.exposed)


def _few(arm: _Arm) -> bool:
    seen, drawn = arm.seen, arm.drawn
    return drawn is None or seen.events / seen.exposed < rare.FEW * _wider(arm) or min(drawn) == max(drawn)


def _edges(arm: _Arm, beside: _Arm, miss: float) -> Edges | None:
    seen = arm.seen
    if not seen.events:
        upper = _bound(seen, beside.seen, miss)
        return None if upper is None else (0.0, upper)
    if arm.drawn is None:
        return None
    if not _few(arm):
        return _percentiles(arm.drawn)
    low, high = rare.counted(seen.events / seen.exposed, _wider(arm))
    return 1000.0 * low, 1000.0 * min(high, 1.0)


def _excess(own: _Arm, floor: _Arm) -> Edges | None:
    ours, theirs = own.seen, floor.seen
    if not (ours.events and theirs.events) or _few(own) or _few(floor):
        return _combined(own, floor)
    low, high = _percentiles(one - other for one, other in zip(own.drawn or (), floor.drawn or (), strict=True))
    if ours.parted == theirs.parted:
        # Not one conversation in which one arm parted and the other did not: each way is bounded like any thing never seen.
        low = min(low, -(_bound(theirs, ours, _TAIL) or 0.0))
        high = max(high, _bound(ours, theirs, _TAIL) or 0.0)
    return low, high


def _combined(own: _Arm, floor: _Arm) -> Edges | None:
    """Return the interval of a difference from those of its terms. Each edge may fail half as often as the interval."""
    for one, other in ((own.seen, floor.seen), (floor.seen, own.seen)):
        if not (one.events or one.once or _sized(one, other)):
            return None
    ours, theirs = _edges(own, floor, _TAIL), _edges(floor, own, _TAIL)
    if ours is None or theirs is None:
        return None
    return rare.difference((_hazard(own.seen), ours), (_hazard(floor.seen), theirs))
