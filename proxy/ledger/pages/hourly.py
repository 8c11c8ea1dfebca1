"""What there was in each of the last hours, as bars: all comparisons that replies of their own made, those that parted, those that parted for good.

House rules. Pure: values in, markup out. The numbers stand beside it as a table, for whoever cannot see it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from markupsafe import Markup
from msgspec import Struct

from proxy.ledger.hours import HOUR

#: Hours that are shown.
HOURS = 48
_HEIGHT, _STEP = 56, 10


class Bar(Struct, frozen=True):
    """One hour, from ``start`` (Unix seconds) on: comparisons that could be made, those with a difference, those with a genuine one."""

    start: int
    compared: int
    differing: int
    genuine: int


def bars(found: Iterable[tuple[int, int, int, int]], now: float) -> list[Bar]:
    """Return the last ``HOURS`` hours, oldest first, empty ones included; ``found``: of ``hours.replies``."""
    last = int(now // HOUR) * HOUR
    by_hour = {start: (compared, differing, genuine) for start, compared, differing, genuine in found}
    starts = [last - HOUR * back for back in reversed(range(HOURS))]
    return [Bar(start, *by_hour.get(start, (0, 0, 0))) for start in starts]


def view(made: list[Bar]) -> dict[str, Any] | None:
    """Return the picture and its numbers; None where nothing happened."""
    most = max(one.compared for one in made)
    if not most:
        return None
    return {
        "picture": _picture(made, most),
        "rows": [one for one in reversed(made) if one.compared],
        "compared": sum(one.compared for one in made),
        "differing": sum(one.differing for one in made),
        "genuine": sum(one.genuine for one in made),
        "most": most,
    }


def _picture(made: list[Bar], most: int) -> Markup:
    width = _STEP * len(made)
    parts = [Markup("")]
    for number, one in enumerate(made):
        for kind, n in (("all", one.compared), ("differing", one.differing), ("genuine", one.genuine)):
            if n:
                height = max(1.0, n / most * (_HEIGHT - 2))
                bar = Markup('<rect class="{}" x="{}" y="{:.1f}" width="{}" height="{:.1f}"/>')
                parts.append(bar.format(kind, number * _STEP + 1, _HEIGHT - height, _STEP - 2, height))
    said = f"Comparisons in each of the last {len(made)} hours, at most {most:,}; differing ones and genuine differences among them"
    frame = Markup(
        '<svg class="spark" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-label="{}">{}'
        '<path class="axis" d="M0 {}H{}"/></svg>'
    )
    return frame.format(width, _HEIGHT, said, Markup("").join(parts), _HEIGHT, width)
