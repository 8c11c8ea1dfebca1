"""The parts that say how much differs, and where: headline numbers with their floor, survival, positions, slices, ties, lengths, latency."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from proxy.compare.headline import REASONS
from proxy.ledger import rows
from proxy.ledger.cells import ABSENT
from proxy.ledger.charts import along as drawn_along
from proxy.ledger.charts.strips import Line, Spread, floors, quantiles
from proxy.ledger.charts.survival import survival as drawn_survival
from proxy.ledger.charts.verdict import slices
from proxy.ledger.inert import inert
from proxy.ledger.pages.visible import count
from proxy.ledger.parts.part import QUANTILES, At, Cell, Part, Table, data, distribution, form_of, interval, named
from proxy.ledger.where_lines import where_lines

_MODES = {"free": "answering on its own", "forced": "scoring the primary's tokens"}
#: Headline numbers that are drawn; the table below has all of them.
_DRAWN = frozenset(
    {
        "identical_share",
        "divergences_per_1000_tokens",
        "genuine_divergences_per_1000_tokens",
        "flips_per_1000_positions",
        "genuine_flips_per_1000_positions",
        "top1_agreement_share",
        "mean_error_nats",
        "p99_error_nats",
        "mean_tv_lower_bound",
        "k3_nats",
    }
)
#: So many names of numbers are told in a sentence.
_TOLD = 4
_SPREADS = (
    ("logprob_error_nats", "Logprob error", "nats"),
    ("relative_error", "Relative error of logprobs", "share"),
    ("probability_error", "Probability error", "share"),
)


def floor_and_excess(shadow: At) -> Part:
    """Return the part on headline numbers, both modes."""
    charts, tables = [], []
    said: list[Cell] = []
    for mode, words in _MODES.items():
        block = shadow["modes"][mode]
        found = block["headline"]
        if not found:
            continue
        charts.append(
            floors(
                [Line(named(name), found.value[name]) for name in found.names() if name in _DRAWN],
                f"Floor and excess, {words}",
            )
        )
        tables.append(_headline(found, f"Headline numbers, {mode}: {words}"))
        if left := block["without_floor"]:
            said.append(
                Markup(
                    "{}: left out here, for the control has no result of the same: {} {} and {} tokens of the candidate's."
                ).format(
                    mode,
                    data(left["requests"], count),
                    "request" if left["requests"].value == 1 else "requests",
                    data(left["tokens"], count),
                )
            )
        said += _no_interval(mode, found)
    return Part("Floor and excess", tuple(said), tuple(charts), tuple(tables), "Nothing has been compared yet.")


def _headline(found: At, caption: str) -> Table:
    shown = []
    for name in found.names():
        one, form = found[name], form_of(name)
        shown.append((
            named(name), data(one["raw"], form), interval(one["raw_interval"], form), data(one["n"], count),
            data(one["floor"], form), interval(one["floor_interval"], form), data(one["floor_n"], count),
            data(one["excess"], form), interval(one["interval"], form), data(one["conversations"], count),
        ))  # fmt: skip
    heads = ("number", "candidate", "95 %", "n", "floor", "95 %", "n", "excess", "95 %", "conversations")
    return Table(caption, heads, tuple(shown))


def _no_interval(mode: str, found: At) -> list[str]:
    by: dict[str, list[str]] = {}
    for name in found.names():
        if (why := found[name]["no_interval"]["interval"].value) is not None:
            by.setdefault(why, []).append(named(name))
    return [
        f"{mode}: no interval of the excess, for {REASONS.get(why) or why}: {_listed(names, len(found.names()))}."
        for why, names in by.items()
    ]


def _listed(names: list[str], of: int) -> str:
    """A few names, or how many there are: the table has a dash for each of them."""
    return ", ".join(names) if len(names) <= _TOLD else f"{len(names)} of the {of} numbers (a dash in the table)"


def survival(shadow: At) -> Part:
    """Return the part on the common prefix."""
    block = shadow["modes"]["free"]["survival"]
    median = tuple(
        (role, data(block["median"][role]["position"], count), interval(block["median"][role]["interval"], count), data(block["streams"][role], count), data(block["events"][role], count))
        for role in block["median"].names()
    )  # fmt: skip
    tables = (
        (
            Table(
                "At which token half have parted (tokens from 0)",
                ("arm", "token", "95 %", "replies", "of them parted"),
                median,
            ),
        )
        if median
        else ()
    )
    return Part("How long replies stay the same", charts=(drawn_survival(block.value),), tables=tables)


def places(shadow: At) -> Part:
    """Return the part on where it differs: positions and slices."""
    free, forced = shadow["modes"]["free"]["by_position"].value, shadow["modes"]["forced"]["by_position"].value
    charts = []
    if "free" in shadow["modes"].names():
        charts.append(drawn_along.along(free, drawn_along.HAZARD))
    if "forced" in shadow["modes"].names():
        charts += [drawn_along.along(forced, drawn_along.FLIPS), drawn_along.along(forced, drawn_along.ERRORS)]
    cut = tuple(
        (f"{named(str(one['dimension'].value))} {one['value'].value}", data(one["conversations"], count), data(one["candidate_bad"], count), data(one["control_bad"], count), data(one["log_e"]), "named" if one["named"] else "")
        for one in shadow["slices"]
    )  # fmt: skip
    heads = ("slice", "conversations", "candidate bad", "control bad", "ln of the evidence", "named")
    tables = (Table("The candidate's conversations, cut by what is known of the request", heads, cut),) if cut else ()
    return Part(
        "Where it differs",
        tuple(f"{line[:1].upper()}{line[1:]}." for line in where_lines(shadow.value)),
        (*charts, slices(shadow["slices"].value)),
        tables,
    )


def values(shadow: At, control: At | None) -> Part:
    """Return the part on distributions of errors."""
    charts, table = [], []
    for key, title, unit in _SPREADS:
        spreads = []
        for mode in _MODES:
            for one, role in ((shadow, "candidate"), (control, "control")):
                block = None if one is None else one["modes"][mode][key]
                if block:
                    spreads.append(Spread(f"{role}, {mode}", role, block.value))
                    table.append((f"{title}, {role}, {mode} ({unit})", *distribution(block)))
        if spreads:
            charts.append(quantiles(title, unit, spreads))
    tables = (Table("Distributions", ("of", *QUANTILES, "n"), tuple(table)),) if table else ()
    return Part("How far values differ", (), tuple(charts), tables, "No arm has given values of the same tokens yet.")


def everything(report: Mapping[str, Any]) -> list[Table]:
    """Return the terminal's tables, one a mode, all shadows side by side, with the legends of their rows; rows that no shadow has are left out."""
    found: list[Table] = []
    for mode, words, table in (
        ("free", "each shadow answers on its own", rows.FREE),
        ("forced", "each shadow scores the primary's tokens", rows.FORCED),
    ):
        columns = [(one, one["modes"][mode]) for one in report["shadows"] if one["modes"].get(mode, {}).get("requests")]
        if not columns:
            continue
        lines = [(row, (name, *(row.cell(numbers) for _, numbers in columns))) for name, row in _whole(table)]
        lines = [(row, line) for row, line in lines if set(line[1:]) != {ABSENT}]
        heads = ("what", *(f"{inert(one['name'], 60)} ({one['role']})" for one, _ in columns))
        said = {note for one in found for note in one.notes}
        notes = dict.fromkeys(f"{row.note}." for row, _ in lines if row.note)
        kept = tuple(one for one in notes if one not in said)
        found.append(Table(f"{mode}: {words}", heads, tuple(line for _, line in lines), notes=kept))
    return found


def _whole(table: Sequence[rows.Row]) -> Iterator[tuple[str, rows.Row]]:
    """Rows with names that stand alone: where a terminal's row is indented, what it is of is set before it."""
    above: dict[int, str] = {}
    for row in table:
        label = row.label.strip()
        depth = len(row.label) - len(row.label.lstrip())
        outer = [said for level, said in above.items() if level < depth]
        yield ": ".join([*outer, label]), row
        above = {level: said for level, said in above.items() if level < depth} | {
            depth: label.rpartition(": ")[0] or label
        }
