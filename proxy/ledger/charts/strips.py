"""Rows of strips, a name above each: headline numbers with their floor, quantiles, shares, slices.

House rules. Pure. A row has a scale of its own where rows are of different things, and its ends stand beside it; else one axis is below all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup
from msgspec import Struct

from proxy.ledger.charts.along import between
from proxy.ledger.charts.figure import WIDTH, Table, figure, legend, nothing
from proxy.ledger.charts.markup import element, finite, line, mark, text
from proxy.ledger.charts.scale import Scale, even, ratios
from proxy.ledger.pages.visible import amount, count, share, shortened

_LEFT, _RIGHT = 8.0, WIDTH - 8
_ROW = 54.0
_TOP = 32.0
_QUANTILES = ("median", "p90", "p99", "max")


class Line(Struct, frozen=True):
    """One headline number: what it is called, and its block of the report (``raw``, ``floor``, ``excess``, their intervals, ``n``, ``floor_n``)."""

    name: str
    block: Mapping[str, Any]


class Spread(Struct, frozen=True):
    """A distribution of an arm: ``block`` has ``median``, ``p90``, ``p99``, ``max``, ``count``."""

    name: str
    arm: str
    block: Mapping[str, Any]


def floors(lines: Sequence[Line], title: str = "Floor and excess") -> Markup:
    """Draw headline numbers: the candidate beside the noise floor, each row with a scale of its own."""
    shown = [one for one in lines if finite(one.block.get("raw")) is not None]
    if not shown:
        return nothing(title, "There is no headline number yet.")
    drawn = legend([("candidate", "candidate"), ("control", "control (floor)")], 14)
    for at, one in enumerate(shown):
        drawn += _strip(one, _TOP + at * _ROW)
    return figure(
        title,
        f"{len(shown)} numbers, one a row, each on a scale of its own: the candidate's and, where there is a control, the noise floor, with 95 % intervals.",
        drawn,
        _TOP + len(shown) * _ROW,
        "Disc: the candidate; diamond: the control; whiskers: 95 %. The excess stands at the right. Each row has a scale of its own; n is in the table.",
        Table(
            ("number", "candidate", "95 %", "n", "floor", "95 %", "n", "excess", "95 %"),
            tuple(_line(one) for one in shown),
        ),
    )


def _strip(one: Line, y: float) -> list[Markup]:
    block = one.block
    arms = (("candidate", "raw", "raw_interval", -4.0), ("control", "floor", "floor_interval", 4.0))
    known = [
        value
        for _, key, edges, _ in arms
        for each in (block.get(key), *(block.get(edges) or ()))
        if (value := finite(each)) is not None
    ]
    scale = even(known, _LEFT + 6, _RIGHT - 6, zero=True)
    middle = y + 20
    excess = finite(block.get("excess"))
    edges = f" ({between(block['interval'])})" if block.get("interval") is not None and excess is not None else ""
    drawn = [text(_LEFT, y + 6, shortened(one.name, 34), "label")]
    if excess is not None:
        drawn.append(text(_RIGHT, y + 6, f"excess {amount(excess)}{edges}", "tick", "end"))
    drawn.append(line((_LEFT, middle), (_RIGHT, middle), "grid"))
    drawn.append(line((scale.at(0), middle - 8), (scale.at(0), middle + 8), "axis"))
    for arm, key, ends, aside in arms:
        value = finite(block.get(key))
        if value is None:
            continue
        low, high = (finite(each) for each in (block.get(ends) or (None, None)))
        if low is not None and high is not None:
            drawn.append(line((scale.at(low), middle + aside), (scale.at(high), middle + aside), f"whisker {arm}"))
        drawn.append(mark(scale.at(value), middle + aside, arm))
    drawn.append(text(_LEFT, y + 38, amount(scale.low), "tick"))
    return [*drawn, text(_RIGHT, y + 38, amount(scale.high), "tick", "end")]


def _line(one: Line) -> tuple[str, ...]:
    block = one.block
    return (
        one.name,
        amount(finite(block.get("raw"))), between(block.get("raw_interval")), count(finite(block.get("n"))),
        amount(finite(block.get("floor"))), between(block.get("floor_interval")), count(finite(block.get("floor_n"))),
        amount(finite(block.get("excess"))), between(block.get("interval")),
    )  # fmt: skip


def quantiles(title: str, unit: str, spreads: Sequence[Spread]) -> Markup:
    """Draw distributions on one logarithmic axis: a line from the median to the largest, ticks at 90 and 99 of 100."""
    shown = [one for one in spreads if any(finite(one.block.get(name)) is not None for name in _QUANTILES)]
    if not shown:
        return nothing(title, "Nothing has been measured yet.")
    known = [value for one in shown for name in _QUANTILES if (value := finite(one.block.get(name))) is not None]
    scale = ratios(known, _LEFT + 6, _RIGHT - 12)
    bottom = 6 + len(shown) * 34.0
    drawn = [line((_LEFT, bottom), (_RIGHT, bottom), "axis")]
    for value in scale.ticks(5):
        at = scale.at(value)
        drawn += [line((at, 4), (at, bottom + 4), "grid"), text(at, bottom + 16, amount(value), "tick", "middle")]
    drawn.append(text(WIDTH / 2, bottom + 31, f"{unit} (logarithmic)", "label", "middle"))
    for at, one in enumerate(shown):
        drawn += _spread(one, 16 + at * 34.0, scale)
    rows = tuple(
        (one.name, *(amount(finite(one.block.get(name))) for name in (*_QUANTILES, "mean")), count(finite(one.block.get("count"))))
        for one in shown
    )  # fmt: skip
    sizes = ", ".join(f"{one.name} {count(finite(one.block.get('count')))}" for one in shown)
    lowest = " What is 0 stands at the left edge." if min(known) <= 0 else ""
    return figure(
        title,
        f"{len(shown)} distributions in {unit}: median, 90 of 100, 99 of 100 and the largest.",
        drawn,
        bottom + 38,
        f"Disc: median; strokes: 90 and 99 of 100; end of the line: the largest.{lowest} n: {sizes}.",
        Table(("of", "median", "p90", "p99", "max", "mean", "n"), rows),
    )


def _spread(one: Spread, y: float, scale: Scale) -> list[Markup]:
    found = {name: scale.at(value) for name in _QUANTILES if (value := finite(one.block.get(name))) is not None}
    drawn = [text(_LEFT, y, shortened(one.name, 40), "tick")]
    drawn.append(line((min(found.values()), y + 10), (max(found.values()), y + 10), f"whisker {one.arm}"))
    strokes = [found[name] for name in ("p90", "p99") if name in found]
    drawn += [line((at, y + 5), (at, y + 15), f"whisker {one.arm}") for at in strokes]
    if "median" in found:
        drawn.append(mark(found["median"], y + 10, one.arm))
    return drawn


def shares(title: str, rows: Sequence[tuple[str, Mapping[str, int]]], kinds: Sequence[str]) -> Markup:
    """Draw counts as shares of their row: ``kinds`` from left to right, each row with its n."""
    shown = [(name, counts) for name, counts in rows if sum(counts.get(kind, 0) for kind in kinds) > 0]
    if not shown:
        return nothing(title, "None has been seen yet.")
    drawn: list[Markup] = []
    for at, (name, counts) in enumerate(shown):
        total, x, y = sum(counts.get(kind, 0) for kind in kinds), _LEFT, at * 44.0
        drawn.append(text(_LEFT, y + 13, f"{shortened(name, 40)} (n {count(total)})", "tick"))
        for kind_at, kind in enumerate(kinds):
            part = counts.get(kind, 0) / total
            width = part * (_RIGHT - _LEFT)
            if width > 0:
                box: dict[str, float | str] = {
                    "x": x,
                    "y": y + 18,
                    "width": width,
                    "height": 18.0,
                    "class": f"part part{kind_at}",
                }
                drawn.append(element("rect", box))
            if width > 7 * len(kind):
                drawn.append(text(x + width / 2, y + 31, kind, f"inside part{kind_at}", "middle"))
            x += width
    table = tuple(
        (name, *(f"{count(counts.get(kind, 0))} ({share(counts.get(kind, 0) / sum(counts.get(each, 0) for each in kinds))})" for kind in kinds))
        for name, counts in shown
    )  # fmt: skip
    said = ", ".join(kinds)
    return figure(
        title,
        f"Shares of {said}, one bar a row.",
        drawn,
        len(shown) * 44.0,
        f"From left to right: {said}.",
        Table(("of", *kinds), table),
    )
