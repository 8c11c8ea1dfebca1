"""Everything measured at one position that both arms reached, and the arrays of a choice made of it.

House rules. Both rows are at the same prefix; ``token`` is the primary's. Values are None where an arm gave none, and all
differences are None where the arms' values may not be set against each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from proxy.compare import distance
from proxy.compare.row import Row, value
from proxy.compare.token_stream import Token


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
    return {
        "compared": len(positions),
        "positions": None if indices == tuple(range(len(positions))) else indices,
        "ids": tuple(position.id for position in positions),
        "primary_logprobs": tuple(position.primary_logprob for position in positions),
        "shadow_logprobs": tuple(position.shadow_logprob for position in positions),
        "gaps": tuple(position.gap for position in positions),
        "shadow_gaps": tuple(position.shadow_gap for position in positions),
        "gap_shifts": tuple(position.gap_shift for position in positions),
        "ranks": tuple(position.rank for position in positions),
        "kl_lower_bounds": tuple(position.kl for position in positions),
        "tv_lower_bounds": tuple(position.tv for position in positions),
        "top1_agree": tuple(position.agree for position in positions),
    }
