"""What happens at each range of positions along a reply: the candidate beside the noise floor, with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup
from msgspec import Struct

from proxy.ledger.charts.figure import WIDTH, Axis, Table, axes, figure, legend, nothing
from proxy.ledger.charts.markup import finite, line, mark
from proxy.ledger.charts.scale import Scale, even
from proxy.ledger.pages.visible import amount, count

_LEFT, _RIGHT, _TOP, _BOTTOM = 44.0, WIDTH - 10, 34.0, 200.0
_ARMS = (("candidate", "raw", "raw_interval"), ("control", "floor", "floor_interval"))


class Along(Struct, frozen=True):
    """What is drawn of the blocks of ``by_position``: the key of its rates, the keys of how many each arm's is of, title and unit."""

    key: str
    sizes: tuple[str, str]
    title: str
    unit: str


HAZARD = Along(
    "hazard_per_1000_tokens", ("exposed", "control_exposed"), "Where replies part", "first differences per 1,000 tokens"
)
FLIPS = Along(
    "genuine_flips_per_1000", ("positions", "control_positions"), "Where genuine flips are", "genuine flips per 1,000"
)
ERRORS = Along("error_nats", ("positions", "control_positions"), "Where logprobs differ", "mean error, nats")


def along(blocks: Sequence[Mapping[str, Any]] | None, what: Along) -> Markup:
    """Draw one number of ``by_position``; words where there is none."""
    found = [one for one in blocks or () if finite((one.get(what.key) or {}).get("raw")) is not None]
    if not found:
        return nothing(what.title, "Nothing has been compared position by position yet.")
    values = [value for one in found for _, raw, edges in _ARMS for value in _numbers(one[what.key], raw, edges)]
    tallest = max(value for one in found for _, raw, _ in _ARMS for value in _numbers(one[what.key], raw, ""))
    # An interval of a rate of few may be ten times as tall as everything else.
    y = even([min(values), min(max(values), 4 * tallest if tallest > 0 else max(values))], _BOTTOM, _TOP, zero=True)
    x = Scale(-0.5, len(found) - 0.5, _LEFT, _RIGHT)
    ticks = tuple((float(at), _range(one)) for at, one in enumerate(found))
    drawn = axes(Axis(x, "token of the reply (from 0)", _thinned(ticks)), Axis(y, what.unit))
    controlled = any(finite(one[what.key].get("floor")) is not None for one in found)
    arms = _ARMS if controlled else _ARMS[:1]
    for at, one in enumerate(found):
        for (arm, raw, edges), aside in zip(arms, (-5.0, 5.0), strict=False):
            drawn += _point(one[what.key], (arm, raw, edges), x.at(at) + aside * controlled, y)
    drawn += legend([(arm, arm) for arm, *_ in arms], 26)
    first, last = found[0], found[-1]
    return figure(
        f"{what.title}: {what.unit}",
        f"{len(found)} ranges of positions, from {_range(first)} to {_range(last)}. "
        + ("Each has the candidate and the control" if controlled else "There is no control")
        + ", with 95 % intervals.",
        drawn,
        _BOTTOM + 40,
        f"Disc: candidate; diamond: control, the noise floor; whiskers: 95 %, cut at the upper edge. n: {_sizes(found, what.sizes[0])} tokens of the candidate, {_sizes(found, what.sizes[1])} of the control.",
        _table(found, what),
    )


def _numbers(rates: Mapping[str, Any], raw: str, edges: str) -> list[float]:
    every = (rates.get(raw), *(rates.get(edges) or ()))
    return [value for one in every if (value := finite(one)) is not None]


def _point(rates: Mapping[str, Any], arm: tuple[str, str, str], x: float, y: Scale) -> list[Markup]:
    name, raw, edges = arm
    value = finite(rates.get(raw))
    if value is None:
        return []
    low, high = (finite(one) for one in (rates.get(edges) or (None, None)))
    whisker = [] if low is None or high is None else [line((x, y.at(low)), (x, y.at(high)), f"whisker {name}")]
    return [*whisker, mark(x, y.at(value), name)]


def _range(block: Mapping[str, Any]) -> str:
    first, last = finite(block.get("from")), finite(block.get("to"))
    if first is None or last is None or first == last:
        return count(first)
    return f"{count(first)}–{count(last)}"


def _thinned(ticks: tuple[tuple[float, str], ...]) -> tuple[tuple[float, str], ...]:
    """Texts that do not run into each other: every one, or every second, or fewer."""
    widest = max(len(said) for _, said in ticks)
    return ticks[:: max(1, -(-len(ticks) * (widest * 7 + 8) // int(_RIGHT - _LEFT)))]


def _sizes(blocks: Sequence[Mapping[str, Any]], key: str) -> str:
    known = [value for one in blocks if (value := finite(one.get(key))) is not None]
    return count(sum(known)) if known else "none"


def _table(blocks: Sequence[Mapping[str, Any]], what: Along) -> Table:
    rows = []
    for one in blocks:
        cells = [_range(one)]
        for (_, raw, edges), size in zip(_ARMS, what.sizes, strict=True):
            rates = one[what.key]
            cells += [amount(finite(rates.get(raw))), between(rates.get(edges)), count(finite(one.get(size)))]
        excess = one[what.key]
        rows.append((*cells, amount(finite(excess.get("excess"))), between(excess.get("interval"))))
    heads = ("tokens", "candidate", "95 %", "n", "control", "95 %", "n", "excess", "95 %")
    return Table(heads, tuple(rows))


def between(edges: Sequence[Any] | None) -> str:
    """Return an interval in words; an end that is not known is a dash."""
    if edges is None:
        return "–"
    low, high = (amount(finite(one)) for one in edges)
    return f"{low} to {high}"
