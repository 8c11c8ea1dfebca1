"""The table of headline numbers on a terminal: raw, noise floor, excess with its interval, and of how many.

House rules. As ``render``: made of the report's dict, nothing computed but differences of what is shown. One table for a candidate and mode. What neither arm shows
anything of is left out. A share is in per cent, its excess in points.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from proxy.compare.headline import REASONS
from proxy.compare.llama_block import written
from proxy.ledger.cells import ABSENT, Numbers, number
from proxy.ledger.inert import inert

#: Headline numbers by name, and what they are called; ``quiet`` ones are left out where both arms have 0.
_LINES = (
    ("identical_share", "identical replies", False),
    ("divergences_per_1000_tokens", "divergences / 1,000", False),
    ("genuine_divergences_per_1000_tokens", "  genuine", True),
    ("near_tie_divergences_per_1000_tokens", "  near tie", True),
    ("exact_tie_divergences_per_1000_tokens", "  exact tie", True),
    ("flips_per_1000_positions", "flips / 1,000", False),
    ("genuine_flips_per_1000_positions", "  genuine", True),
    ("near_tie_flips_per_1000_positions", "  near tie", True),
    ("exact_tie_flips_per_1000_positions", "  exact tie", True),
    ("expected_flips_per_1000_positions", "  expected of noise", True),
    ("top1_agreement_share", "same first choice", False),
    ("mean_error_nats", "logprob error, nat", False),
    ("median_error_nats", "  median", False),
    ("p99_error_nats", "  p99", False),
    ("error_above_0.1_nats_share", "  above 0.1", True),
    ("error_above_1_nats_share", "  above 1", True),
    ("error_above_5_nats_share", "  above 5", True),
    ("mean_difference_nats", "  signed (d)", False),
    ("mean_probability_error", "probability error", False),
    ("p99_relative_error", "relative error, p99", False),
    ("k3_nats", "k3", False),
    ("mean_kl_lower_bound_nats", "KL at least, nat", False),
    ("mean_tv_lower_bound", "TV at least", False),
    ("correlation", "correlation", False),
    ("rank_1_share", "ranked first", False),
)
_NOTE = (
    "raw: the candidate; floor: the control in the same mode; excess: raw less floor [95 %, conversations resampled; where few or none were seen, what that leaves open]; "
    "n: what it is a share or mean of, raw / floor. Without a floor the interval is that of raw. "
    "KL and TV at least are bounds from the tokens that both lists show: an arm that shows fewer (shorter lists, tokens without ids) looks nearer"
)


class _Style(NamedTuple):
    """How a number is written: multiplied, and with how many places at least."""

    times: float = 1.0
    unit: str = ""
    text: Callable[[Any], str] = number


def print_floors(shadows: Sequence[Numbers], console: Console) -> None:
    """Print a table for each shadow but controls, and mode, that has something beside a floor or an interval."""
    said = False
    for shadow in shadows:
        for mode in ("free", "forced"):
            numbers = shadow["modes"].get(mode, {}).get("headline", {})
            if shadow["role"] == "control" or not any("floor" in one or "interval" in one for one in numbers.values()):
                continue
            held = any("floor" in one for one in numbers.values())
            title = "against the noise floor" if held else "without a noise floor"
            console.print(Text(f"\n{inert(shadow['name'], 60)}, {mode}: {title}", style="bold"))
            shown = [(name, label) for name, label, quiet in _LINES if _worth(numbers.get(name), quiet=quiet)]
            console.print(_table(numbers, shown, held=held))
            for line in [*_without_floor(shadow["modes"][mode]), *_absent(numbers, shown)]:
                console.print(Text(line, style="dim"))
            said = True
    if said:
        console.print(Text(f"{_NOTE}.", style="dim"))


def print_llama_cpp(shadows: Sequence[Numbers], console: Console) -> None:
    """Print llama-perplexity's block of each shadow that has one."""
    for shadow in shadows:
        block = shadow["modes"].get("forced", {}).get("llama_cpp")
        if block:
            counted = ", ".join(f"{number(n)} {section}" for section, n in block["tokens"].items())
            head = f"\n{inert(shadow['name'], 60)}, forced: as llama-perplexity --kl-divergence prints it"
            console.print(Text(head, style="bold").append(f" (tokens: {counted})", "not bold"))
            for line in written(block):
                console.print(Text(line))


def _worth(one: Numbers | None, *, quiet: bool) -> bool:
    return one is not None and not (quiet and not one["raw"] and not one.get("floor"))


def _table(numbers: Mapping[str, Numbers], shown: Sequence[tuple[str, str]], *, held: bool) -> Table:
    """Make the table; not ``held`` against a floor it has neither that nor an excess, and the interval is that of raw."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    for head in ("raw", "floor", "excess", "n") if held else ("raw", "95 %", "n"):
        table.add_column(head, justify="right", overflow="fold")
    for name, label in shown:
        raw, floor, excess, n = _cells(name, numbers[name])
        table.add_row(Text(label), *(Text(cell) for cell in ((raw, floor, excess, n) if held else (raw, excess, n))))
    return table


def _without_floor(summary: Numbers) -> list[str]:
    """Say what of the candidate's is not in the table, since the control has no result of it."""
    left = summary.get("without_floor")
    if not left:
        return []
    parts = [f"{number(left[name])} {name}" for name in ("requests", "tokens") if left[name]]
    return [f"left out here, for the control has no result of the same: {' and '.join(parts)}."]


def _absent(numbers: Mapping[str, Numbers], shown: Sequence[tuple[str, str]]) -> list[str]:
    """Say which rows have no interval, and why, a line for each reason."""
    found: dict[str, list[str]] = {}
    for name, label in shown:
        reason = numbers[name].get("no_interval", {}).get("interval")
        if reason is not None:
            found.setdefault(reason, []).append(label.strip())
    return [
        f"no interval, for {REASONS.get(reason) or inert(reason, 40)}: {'all' if len(labels) == len(shown) else ', '.join(labels)}."
        for reason, labels in found.items()
    ]


def _cells(name: str, one: Numbers) -> tuple[str, str, str, str]:
    style = (
        _Style(100.0, " %") if name.endswith("_share") else _Style(text=_near_one if name == "correlation" else number)
    )

    def shown(value: Any) -> str:
        return style.text(value * style.times) if value is not None else ABSENT

    excess = f"{number(one['excess'] * style.times)} " if "excess" in one else ""
    if "interval" in one:
        excess += f"[{', '.join(number(edge * style.times) for edge in one['interval'])}]"
    of = (
        number(one["n"])
        if one.get("floor_n", one["n"]) == one["n"]
        else f"{number(one['n'])} / {number(one['floor_n'])}"
    )
    units = [style.unit if value != ABSENT else "" for value in (shown(one["raw"]), shown(one.get("floor")))]
    return shown(one["raw"]) + units[0], shown(one.get("floor")) + units[1], excess.strip() or ABSENT, of


def _near_one(value: float) -> str:
    """Return a correlation to five places: what is not 1 must not look like it."""
    return "1" if value == 1 else f"{min(value, 0.99999):.5f}"
