"""How far each arm has been from the primary so far, in constant memory: what an alert sets beside the control's, the noise floor.

House rules. Counts and fixed bins, of one pair of stacks: when either arm is another one, what was counted of the one before is dropped. Quantities have the
names of the report's headline numbers; there is none before ``near_tie.ENOUGH_POSITIONS`` positions. Learned from what has settled. Of an exchange in which
the control names no tokens none of a candidate are counted, for the two are held against each other (``ledger.matched`` says why). The book
goes into the store now and then, with settlements.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import msgspec
from msgspec import Struct, field

from proxy.compare.bins import Bins
from proxy.compare.comparison import Comparison, FlipClass, Mode
from proxy.compare.hazard import per_thousand
from proxy.compare.near_tie import ENOUGH_POSITIONS
from proxy.compare.summary import flip_positions, value_pairs
from proxy.ledger.record import Record


class Measured(NamedTuple):
    """One number of one arm."""

    shadow: str
    role: str
    mode: str
    quantity: str
    value: float


class Page(Struct):
    """What was counted of one shadow in one mode. ``positions``: at which it could have parted (free) or flipped (forced)."""

    role: str
    stacks: tuple[str, str]
    positions: int = 0
    flips: int = 0
    genuine: int = 0
    errors: Bins = field(default_factory=Bins)

    def take(self, comparison: Comparison) -> None:
        """Count one comparison that could be made."""
        self.positions += flip_positions(comparison)
        for choice in comparison.choices:
            for flip in (choice.first, *choice.flips):
                if flip is not None:
                    self.flips += 1
                    self.genuine += flip.kind is FlipClass.GENUINE
        self.errors.add([abs(q - p) for p, q in value_pairs(comparison)])

    def numbers(self, mode: Mode) -> Iterator[tuple[str, float | None]]:
        """Yield what enough was seen for."""
        if self.positions >= ENOUGH_POSITIONS:
            match mode:
                case Mode.FREE:
                    names = "divergences_per_1000_tokens", "genuine_divergences_per_1000_tokens"
                case Mode.FORCED:
                    names = "flips_per_1000_positions", "genuine_flips_per_1000_positions"
            yield names[0], per_thousand(self.flips, self.positions)
            yield names[1], per_thousand(self.genuine, self.positions)
        if len(self.errors) >= ENOUGH_POSITIONS:
            median, high = self.errors.quantiles((0.5, 0.99))
            yield "median_error_nats", median
            yield "p99_error_nats", high


class FloorBook:
    """A page for each shadow and mode. ``stored``: the book of an earlier life."""

    def __init__(self, stored: bytes | None = None) -> None:
        self._pages: dict[str, dict[Mode, Page]] = {}
        if stored is not None:
            try:
                self._pages = msgspec.json.decode(stored, type=dict[str, dict[Mode, Page]])
            except msgspec.MsgspecError:  # an older layout: what was counted is counted anew
                self._pages = {}

    def take(self, record: Record) -> None:
        """Count one record."""
        comparison, stacks = record.comparison, (record.primary_footprint, record.shadow_footprint)
        if comparison.incomparable is not None or not comparison.choices:
            return
        pages = self._pages.setdefault(record.shadow, {})
        page = pages.get(comparison.mode)
        if page is None or (page.role, page.stacks) != (record.role, stacks):
            page = pages[comparison.mode] = Page(record.role, stacks)
        page.take(comparison)

    def take_exchange(self, records: Sequence[Record]) -> None:
        """Count the records of one exchange; of a candidate only where the control, if it has a record in that mode, names tokens, too."""
        silent = {one.comparison.mode for one in records if one.role == "control" and not _tokens(one.comparison)}
        for one in records:
            if one.role == "control" or one.comparison.mode not in silent:
                self.take(one)

    def only(self, shadows: Collection[str]) -> None:
        """Drop the shadows that are no longer configured."""
        self._pages = {shadow: pages for shadow, pages in self._pages.items() if shadow in shadows}

    def measured(self) -> Iterator[Measured]:
        """Yield every number that there is."""
        for shadow, pages in self._pages.items():
            for mode, page in pages.items():
                for quantity, value in page.numbers(mode):
                    if value is not None:
                        yield Measured(shadow, page.role, mode.value, quantity, value)

    def encode(self) -> bytes:
        """Return the whole book, for the store. Sums are longer than 64 bits, which JSON carries and MessagePack does not."""
        return msgspec.json.encode(self._pages)


def _tokens(comparison: Comparison) -> int:
    return sum(choice.compared for choice in comparison.choices)
