"""How often the arms part, per token at which they could have, with intervals whose unit is the conversation.

House rules. Tokens of one conversation are not independent, so a conversation is the unit of resampling. There is no random
source: a conversation's weight in a replicate comes from a hash of the two, so that any number of workers agree, and two
arms of the same conversation are resampled together. What never happened resamples to never: there the rule of three bounds
it, and no interval is ever a point.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import hypot, log
from typing import NamedTuple

from msgspec import Struct

from proxy.compare.quantile import quantile
from proxy.compare.resample import REPLICATES, lanes, replicates, weights

__all__ = [
    "CONFIDENCE",
    "ENOUGH_CONVERSATIONS",
    "REPLICATES",
    "Exposure",
    "Intervals",
    "bound",
    "intervals",
    "per_thousand",
    "weights",
]

#: Share of replicates inside the interval.
CONFIDENCE = 0.95
#: Fewer conversations than this resample to almost nothing but themselves.
ENOUGH_CONVERSATIONS = 10

_TAIL = (1.0 - CONFIDENCE) / 2

Edges = tuple[float, float]


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


class _Sum(Struct):
    events: int = 0
    exposed: int = 0
    streams: int = 0


def per_thousand(events: float, exposed: float) -> float | None:
    """Return events per 1,000 exposed tokens, None without exposure."""
    return 1000.0 * events / exposed if exposed else None


def intervals(arm: Iterable[Exposure], control: Iterable[Exposure] = ()) -> Intervals:
    """Return the intervals of an arm and, where the control has exposure, of the floor and of the excess over it.

    With events: percentiles of the bootstrap, None with fewer than ``ENOUGH_CONVERSATIONS`` exposed conversations. Without:
    from 0 to ``bound``, however few there are. The excess is bootstrapped in pairs where both arms have events, and otherwise
    put together from the two arms' own intervals (``_combined``), so that a floor of 0 is no more certain than it is.
    """
    own, floor = _by_conversation(arm), _by_conversation(control)
    ours, theirs = _replicates(own), _replicates(floor)
    alone = _edges(own, ours, 1.0 - CONFIDENCE)
    if not floor:
        return Intervals(alone)
    return Intervals(alone, _edges(floor, theirs, 1.0 - CONFIDENCE), _excess((own, ours), (floor, theirs)))


def bound(arm: Iterable[Exposure], miss: float = 1.0 - CONFIDENCE) -> float | None:
    """Return the upper bound of the hazard per 1,000 tokens of an arm without events; it fails with probability ``miss`` at most.

    If conversation i parts with probability p_i, none of them does with probability prod(1 - p_i) <= exp(-sum p_i), so that
    sum p_i <= ln(1 / miss): 3 for 95 %, the rule of three (Hanley and Lippman-Hand 1983, "If nothing goes wrong, is everything
    all right?", JAMA 249, 1743-1745). A conversation that parts does so in each of its streams at the worst, so the expected
    events are at most 3 times the streams of the largest conversation, and never more than all streams. None without exposure.
    """
    return _bound(_by_conversation(arm), miss)


def _bound(arm: Mapping[str, _Sum], miss: float) -> float | None:
    streams = [one.streams for one in arm.values()]
    worst = min(log(1.0 / miss) * max(streams, default=0), sum(streams))
    return per_thousand(worst, sum(one.exposed for one in arm.values()))


def _by_conversation(exposures: Iterable[Exposure]) -> dict[str, _Sum]:
    found: dict[str, _Sum] = {}
    for one in exposures:
        if one.exposed:
            added = found.setdefault(one.conversation, _Sum())
            added.events += one.events
            added.exposed += one.exposed
            added.streams += one.streams
    return found


def _hazard(arm: Mapping[str, _Sum]) -> float:
    return per_thousand(sum(one.events for one in arm.values()), sum(one.exposed for one in arm.values())) or 0.0


def _replicates(arm: Mapping[str, _Sum]) -> list[float] | None:
    """Return the arm's hazard in each replicate; None without events, with too few conversations, or where one has no exposure."""
    if len(arm) < ENOUGH_CONVERSATIONS or not any(one.events for one in arm.values()):
        return None
    events = exposed = 0
    for conversation, one in arm.items():
        weight = lanes(conversation)
        exposed += weight * one.exposed
        if one.events:
            events += weight * one.events
    hazards = [per_thousand(*pair) for pair in zip(replicates(events), replicates(exposed), strict=True)]
    known = [hazard for hazard in hazards if hazard is not None]
    return known if len(known) == REPLICATES else None


def _percentiles(values: Iterable[float]) -> Edges:
    ordered = sorted(values)
    return quantile(ordered, _TAIL), quantile(ordered, 1.0 - _TAIL)


def _edges(arm: Mapping[str, _Sum], replicates: list[float] | None, miss: float) -> Edges | None:
    if replicates is not None:
        return _percentiles(replicates)
    upper = None if any(one.events for one in arm.values()) else _bound(arm, miss)
    return None if upper is None else (0.0, upper)


def _excess(
    own: tuple[Mapping[str, _Sum], list[float] | None], floor: tuple[Mapping[str, _Sum], list[float] | None]
) -> Edges | None:
    (ours, hazards), (theirs, floors) = own, floor
    if hazards is None or floors is None:
        return _combined(own, floor)
    low, high = _percentiles(one - other for one, other in zip(hazards, floors, strict=True))
    if _events(ours) == _events(theirs):
        # Not one conversation in which one arm parted and the other did not: each way is bounded like any thing never seen.
        low = min(low, -(_bound(theirs, _TAIL) or 0.0))
        high = max(high, _bound(ours, _TAIL) or 0.0)
    return low, high


def _events(arm: Mapping[str, _Sum]) -> dict[str, int]:
    return {conversation: one.events for conversation, one in arm.items() if one.events}


def _combined(
    own: tuple[Mapping[str, _Sum], list[float] | None], floor: tuple[Mapping[str, _Sum], list[float] | None]
) -> Edges | None:
    """Return the interval of a difference from the intervals of its terms (MOVER).

    Zou and Donner 2008, "Construction of confidence limits about effect measures: a general approach", Statistics in Medicine
    27, 1693-1702. The terms are taken as independent; arms of the same conversations part together if anything, which makes
    the interval too wide rather than too narrow. Each edge may fail half as often as the interval.
    """
    ours, theirs = _edges(*own, _TAIL), _edges(*floor, _TAIL)
    if ours is None or theirs is None:
        return None
    hazard, base = _hazard(own[0]), _hazard(floor[0])
    low = hazard - base - hypot(hazard - ours[0], theirs[1] - base)
    return low, hazard - base + hypot(ours[1] - hazard, base - theirs[0])
