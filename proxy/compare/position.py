"""Everything measured at one position that both arms reached, and the arrays of a choice made of it.

House rules. Both rows are at the same prefix; ``token`` is the primary's. Values are None where an arm gave none, and all
differences are None where the arms' values may not be set against each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import astuple

from proxy.compare import distance
from proxy.compare.row import Row, value
from proxy.compare.token_stream import Token

#: A position's fields but its index, as a tuple: what there are hundreds of.
Entry = tuple[Any, ...]
#: The same of many positions by field: the arrays of ``ChoiceComparison`` as lists, in the order of ``_ARRAYS``.
Table = list[list[Any]]
_ARRAYS = (
    "ids",
    "primary_logprobs",
    "shadow_logprobs",
    "gaps",
    "shadow_gaps",
    "gap_shifts",
    "ranks",
    "kl_lower_bounds",
    "tv_lower_bounds",
    "top1_agree",
)


class Position(Struct, frozen=True, gc=False):
    """One entry of each array of ``ChoiceComparison``; see there."""

    index: int
    id: int | None = None
    primary_logprob: float | None = None
    shadow_logprob: float | None = None
    gap: float | None = None
    shadow_gap: float | None = None
    gap_shift: float | None = None
    rank: int | None = None
    kl: float | None = None
    tv: float | None = None
    agree: bool | None = None


def measure(
    index: int,
    token: Token,
    rows: tuple[Row, Row],
    shadow_logprob: float | None,
    *,
    agree: bool | None,
    comparable: bool,
) -> Position:
    """Measure one position; ``rows`` are (primary's, shadow's), ``shadow_logprob`` the shadow's value of the primary's token."""
    primary, shadow = rows
    kl = tv = None
    if comparable and (pairs := distance.shared(primary, shadow)):
        kl, tv = distance.lower_bounds(pairs)
    return Position(
        index=index,
        id=token.id,
        primary_logprob=None if primary.chosen is None else token.logprob,
        shadow_logprob=shadow_logprob,
        gap=primary.gap,
        shadow_gap=shadow.gap,
        gap_shift=_gap_shift(primary, shadow) if comparable else None,
        rank=distance.rank(shadow, shadow_logprob),
        kl=kl,
        tv=tv,
        agree=agree,
    )


def _gap_shift(primary: Row, shadow: Row) -> float | None:
    if primary.gap is None:
        return None
    first, second = value(shadow, primary.entries[0]), value(shadow, primary.entries[1])
    return None if first is None or second is None else first - second - primary.gap


def arrays(positions: Sequence[Position]) -> dict[str, Any]:
    """Return the array fields of ``ChoiceComparison``, with ``compared`` and ``positions``."""
    indices = tuple(position.index for position in positions)
    every = indices == tuple(range(len(positions)))
    return {**entries(table([entry(position) for position in positions])), "positions": None if every else indices}


def entry(position: Position) -> Entry:
    """Return a position without its index."""
    return astuple(position)[1:]


def table(found: Sequence[Entry | None]) -> Table:
    """Turn positions, known or not, into a table."""
    nothing = (None,) * len(_ARRAYS)
    if not found:
        return [[] for _ in nothing]
    return list(map(list, zip(*(one or nothing for one in found), strict=True)))


def entries(measured: Table) -> dict[str, Any]:
    """Return the array fields of ``ChoiceComparison`` for positions that run from 0, with ``compared``."""
    return {"compared": len(measured[0]), **dict(zip(_ARRAYS, map(tuple, measured), strict=True))}
