"""The report on a terminal: the verdict, what the numbers say and where, in sentences; then each candidate against the noise floor; then one table a mode.

House rules. Made from the report's dict and nothing else; no number is computed here but sums and shares of what is shown. What is absent
from the report is absent here, and a shadow with nothing compared is one line. Every text that came from outside goes through ``inert``
and is never parsed as markup. Readable at 80 columns and without colour.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from proxy.ledger import rows, tie_report
from proxy.ledger.cells import ABSENT, Numbers, number, positions, several, times
from proxy.ledger.inert import inert
from proxy.ledger.opening import not_compared, opening
from proxy.ledger.remedies import evidence_line
from proxy.ledger.render_floors import print_floors
from proxy.ledger.rows import Row
from proxy.ledger.verdict_lines import verdict_lines
from proxy.ledger.where_lines import where_lines

_SOURCES = {
    "reply": "its reply (reply)",
    "inject": "its reply, asked for by Parhelion (inject)",
    "by_control": "the control, which said the same (by_control)",
    "rescore": "asking it once more (rescore)",
    "canonical": "its text, tokenised again (canonical: values only, no flip is claimed)",
    "text": "nowhere: text alone (text)",
}
_SAMPLED = "n of m tokens: the engine scores a sample of positions, spread over each reply"


def render(report: Numbers, console: Console) -> None:
    """Print the report."""
    render_beginning(report, console)
    shadows = _in_order(report)
    said: set[str] = set()
    for mode, title, table in (
        ("free", "free: each shadow answers on its own", rows.FREE),
        ("forced", "forced: each shadow scores the primary's tokens", rows.FORCED),
    ):
        columns = [
            (shadow, shadow["modes"][mode]) for shadow in shadows if shadow["modes"].get(mode, {}).get("requests")
        ]
        kinds = rows.near_tie([(inert(shadow["name"], 60), numbers) for shadow, numbers in columns])
        sampled = _SAMPLED if any(" of " in positions(numbers) for _, numbers in columns) else ""
        _table(title, columns, table, console, said, sampled, kinds)
    _ties([(shadow, shadow["ties"]) for shadow in shadows], console, said)
    for line in tie_report.sentences(report):
        console.print(Text(line))
    _latency(shadows, console)
    for shadow in shadows:
        _remarks(shadow, console)


def render_beginning(report: Numbers, console: Console) -> None:
    """Print what is read first: the verdict, the sentences, and each candidate against the noise floor."""
    _head(report, console)
    shadows = _in_order(report)
    _opening(report, shadows, console)
    print_floors(shadows, console)


def _in_order(report: Numbers) -> list[Numbers]:
    return sorted(report["shadows"], key=lambda shadow: bool(shadow["role"] == "control"))


def _head(report: Numbers, console: Console) -> None:
    models = ", ".join(inert(name, 60) for name in list(report.get("models", {}))[:3])
    console.print(Text(f"Parhelion, {inert(report['time'])}" + (f", {models}" if models else ""), style="bold"))
    if (requests := report.get("requests")) is not None:
        console.print(
            Text(
                f"requests: {requests['received']:,} received, {requests['sampled']:,} sampled (chosen to be compared), "
                f"{requests['not_sampled']:,} not sampled" + _under_way(report["shadows"])
            )
        )
    since = report["command"].partition("--since ")[2]
    if since:
        console.print(Text(f"shown: what was compared in the last {inert(since, 20)}; the verdicts are of all time"))
    sources = {name: n for name, n in report["primary"]["tokens_source"].items() if n}
    if sources:
        parts = [f"{n:,} {_SOURCES.get(name) or inert(name)}" for name, n in sources.items()]
        console.print(Text("the primary's tokens from: " + ", ".join(parts)))


def _under_way(shadows: Sequence[Numbers]) -> str:
    """Say how many requests some shadow is not done with: as many as the arm that has most to do."""
    most = max((numbers.get("in_flight", 0) for one in shadows for numbers in one["modes"].values()), default=0)
    return f"; {most:,} still being compared" if most else ""


def _opening(report: Numbers, shadows: Sequence[Numbers], console: Console) -> None:
    for verdict in verdict_lines(report):
        console.print(Text(f"\n{verdict}", style="bold"))
    console.print(Text("\n" + "\n".join(opening(report))))
    for shadow in shadows:
        if (line := not_compared(shadow, report.get("requests"))) is not None:
            console.print(Text(line))
    for shadow in shadows:
        for line in where_lines(shadow):
            console.print(Text(f"{inert(shadow['name'], 60)}: {line}."))


def _column(shadow: Numbers) -> Text:
    role = {"control": "noise floor", "unknown": "role unknown"}.get(shadow["role"], shadow["role"])
    return Text(f"{inert(shadow['name'], 60)}\n{role}")


def _table(
    title: str,
    columns: Sequence[tuple[Numbers, Numbers]],
    table: Sequence[Row],
    console: Console,
    said: set[str],
    *notes: str,
) -> None:
    """Print a table and the legend of its rows, less what a table above has said."""
    shown = [(row, [row.cell(numbers) for _, numbers in columns]) for row in table]
    shown = [(row, cells) for row, cells in shown if not set(cells) <= ({ABSENT, "0"} if row.quiet else {ABSENT})]
    if not columns or not shown:
        return
    heads = [_column(shadow) for shadow, _ in columns]
    _print_table(title, heads, [(row.label, cells) for row, cells in shown], console)
    legend = [note for note in (*notes, *(row.note for row, _ in shown)) if note and note not in said]
    said.update(legend)
    for note in dict.fromkeys(legend):
        console.print(Text(f"{note}.", style="dim"))


def _print_table(title: str, heads: Sequence[Text], lines: Sequence[tuple[str, list[str]]], console: Console) -> None:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    for head in heads:
        table.add_column(head, justify="right", overflow="fold")
    for label, cells in lines:
        table.add_row(Text(label), *(Text(cell) for cell in cells))
    console.print(Text(f"\n{title}", style="bold"))
    console.print(table)


def _ties(columns: Sequence[tuple[Numbers, Numbers]], console: Console, said: set[str]) -> None:
    """Print the table of ties; one line where nobody saw any."""
    looked = [(shadow, ties) for shadow, ties in columns if ties["positions"] or ties["shadow_positions"]]
    if any(ties["exact"] or ties["shadow_exact"] or ties["tie_break_mismatches"] for _, ties in looked):
        _table("ties at the top of the list", looked, rows.TIES, console, said)
    elif looked:
        parts = [
            f"{number(ties['positions'])} and {number(ties['shadow_positions'])} beside {inert(shadow['name'], 60)}"
            for shadow, ties in looked
        ]
        line = Text("\nties at the top of the list: none", style="bold")
        console.print(line.append(f" (positions of the primary and the shadow: {', '.join(parts)})", "not bold"))


def _latency(shadows: Sequence[Numbers], console: Console) -> None:
    """Print the paces: the primary's once, over the exchanges of the shadow that answered most of its streams."""
    paced = [shadow for shadow in shadows if any(any(shadow["latency"][key].values()) for key, _ in rows.LATENCY)]
    if not paced:
        return

    def streams(shadow: Numbers) -> int:
        return int(shadow["latency"]["time_to_first_token_seconds"]["primary"].get("count", 0))

    widest = max(paced, key=streams)
    lines: list[tuple[str, list[str]]] = []
    for key, label in rows.LATENCY:
        blocks = [(widest["latency"][key], "primary"), *((shadow["latency"][key], "shadow") for shadow in paced)]
        paces = [several(arm, "median", "p99")(block) for block, arm in blocks]
        lines.append((label, ["not streamed" if pace == ABSENT else pace for pace in paces]))
        lines.append(("  n", [number(block[arm].get("count", 0)) for block, arm in blocks]))
    heads = [Text("primary"), *map(_column, paced)]
    _print_table("latency of streamed replies, seconds", heads, lines, console)


