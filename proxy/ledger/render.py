"""The report on a terminal: one table a mode, candidates beside the control, from the report's dict and nothing else.

House rules. No number is computed here but shares of two that are shown. What is absent from the report is absent here. Every text that came
from outside goes through ``inert`` and is never parsed as markup.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from proxy.ledger.inert import inert

Numbers = Mapping[str, Any]
Row = tuple[str, Callable[[Numbers], str]]

_CLASSES = ("exact_tie", "near_tie", "genuine", "unknown")
_ABSENT = "–"


def render(report: Numbers, console: Console) -> None:
    """Print the report."""
    _head(report, console)
    shadows = sorted(report["shadows"], key=lambda shadow: bool(shadow["role"] == "control"))
    for mode, title, rows in (
        ("free", "free: each shadow answers on its own", _FREE),
        ("forced", "forced: each shadow scores the primary's tokens", _FORCED),
    ):
        taking_part = [shadow for shadow in shadows if mode in shadow["modes"]]
        _table(title, [(shadow, shadow["modes"][mode]) for shadow in taking_part], rows, console)
    _table("ties at the top of the list", [(shadow, shadow["ties"]) for shadow in shadows], _TIES, console)
    _table("latency of streamed replies", [(shadow, shadow["latency"]) for shadow in shadows], _LATENCY, console)
    for shadow in shadows:
        _remarks(shadow, console)


def _head(report: Numbers, console: Console) -> None:
    models = ", ".join(inert(name, 60) for name in list(report.get("models", {}))[:3])
    console.print(Text(f"Parhelion, {inert(report['time'])}" + (f", {models}" if models else ""), style="bold"))
    if (requests := report.get("requests")) is not None:
        parts = [
            f"{requests[key]} {key.replace('_', ' ')}"
            for key in ("received", "not_sampled", "sampled")
            if key in requests
        ]
        console.print(Text("requests: " + ", ".join(parts)))
    sources = {name: n for name, n in report["primary"]["tokens_source"].items() if n}
    if sources:
        parts = [f"{n} {inert(name)}" for name, n in sources.items()]
        console.print(Text("the primary's tokens from: " + ", ".join(parts)))


def _table(title: str, columns: Sequence[tuple[Numbers, Numbers]], rows: Sequence[Row], console: Console) -> None:
    shown = [(label, [cell(numbers) for _, numbers in columns]) for label, cell in rows]
    shown = [(label, cells) for label, cells in shown if any(cell != _ABSENT for cell in cells)]
    if not columns or not shown:
        return
    table = Table()
    table.add_column("")
    for shadow, _ in columns:
        role = "noise floor" if shadow["role"] == "control" else "candidate"
        table.add_column(Text(f"{inert(shadow['name'], 60)}\n{role}"), justify="right")
    for label, cells in shown:
        table.add_row(Text(label), *(Text(cell) for cell in cells))
    console.print(Text(f"\n{title}", style="bold"))
    console.print(table)


def _remarks(shadow: Numbers, console: Console) -> None:
    name = inert(shadow["name"], 60)
    if sure := [one for one in shadow["footprint_differences"] if one.get("sure")]:
        parts = [f"{inert(one['field'])} {inert(one['primary'], 60)} → {inert(one['shadow'], 60)}" for one in sure]
        console.print(Text(f"\n{name}: stack differs: " + "; ".join(parts)))
    for one in shadow["findings"]:
        console.print(
            Text(f"{name}: {inert(one['finding'])} ({one['severity']}), {one['count']} times. {one['remedy']}")
        )
    if (verdict := shadow.get("verdict")) is not None:
        console.print(Text(f"{name}: {inert(verdict['state'])}", style="bold"))


def _number(value: Any) -> str:
    if value is None:
        return _ABSENT
    if isinstance(value, int):
        return f"{value:,}"
    return "0" if value == 0 else f"{value:.2e}" if abs(value) < 1e-3 else f"{value:.4g}"


def _at(*path: str) -> Callable[[Numbers], str]:
    """Make the cell of one number, by its path."""

    def cell(numbers: Numbers) -> str:
        value: Any = numbers
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        return _number(value)

    return cell


def _several(key: str, parts: Sequence[str]) -> Callable[[Numbers], str]:
    """Make the cell of some numbers of one distribution, divided by strokes."""

    def cell(numbers: Numbers) -> str:
        found = numbers.get(key) or {}
        return " / ".join(_number(found.get(part)) for part in parts) if found else _ABSENT

    return cell


def _share(part: str, whole: str) -> Callable[[Numbers], str]:
    def cell(numbers: Numbers) -> str:
        if part not in numbers:
            return _ABSENT
        total = numbers[whole]
        return f"{numbers[part]:,} ({100 * numbers[part] / total:.1f} %)" if total else f"{numbers[part]:,}"

    return cell


def _reasons(key: str) -> Callable[[Numbers], str]:
    """Make the cell of counts by reason, largest first; "0" when the counts are there and empty."""

    def cell(numbers: Numbers) -> str:
        if (found := numbers.get(key)) is None:
            return _ABSENT
        ordered = sorted(found.items(), key=lambda pair: -pair[1])
        return "\n".join(f"{inert(reason, 40)} {n:,}" for reason, n in ordered) or "0"

    return cell


def _classes(key: str) -> list[Row]:
    names = {name: f"  {name.replace('_', ' ')}" for name in _CLASSES}
    return [(label, _at(key, name)) for name, label in names.items()]


def _hazard(numbers: Numbers) -> str:
    found = numbers.get("hazard_per_1000_tokens")
    if not found:
        return _ABSENT
    lines = [_number(found["raw"])]
    if "excess" in found:
        lines += [f"floor {_number(found['floor'])}", f"excess {_number(found['excess'])}"]
    if "interval" in found:  # of the excess where there is one
        low, high = found["interval"]
        lines[-1] += f" (95 %: {_number(low)} to {_number(high)})"
    return "\n".join(lines)


def _percent(key: str) -> Callable[[Numbers], str]:
    return lambda numbers: f"{100 * numbers[key]:.3f} %" if numbers.get(key) is not None else _ABSENT


def _estimates(numbers: Numbers) -> str:
    """Make the cell of k1 and k3, and what they are: an estimate of KL only over tokens drawn at temperature 1, unfiltered."""
    if "k1" not in numbers:
        return _ABSENT
    share = numbers["k3_is_kl"]
    worth = "a score" if share == 0 else "nat of KL" if share == 1 else f"nat of KL for {100 * share:.0f} % of tokens"
    return f"{_number(numbers['k1'])} / {_number(numbers['k3'])} ({worth})"


_VALUES: list[Row] = [
    ("|logprob error| nat: median / p99 / max", _several("logprob_error_nats", ("median", "p99", "max"))),
    ("relative error: median / p99", _several("relative_error", ("median", "p99"))),
    ("  left out (logprob below 1e-3 nat)", _at("relative_error", "left_out")),
]
_ENDS: list[Row] = [
    ("incomparable", _reasons("incomparable")),
    ("shed", _reasons("shed")),
    ("in flight", _at("in_flight")),
]


def _positions(numbers: Numbers) -> str:
    """Say so where an engine scored a sample of each reply's positions, not all."""
    compared, positions = _number(numbers["tokens_compared"]), numbers.get("positions")
    if positions is None or positions["scored"] >= positions["of"]:
        return compared
    return f"{compared} of {_number(positions['of'])}: a sample, spread over each reply"


