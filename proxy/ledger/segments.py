"""Records by the pair of stacks that made them: numbers of two pairs are never put together.

House rules. Pure. Headline numbers are those of the pair that was compared last; the ones before stand beside them. What was begun between the last look that
still found the old stack and the one that found the new may be of either, and is in neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct, field

from proxy.compare.addends import Made, by_conversation
from proxy.compare.comparison import Comparison
from proxy.compare.resampled import Arm
from proxy.ledger.changes import Change
from proxy.ledger.record import Record, RequestFacts, Timing


class Pair(NamedTuple):
    """Footprint ids of both arms, "" where unknown."""

    primary: str = ""
    shadow: str = ""


class Origin(NamedTuple):
    """Of which exchange a comparison was made, and what that was like."""

    exchange: str
    time: float
    conversation: str
    model: str
    endpoint: str
    request: RequestFacts
    in_flight: int
    cached_tokens: int | None
    footprints: Pair


class Gathered(Struct):
    """What the report needs of one shadow's records, in one mode. ``made``: what of it was worked out already; a part of it has the same."""

    comparisons: list[Comparison] = field(default_factory=list)
    conversations: list[str] = field(default_factory=list)
    timings: list[tuple[Timing, Timing]] = field(default_factory=list)
    prompts: list[str] = field(default_factory=list)
    loads: list[int] = field(default_factory=list)
    origins: list[Origin] = field(default_factory=list)
    made: Made = field(default_factory=dict)
    _arm: Arm | None = None

    def arm(self) -> Arm:
        """Return the comparisons as an arm of headline numbers; made once, for a control is the floor of several."""
        if self._arm is None:
            self._arm = Arm(by_conversation(self.comparisons, self.conversations, self.made))
        return self._arm

    def take(self, record: Record) -> None:
        """Take in one record."""
        self._arm = None
        self.comparisons.append(record.comparison)
        self.conversations.append(record.conversation)
        self.timings.append((record.primary_timing, record.shadow_timing))
        self.prompts.append(record.prompt)
        self.loads.append(record.in_flight)
        self.origins.append(
            Origin(
                record.exchange,
                record.time,
                record.conversation,
                record.model,
                record.endpoint,
                record.request,
                record.in_flight,
                record.cached_tokens,
                Pair(record.primary_footprint, record.shadow_footprint),
            )
        )

    def with_(self, other: Gathered) -> Gathered:
        """Return both together."""
        return Gathered(
            self.comparisons + other.comparisons,
            self.conversations + other.conversations,
            self.timings + other.timings,
            self.prompts + other.prompts,
            self.loads + other.loads,
            self.origins + other.origins,
            self.made,
        )


class Segment(Struct):
    """What was compared while both arms were one pair of stacks: when the first and the last exchange began (Unix seconds), by mode what was compared."""

    first: float
    last: float
    modes: dict[str, Gathered] = field(default_factory=dict)


class Segments:
    """One shadow's records. ``changes``: those of its own stack and of the primary's."""

    def __init__(self, changes: Sequence[Change] = ()) -> None:
        self.changes = changes
        self.pair = Pair()
        self.by_pair: dict[Pair, Segment] = {}
        self.unsure = 0
        self._apart: dict[str, Gathered] = {}  # not compared: of no pair
        self._latest: dict[str, Gathered] = {}

    def take(self, record: Record) -> None:
        """Take in one record, in the order of their settling."""
        mode = record.comparison.mode.value
        self._latest.clear()
        if record.comparison.incomparable is not None:
            self._apart.setdefault(mode, Gathered()).take(record)
            return
        if any(one.confirmed <= record.time < one.time for one in self.changes):
            self.unsure += 1
            return
        self.pair = Pair(record.primary_footprint, record.shadow_footprint)
        segment = self.by_pair.setdefault(self.pair, Segment(record.time, record.time))
        segment.first, segment.last = min(segment.first, record.time), max(segment.last, record.time)
        segment.modes.setdefault(mode, Gathered()).take(record)

    @property
    def modes(self) -> frozenset[str]:
        """The modes of which there are records."""
        return frozenset(self._apart).union(*(segment.modes for segment in self.by_pair.values()))

    def latest(self, mode: str) -> Gathered:
        """Return what was compared of the latest pair, and all that could not be compared."""
        if mode not in self._latest:
            segment = self.by_pair.get(self.pair)
            compared = segment.modes.get(mode, Gathered()) if segment is not None else Gathered()
            self._latest[mode] = compared.with_(self._apart.get(mode, Gathered()))
        return self._latest[mode]

    def earlier(self) -> list[tuple[Pair, Segment]]:
        """Return the other pairs, oldest first."""
        others = [(pair, segment) for pair, segment in self.by_pair.items() if pair != self.pair]
        return sorted(others, key=lambda one: one[1].first)
