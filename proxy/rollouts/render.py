"""What rollouts show, for a terminal.

House rules. Prints what ``Measured`` holds and computes nothing. Every number with of how many tokens it is; what was not measured is a dash. Names out of files are hostile text.
"""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from proxy.ledger.inert import inert
from proxy.rollouts.measured import ELSEWHERE, Measured
from proxy.rollouts.rollout import LEFT_OUT, REASONS

#: Which numbers are shown, in which order, and how they are called.
_SHOWN = {
    "k1_nats": "k1 (mean log p - log q)",
    "k3_nats": "k3",
    "rms_difference_nats": "RMS of d",
    "mean_error_nats": "mean abs(d)",
    "median_error_nats": "median abs(d)",
    "p90_error_nats": "90 % of abs(d) below",
    "p99_error_nats": "99 % of abs(d) below",
    "error_above_0.01_nats_share": "share over 0.01 nat",
    "error_above_0.1_nats_share": "share over 0.1 nat",
    "error_above_1_nats_share": "share over 1 nat",
    "error_above_5_nats_share": "share over 5 nats",
    "mean_probability_error": "mean abs(q - p)",
    "correlation": "correlation of log p and log q",
    "mean_weight": "mean weight q / p (1 when unbiased)",
    "clipped_share": "clipped share",
    "clipped_low_share": "  below",
    "clipped_high_share": "  above",
    "truncated_share": "truncated share",
    "token_effective_sample_share": "effective sample size, tokens",
    "sequence_effective_sample_share": "effective sample size, responses",
}


def render(measured: Measured, console: Console, command: str) -> None:
    """Print everything."""
    _opening(measured, console)
    if measured.rollouts:
        console.print(_numbers(measured))
        for name, figure, source in ELSEWHERE:
            console.print(Text(f"known from elsewhere, {_SHOWN[name]}: {figure} ({source})", style="dim"))
        _buckets(measured, console)
        _worst(measured, console)
    for hint in measured.hints:
        console.print(Text(f"hint: {hint}", style="bold yellow"))
    console.print(Text(f"repeat with: {command}", style="dim"))


def _opening(measured: Measured, console: Console) -> None:
    left = ", ".join(f"{count:,} {name} ({LEFT_OUT.get(name, name)})" for name, count in measured.left_out.items())
    bad = ", ".join(f"{count:,} {name} ({REASONS.get(name, name)})" for name, count in measured.unusable.items())
    console.print(Text(f"{measured.rollouts:,} rollouts compared over {measured.tokens:,} tokens", style="bold"))
    if left:
        console.print(Text(f"tokens left out: {left}"))
    if bad:
        console.print(Text(f"rollouts left out: {bad}", style="yellow"))
    if measured.k3_is_kl == 1.0:
        console.print("k3's mean estimates KL(rollout || trainer): drawn at temperature 1 without filters.")
    elif measured.tokens:
        console.print(
            "k3 is a score here and no KL: it is one only for rollouts drawn at temperature 1 without top-p, top-k, min-p, penalties or grammar "
            "(say so with --unfiltered)."
        )


def _numbers(measured: Measured) -> Table:
    table = Table(title="d = log q(trainer) - log p(rollout), in nats", title_justify="left")
    for column in ("number", "value", "95 % interval", "of"):
        table.add_column(column, overflow="fold")
    low, high, cap = 1.0 - measured.settings.clip_low, 1.0 + measured.settings.clip_high, measured.settings.cap
    detail = {"clipped_share": f" (q / p outside {low:g} to {high:g})", "truncated_share": f" (q / p above {cap:g})"}
    for name, called in _SHOWN.items():
        one = measured.numbers.get(name)
        if one is None:
            table.add_row(called, "-", "", "")
            continue
        whole = f"{one['n']:,} {'rollouts' if name.startswith('sequence') else 'tokens'}"
        cells = (called + detail.get(name, ""), f"{one['raw']:.6g}", _interval(one), whole)
        table.add_row(*map(Text, cells))
    return table


def _interval(one: dict[str, Any]) -> str:
    found = one.get("interval")
    return f"{found[0]:.4g} to {found[1]:.4g}" if found else str(one.get("no_interval", "-")).replace("_", " ")


def _buckets(measured: Measured, console: Console) -> None:
    for title, rows in (
        ("By position in the response", measured.by_position),
        ("By length of the response", measured.by_length),
    ):
        table = Table(title=title, title_justify="left")
        for column in ("from", "to", "tokens", "mean abs(d)", "95 % interval", "k3"):
            table.add_column(column, justify="right")
        for row in rows:
            error, k3 = row.get("mean_error_nats", {}), row.get("k3_nats", {})
            cells = (
                f"{row['from']:,}",
                f"{row['to']:,}",
                f"{row['tokens']:,}",
                _value(error),
                _interval(error),
                _value(k3),
            )
            table.add_row(*cells)
        console.print(table)


def _value(one: dict[str, Any]) -> str:
    return f"{one['raw']:.4g}" if "raw" in one else "-"


def _worst(measured: Measured, console: Console) -> None:
    table = Table(title="Worst tokens", title_justify="left")
    for column in ("rollout", "name", "position", "token id", "log p (rollout)", "log q (trainer)", "d"):
        table.add_column(column, justify="right", overflow="fold")
    for one in measured.worst:
        cells = (
            str(one.rollout), inert(one.name), str(one.position), str(one.id), f"{one.rollout_logprob:.5f}", f"{one.trainer_logprob:.5f}", f"{one.difference:+.5f}",
        )  # fmt: skip
        table.add_row(*map(Text, cells))
    console.print(table)