def _remarks(shadow: Numbers, console: Console) -> None:
    name = inert(shadow["name"], 60)
    if sure := [one for one in shadow["footprint_differences"] if one.get("sure")]:
        parts = [f"{inert(one['field'])} {inert(one['primary'], 60)} → {inert(one['shadow'], 60)}" for one in sure]
        console.print(Text(f"\n{name}: stack differs: " + "; ".join(parts)))
    if (known := shadow.get("capability")) is not None and known["level"] != "full":
        console.print(Text(f"{name}: {inert(known['level'])}: {inert(known['compared'])}"))
    _earlier(shadow, name, console)
    for one in shadow["findings"]:
        severity = {"explains": "may explain what differs after it"}.get(one["severity"], inert(one["severity"]))
        seen = f" [{inert(evidence_line(one['evidence']), 300)}]" if one.get("evidence") else ""
        console.print(
            Text(
                f"{name}: {inert(one['finding'])} ({severity}), {times(one['count'])}{seen}. {inert(one['remedy'], 600)}"
            )
        )
    for one in (shadow.get("verdict") or {}).get("earlier", ()):
        console.print(
            Text(
                f"{name}: {inert(one['state'])} after {one['conversations']:,} conversations of another pair of stacks, the last {inert(one['last'])}"
            )
        )


def _earlier(shadow: Numbers, name: str, console: Console) -> None:
    """Say what was compared with other stacks before, and stands in none of the numbers above."""
    for one in shadow.get("earlier", ()):
        made = sum(numbers["requests"] for numbers in one["modes"].values())
        parts = [
            f"{inert(arm, 60)}: {inert(each['field'])} {inert(each['before'], 60)} → {inert(each['after'], 60)}"
            for arm, found in one["changed_since"].items()
            for each in found
        ]
        console.print(
            Text(
                f"{name}: {made:,} comparisons until {inert(one['last'])} are of another stack and in none of these numbers"
                + (f" ({'; '.join(parts)})" if parts else "")
            )
        )
    if left := shadow.get("left_out_between_stacks"):
        console.print(
            Text(f"{name}: {left:,} comparisons are of either stack, before the change was seen, and in none")
        )
