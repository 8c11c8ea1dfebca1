"""What a part of the report is made of, and numbers that say where in the report they stand.

House rules. Pure. A number that is shown is one of the report's: ``At`` goes down into its dict and remembers the way (JSON pointer, RFC 6901), ``data`` writes the whole number and the
way beside what a person reads, so that every number of the file can be held against the JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup
from msgspec import Struct

from proxy.ledger.charts.markup import finite
from proxy.ledger.pages.visible import NOTHING, amount, count, printed, share

Cell = Markup | str
QUANTILES = ("median", "p90", "p99", "max", "mean")
_NOTHING = Markup("–")


class Table(Struct, frozen=True):
    """Rows whose first cell is their head; ``marked``: numbers of rows that stand out; ``text``: the cells are texts and not numbers; ``notes``: what its words mean."""

    caption: str
    heads: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    marked: frozenset[int] = frozenset()
    text: bool = False
    notes: tuple[str, ...] = ()


class Part(Struct, frozen=True):
    """One part: sentences, then charts, then tables; ``empty`` stands there when there are none of these."""

    title: str
    said: tuple[Cell, ...] = ()
    charts: tuple[Markup, ...] = ()
    tables: tuple[Table, ...] = ()
    empty: str = ""


class At(Struct, frozen=True):
    """A value of the report and where it stands; what is absent is None, all the way down."""

    value: Any
    pointer: str = ""

    def __getitem__(self, key: str | int) -> At:
        way = f"{self.pointer}/{str(key).replace('~', '~0').replace('/', '~1')}"
        if isinstance(self.value, Mapping):
            return At(self.value.get(key), way)
        if isinstance(self.value, Sequence) and not isinstance(self.value, str) and isinstance(key, int):
            return At(self.value[key] if key < len(self.value) else None, way)
        return At(None, way)

    def __iter__(self) -> Iterator[At]:
        return (self[key] for key in range(len(self.value or ())))

    def __bool__(self) -> bool:
        return bool(self.value)

    def names(self) -> list[str]:
        """Return the names of what it holds."""
        return list(self.value) if isinstance(self.value, Mapping) else []


def data(at: At, form: Callable[[float | None], str] = amount) -> Markup:
    """Return a number: as ``form`` writes it, with all its digits and its place; a dash for none."""
    value = at.value
    if isinstance(value, str):
        return Markup('<data value="{}" data-of="{}">{}</data>').format(
            printed(value), printed(at.pointer), printed(value)
        )
    if finite(value) is None:
        return _NOTHING
    return Markup('<data value="{}" data-of="{}">{}</data>').format(repr(value), printed(at.pointer), form(value))


def interval(at: At, form: Callable[[float | None], str] = amount) -> Markup:
    """Return both ends; an end that is not known is a dash."""
    if not at:
        return _NOTHING
    return Markup("{} to {}").format(data(at[0], form), data(at[1], form))


def distribution(block: At) -> tuple[Cell, ...]:
    """Return the cells of a distribution: ``QUANTILES``, then of how many."""
    return (*(data(block[name]) for name in QUANTILES), data(block["count"], count))


def form_of(name: str) -> Callable[[float | None], str]:
    """Return how a headline number is written: a share as per cent, a correlation with places enough."""
    if name.endswith("_share"):
        return share
    return _near_one if name == "correlation" else amount


def _near_one(value: float | None) -> str:
    return NOTHING if value is None else amount(value) if abs(value) < 0.9 else f"{value:.5f}"


def named(name: str) -> str:
    """Return a name of the report as words."""
    return name.replace("_", " ")
