"""The parts that say what was found, how the stacks differ, and that nothing went uncounted."""

from __future__ import annotations

from markupsafe import Markup

from proxy.ledger.pages.visible import NOTHING, count, printed
from proxy.ledger.parts.part import At, Cell, Part, Table, data, named
from proxy.ledger.remedies import evidence_line

_SEVERITIES = {"explains": "may explain what differs", "functional": "changes what users get"}


def findings(shadow: At) -> Part:
    """Return the part on findings, each with what to do."""
    found = tuple(
        (
            one["finding"].value,
            _SEVERITIES.get(one["severity"].value) or str(one["severity"].value),
            data(one["count"], count),
            evidence_line(one["evidence"].value) if one["evidence"] else NOTHING,
            str(one["remedy"].value),
        )
        for one in shadow["findings"]
    )
    heads = ("finding", "weight", "comparisons", "seen last", "what to do")
    tables = (Table("Findings, the earliest layer first", heads, found, text=True),) if found else ()
    return Part("Findings and remedies", tables=tables, empty="Nothing was found beyond the tokens themselves.")


def footprints(report: At, shadow: At) -> Part:
    """Return the part on both stacks side by side; what differs is marked."""
    primary, own = report["primary"]["footprint"], shadow["footprint"]
    if not primary and not own:
        return Part("Stacks side by side", empty="The engines have not been probed yet.")
    sure = {one["field"].value: bool(one["sure"]) for one in shadow["footprint_differences"]}
    fields = list(dict.fromkeys([*primary.names(), *own.names()]))
    rows: list[tuple[Cell, ...]] = []
    marked: set[int] = set()
    for field in fields:
        differs = sure.get(field)
        if differs is not None:
            marked.add(len(rows))
        said = "" if differs is None else "yes" if differs else "maybe: one side does not say"
        rows.append((
            named(field), _fact(primary[field], report["primary"]["footprint_origins"][field]),
            _fact(own[field], shadow["footprint_origins"][field]), said,
        ))  # fmt: skip
    heads = ("fact", "primary", str(shadow["name"].value), "differs")
    table = Table("What is known of each stack, and how", heads, tuple(rows), frozenset(marked), text=True)
    tables = [table]
    if changed := _changes(report, shadow):
        tables.append(changed)
    return Part("Stacks side by side", tuple(_said(shadow)), tables=tuple(tables))


def _said(shadow: At) -> list[Cell]:
    """What of the engine cannot be compared, and what is of other stacks and in none of the numbers."""
    said: list[Cell] = []
    known = shadow["capability"]
    if known and known["level"].value != "full":
        said.append(f"{known['level'].value}: {known['compared'].value}.")
    for one in shadow["earlier"]:
        made = [data(one["modes"][mode]["requests"], count) + f" {mode}" for mode in one["modes"].names()]
        template = Markup("Comparisons until {} are of another pair of stacks and in none of the numbers here: {}.")
        said.append(template.format(data(one["last"]), Markup(", ").join(made)))
    if left := shadow["left_out_between_stacks"]:
        said.append(
            Markup("{} comparisons may be of either stack, and are in neither's numbers.").format(data(left, count))
        )
    return said


def _fact(at: At, origin: At) -> Cell:
    if at.value is None:
        return NOTHING
    shown = at.value if isinstance(at.value, str | bool) else repr(at.value)
    return Markup("<bdi>{}</bdi> <small>{}</small>").format(printed(shown), origin.value or "")


def _changes(report: At, shadow: At) -> Table | None:
    rows = tuple(
        (str(one["time"].value), str(one["arm"].value), named(field), _plain(pair["before"]), _plain(pair["after"]))
        for one in report["changes"]
        if one["arm"].value in ("primary", shadow["name"].value)
        for field in one["fields"].names()
        if (pair := one["fields"][field])
    )
    return (
        Table("Changes of a stack under way", ("found", "arm", "fact", "before", "after"), rows, text=True)
        if rows
        else None
    )


def _plain(at: At) -> str:
    return NOTHING if at.value is None else str(at.value)


def counted(report: At) -> Part:
    """Return the part on the law that nothing goes uncounted."""
    if not report["requests"]:
        return Part(
            "Where every request went",
            empty="This report is of a part of the records; what was counted is of all time, and not in it.",
        )
    totals = tuple((named(name), data(report["requests"][name], count)) for name in report["requests"].names())
    rows: list[tuple[Cell, ...]] = []
    reasons: list[tuple[Cell, ...]] = []
    for shadow in report["shadows"]:
        for mode in shadow["modes"].names():
            block = shadow["modes"][mode]
            name = f"{shadow['name'].value}, {mode}"
            rows.append(
                (
                    name,
                    data(block["compared"], count),
                    _sum(block["incomparable"]),
                    _sum(block["shed"]),
                    data(block["in_flight"], count),
                )
            )
            for how in ("incomparable", "shed"):
                reasons += [(name, how, named(why), data(block[how][why], count)) for why in block[how].names()]
    tables = [
        Table("received = not sampled + sampled + undecided", ("requests", "n"), totals),
        Table("For each shadow and mode: sampled + undecided = compared + incomparable + shed + in flight", ("shadow, mode", "compared", "incomparable", "shed", "in flight"), tuple(rows)),
    ]  # fmt: skip
    if reasons:
        tables.append(Table("Why", ("shadow, mode", "outcome", "reason", "n"), tuple(reasons)))
    sources = report["primary"]["tokens_source"]
    known = tuple((named(name), data(sources[name], count)) for name in sources.names())
    tables.append(Table("Where the primary's tokens came from, in requests", ("source", "n"), known))
    return Part("Where every request went", tables=tuple(tables))


def _sum(at: At) -> str:
    return NOTHING if at.value is None else count(sum(at.value.values()))
