"""A chart as a reader meets it: the drawing with its name and description, what it is of, the same numbers as a table.

House rules. Pure. A drawing never stands without its table, so that nobody needs to see it. What there is nothing of is said in words in its place.
"""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup
from msgspec import Struct

from proxy.ledger.charts.markup import element, line, text
from proxy.ledger.charts.scale import Scale
from proxy.ledger.pages.visible import amount

WIDTH = 420.0
_EMPTY = Markup("")


class Table(Struct, frozen=True):
    """The numbers of a chart: heads of the columns, and rows whose first cell is a head."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class Axis(Struct, frozen=True):
    """A scale, what it is of with its unit, and texts for ticks that are not its own numbers."""

    scale: Scale
    label: str
    ticks: tuple[tuple[float, str], ...] | None = None

    def marks(self, most: int) -> Sequence[tuple[float, str]]:
        """Return the places and texts of the ticks."""
        return self.ticks if self.ticks is not None else [(one, amount(one)) for one in self.scale.ticks(most)]


def figure(
    title: str, description: str, drawing: Sequence[Markup], height: float, caption: str, table: Table
) -> Markup:
    """Return the figure: ``drawing`` in ``WIDTH`` x ``height`` units."""
    shown = element(
        "svg",
        {"viewBox": f"0 0 {WIDTH:.0f} {height:.0f}", "role": "img", "class": "chart", "xmlns": "http://www.w3.org/2000/svg"},
        element("title", {}, title),
        element("desc", {}, description),
        *drawing,
    )  # fmt: skip
    name = element("figcaption", {}, element("strong", {}, title), " ", caption)
    return element("figure", {"class": "chart"}, name, shown, _numbers(title, table))


def nothing(title: str, why: str) -> Markup:
    """Return what stands in a figure's place."""
    said = element("p", {}, why)
    return element("div", {"class": "empty chart"}, element("strong", {}, title), said)


def axes(x: Axis, y: Axis) -> list[Markup]:
    """Draw both axes with light lines across at the ticks of ``y``."""
    left, right, bottom = x.scale.start, x.scale.end, y.scale.start
    drawn = [text(0, 11, y.label, "label")]
    for value, said in y.marks(5):
        at = y.scale.at(value)
        drawn += [line((left, at), (right, at), "grid"), text(left - 5, at + 4, said, "tick", "end")]
    drawn.append(line((left, bottom), (right, bottom), "axis"))
    for value, said in x.marks(6):
        at = x.scale.at(value)
        drawn += [line((at, bottom), (at, bottom + 4), "axis"), text(at, bottom + 16, said, "tick", "middle")]
    return [*drawn, text((left + right) / 2, bottom + 32, x.label, "label", "middle")]


def legend(arms: Sequence[tuple[str, str]], y: float) -> list[Markup]:
    """Draw which line is whose: (class, name)."""
    drawn, x = [], 44.0
    for class_, name in arms:
        shown = name if len(name) <= 22 else f"{name[:21]}…"
        drawn += [line((x, y - 4), (x + 22, y - 4), f"curve {class_}"), text(x + 27, y, shown, "tick")]
        x += 45 + 6.6 * len(shown)
    return drawn


def _numbers(title: str, table: Table) -> Markup:
    heads = element("tr", {}, *(element("th", {"scope": "col"}, one) for one in table.heads))
    rows = [
        element("tr", {}, element("th", {"scope": "row"}, first), *(element("td", {"class": "num"}, one) for one in rest))
        for first, *rest in table.rows
    ]  # fmt: skip
    body = element("table", {}, element("caption", {}, title), element("thead", {}, heads), element("tbody", {}, *rows))
    region = {"class": "wide", "role": "group", "aria-label": f"Numbers: {title}", "tabindex": "0"}
    return element("details", {}, element("summary", {}, "The numbers as a table"), element("div", region, body))
