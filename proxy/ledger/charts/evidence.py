"""How the evidence for either verdict has grown, against what a verdict takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from math import log
from typing import Any

from markupsafe import Markup

from proxy.ledger.charts.figure import WIDTH, Axis, Table, axes, figure, legend, nothing
from proxy.ledger.charts.markup import finite, line, mark, path, text
from proxy.ledger.charts.scale import Scale, even
from proxy.ledger.pages.visible import amount, count

_TITLE = "Evidence over time"
_LEFT, _RIGHT, _TOP, _BOTTOM = 44.0, WIDTH - 10, 34.0, 214.0
_CURVES = (("log_e_fail", "fail"), ("log_e_pass", "pass"))
_ROWS = 60  # of the table; the JSON has all
_MINUTES = 600
_DAY = 86_400.0


def evidence(over_time: Sequence[Mapping[str, Any]] | None, alpha: float | None) -> Markup:
    """Draw ``verdict.over_time`` of a report: natural logarithms of both kinds of evidence; ln(1 / ``alpha``) decides. Words where there is nothing."""
    points = [one for one in over_time or () if finite(one.get("time")) is not None]
    level = finite(alpha)
    if not points or level is None or not 0 < level < 1:
        return nothing(_TITLE, "No conversation has been counted towards a verdict yet.")
    decides = log(1 / level)
    x = _times([float(one["time"]) for one in points])
    values = [value for one in points for name, _ in _CURVES if (value := finite(one.get(name))) is not None]
    lowest = max(min(values, default=0.0), -2 * decides)
    y = even([lowest, 1.15 * max([decides, *values])], _BOTTOM, _TOP, zero=True)
    drawn = axes(Axis(x, "time (UTC)", _when(x)), Axis(y, "ln of the evidence"))
    drawn += [line((_LEFT, y.at(decides)), (_RIGHT, y.at(decides)), "limit")]
    drawn.append(text(_RIGHT, y.at(decides) - 4, f"decides: {amount(decides)}", "tick", "end"))
    for name, class_ in _CURVES:
        curve = [(x.at(one["time"]), y.at(value)) for one in points if (value := finite(one.get(name))) is not None]
        drawn.append(path(curve, f"curve {class_}"))
        drawn += [mark(*curve[-1], class_)] if curve else []
    drawn += legend([("fail", "for FAIL"), ("pass", "for PASS")], 26)
    last = points[-1]
    shown = ", ".join(f"{said} {amount(finite(last.get(name)))}" for name, said in _CURVES)
    below = f" What is below {amount(y.low)} stands at the lower edge." if min(values, default=0.0) < lowest else ""
    return figure(
        _TITLE,
        f"Two lines of evidence and the level {amount(decides)} at which one decides. At the end: {shown}.",
        drawn,
        _BOTTOM + 40,
        f"Natural logarithm of the evidence; the first to reach {amount(decides)} decides. n: {count(last.get('conversations'))} conversations at the end.{below}",
        _table(points),
    )


def _times(times: list[float]) -> Scale:
    low, high = min(times), max(times)
    return Scale(low, high, _LEFT, _RIGHT) if high - low >= 1 else Scale(low - 1800, high + 1800, _LEFT, _RIGHT)


def _when(x: Scale) -> tuple[tuple[float, str], ...]:
    """Five times; without the day where all are of one."""
    form = (
        "%H:%M:%S"
        if x.high - x.low < _MINUTES
        else "%H:%M"
        if x.high - x.low < _DAY
        else "%m-%d %H:%M"
        if x.high - x.low < 3 * _DAY
        else "%m-%d"
    )
    most = 4
    places = [x.low + (x.high - x.low) * (part + 0.5) / most for part in range(most)]
    return tuple((one, said) for one in places if (said := _clock(one, form)))


def _clock(moment: float, form: str) -> str:
    try:
        return datetime.fromtimestamp(moment, UTC).strftime(form)
    except (OverflowError, OSError, ValueError):
        return ""  # no calendar has it


def _table(points: Sequence[Mapping[str, Any]]) -> Table:
    shown = points[:: max(1, len(points) // _ROWS)]
    shown = shown if shown[-1] is points[-1] else [*shown, points[-1]]
    rows = tuple(
        (_clock(float(one["time"]), "%Y-%m-%d %H:%M"), count(one.get("conversations")), *(amount(finite(one.get(name))) for name, _ in _CURVES))
        for one in shown
    )  # fmt: skip
    return Table(("until (UTC)", "conversations", "for FAIL", "for PASS"), rows)