_FREE: list[Row] = [
    ("requests compared", _at("requests")),
    ("tokens compared", _at("tokens_compared")),
    ("identical replies", _share("identical", "requests")),
    ("  held against each other as text alone", _at("by_text")),
    ("no difference as far as both went", _at("censored")),
    ("divergences", lambda numbers: _number(sum(numbers["divergences"].values()))),
    *_classes("divergences"),
    ("first divergence: median token", _at("first_divergence", "median")),
    ("hazard per 1,000 tokens", _hazard),
    ("divergences expected of the noise", _at("expected_flips", "sum")),
    *_VALUES,
    *_ENDS,
]
_FORCED: list[Row] = [
    ("requests compared", _at("requests")),
    ("tokens compared", _positions),
    ("flips", lambda numbers: _number(sum(numbers["flips"].values()))),
    *_classes("flips"),
    ("flips expected of the noise", _at("expected_flips", "sum")),
    ("same first choice", _percent("top1_agreement")),
    *_VALUES,
    ("KL at least, nat: mean", _at("kl_lower_bound_nats", "mean")),
    ("k1 / k3", _estimates),
    ("correlation of logprobs", _at("correlation")),
    *_ENDS,
]
_TIES: list[Row] = [
    ("exact ties the primary reports", _share("exact", "positions")),
    ("  primary picks lowest / highest / other id", _several("primary_pick", ("lowest", "highest", "other"))),
    ("exact ties the shadow reports", _share("shadow_exact", "shadow_positions")),
    ("  shadow picks lowest / highest / other id", _several("shadow_pick", ("lowest", "highest", "other"))),
    ("tie-break mismatches", _at("tie_break_mismatches")),
]


def _pace(key: str, arm: str) -> Callable[[Numbers], str]:
    return lambda numbers: _several(arm, ("median", "p99"))(numbers.get(key) or {})


_LATENCY: list[Row] = [
    ("first token s: primary, median / p99", _pace("time_to_first_token_seconds", "primary")),
    ("first token s: shadow", _pace("time_to_first_token_seconds", "shadow")),
    ("between tokens s: primary, median / p99", _pace("inter_token_seconds", "primary")),
    ("between tokens s: shadow", _pace("inter_token_seconds", "shadow")),
]
