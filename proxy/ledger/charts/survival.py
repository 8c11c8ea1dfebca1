"""The share of replies that are still the primary's after so many tokens, with intervals and how many are left to watch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup
from msgspec import Struct

from proxy.ledger.charts.figure import WIDTH, Axis, Table, axes, figure, legend, nothing
from proxy.ledger.charts.markup import finite, path, text
from proxy.ledger.charts.scale import Scale, ratios
from proxy.ledger.pages.visible import count, share

_ARMS = ("candidate", "control")
_TITLE = "How long replies stay the same"
_LEFT, _RIGHT, _TOP, _BOTTOM = 44.0, WIDTH - 10, 34.0, 214.0
#: Position, share, interval, replies still watched.
_Point = tuple[float, float, tuple[float, float] | None, int | None]


class _Arm(Struct, frozen=True):
    """``points``: position, share, interval or None, replies still watched."""

    role: str
    streams: int
    points: tuple[_Point, ...]


def survival(block: Mapping[str, Any] | None) -> Markup:
    """Draw the ``survival`` of a report's ``free`` block (Kaplan-Meier, 95 % intervals); words where there is none."""
    arms = [one for role in _ARMS if (one := _arm(block or {}, role)).points]
    if not arms:
        return nothing(_TITLE, "No reply could be followed token by token yet.")
    x = ratios([at for one in arms for at, *_ in one.points], _LEFT, _RIGHT)
    y = Scale(0.0, 1.0, _BOTTOM, _TOP)
    drawn = axes(Axis(x, "tokens from the beginning (logarithmic)"), Axis(y, "share still the same", _percents()))
    for one in arms:
        drawn += _drawn(one, x, y)
    height = _BOTTOM + 58
    for one in arms:
        drawn += _watched(one, x, height)
        height += 16
    drawn += legend([(one.role, one.role) for one in arms], 26)
    said = " and ".join(f"{count(one.streams)} of the {one.role}" for one in arms)
    return figure(
        _TITLE,
        "Share of replies that equal the primary's for their first t tokens. " + " ".join(map(_in_words, arms)),
        drawn,
        height,
        f"Share of replies equal to the primary's for their first t tokens (Kaplan-Meier; bands: 95 %). n: replies, {said}. Below: how many are still watched.",
        _table(arms),
    )


def _arm(block: Mapping[str, Any], role: str) -> _Arm:
    positions, values = block.get("positions") or (), block.get(role) or ()
    intervals = (block.get("intervals") or {}).get(role) or ()
    risk = (block.get("at_risk") or {}).get(role) or ()
    points = []
    for at, (position, value) in enumerate(zip(positions, values, strict=False)):
        place, known = finite(position), finite(value)
        if place is not None and place > 0 and known is not None:
            band = _band(intervals[at]) if at < len(intervals) else None
            points.append((place, known, band, risk[at] if at < len(risk) else None))
    return _Arm(role, int((block.get("streams") or {}).get(role) or 0), tuple(points))


def _band(edges: Sequence[Any] | None) -> tuple[float, float] | None:
    low, high = (finite(one) for one in (edges or (None, None)))
    return None if low is None or high is None else (low, high)


def _drawn(one: _Arm, x: Scale, y: Scale) -> list[Markup]:
    upper = _steps([(x.at(at), y.at(band[1])) for at, _, band, _ in one.points if band is not None])
    lower = _steps([(x.at(at), y.at(band[0])) for at, _, band, _ in one.points if band is not None])
    curve = _steps([(x.at(at), y.at(value)) for at, value, _, _ in one.points])
    return [path([*upper, *reversed(lower)], f"band {one.role}", closed=True), path(curve, f"curve {one.role}")]


def _steps(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """A share stays what it is until the next position."""
    found: list[tuple[float, float]] = []
    for place, height in points:
        if found:
            found.append((place, found[-1][1]))
        found.append((place, height))
    return found


def _watched(one: _Arm, x: Scale, y: float) -> list[Markup]:
    drawn, free = [text(0, y, one.role, "tick")], 52.0
    for at, _, _, left in one.points:
        place = x.at(at)
        if left is not None and place >= free:
            drawn.append(text(place, y, count(left), "tick", "middle"))
            free = place + 30
    return drawn


def _percents() -> tuple[tuple[float, str], ...]:
    return tuple((part / 4, f"{25 * part} %") for part in range(5))


def _in_words(one: _Arm) -> str:
    at, value, *_ = one.points[-1]
    return f"{one.role}: {share(value)} at token {count(at)}, of {count(one.streams)} replies."


def _table(arms: Sequence[_Arm]) -> Table:
    heads = ["token", *(f"{one.role}{what}" for one in arms for what in ("", ", 95 %", ", watched"))]
    rows = []
    for place in sorted({at for one in arms for at, *_ in one.points}):
        cells = [count(place)]
        for one in arms:
            cells += next((_cells(point) for point in one.points if point[0] == place), ["–"] * 3)
        rows.append(tuple(cells))
    return Table(tuple(heads), tuple(rows))


def _cells(point: _Point) -> list[str]:
    _, value, band, left = point
    return [share(value), "–" if band is None else f"{share(band[0])} to {share(band[1])}", count(left)]
