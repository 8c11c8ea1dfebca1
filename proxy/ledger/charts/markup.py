"""Markup of charts, element by element: texts made visible and escaped, numbers finite.

House rules. Pure. Nothing that is not a finite number becomes a coordinate: ``finite`` says so before, ``element`` refuses it. No style, no script, no id: a page may show
the same chart twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any

from markupsafe import Markup, escape

from proxy.ledger.pages.visible import visible

#: Beyond that nothing is measured, and differences of two such numbers overflow.
_MOST = 1e100


def finite(value: Any) -> float | None:
    """Return a number that can be drawn; None for all else: nothing, not a number, without end."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if -_MOST < value < _MOST else None


def element(name: str, attributes: Mapping[str, float | str], *children: Markup | str) -> Markup:
    """Return an element. Texts are made visible and escaped. Raises ValueError for a number that is not finite."""
    written = Markup("").join(Markup(' {}="{}"').format(key, _value(value)) for key, value in attributes.items())
    inner = Markup("").join(child if isinstance(child, Markup) else escape(visible(child)) for child in children)
    return Markup("<{0}{1}>{2}</{0}>").format(name, written, inner)


def _value(value: float | str) -> str:
    if isinstance(value, str):
        return visible(value)
    if not isfinite(value):
        raise ValueError(f"{value} cannot be drawn")
    return f"{value:.2f}".rstrip("0").rstrip(".")


def text(x: float, y: float, said: str, class_: str = "", anchor: str = "start") -> Markup:
    """Return a line of text at a point."""
    return element("text", {"x": x, "y": y, "class": class_, "text-anchor": anchor}, said)


def line(start: tuple[float, float], end: tuple[float, float], class_: str) -> Markup:
    """Return a straight line."""
    return element("line", {"x1": start[0], "y1": start[1], "x2": end[0], "y2": end[1], "class": class_})


def path(points: Iterable[tuple[float, float]], class_: str, *, closed: bool = False) -> Markup:
    """Return a line through points, or an area within them; nothing for no points."""
    steps = [f"{'ML'[at > 0]}{_value(x)} {_value(y)}" for at, (x, y) in enumerate(points)]
    return element("path", {"d": "".join(steps) + "Z" * closed, "class": class_}) if steps else Markup("")


def mark(x: float, y: float, arm: str) -> Markup:
    """Return the point of an arm: a disc, for the control a diamond, so that they differ without colour, too."""
    if arm == "control":
        corners = ((x, y - 5), (x + 5, y), (x, y + 5), (x - 5, y))
        return path(corners, f"mark {arm}", closed=True)
    return element("circle", {"cx": x, "cy": y, "r": 4, "class": f"mark {arm}"})
