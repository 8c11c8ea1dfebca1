"""The parts on replies as a whole: ties and how they are broken, tool calls and the like, lengths, latency."""

from __future__ import annotations

from collections.abc import Mapping

from markupsafe import Markup

from proxy.ledger.charts.strips import Spread, quantiles, shares
from proxy.ledger.pages.visible import NOTHING, count, share
from proxy.ledger.parts.part import QUANTILES, At, Cell, Part, Table, data, distribution, interval, named
from proxy.ledger.tie_report import sentences

_UNSTREAMED = (
    "The shadow was not asked to stream, so it has no times of single tokens: what is here is the primary's alone."
)
_LATENCY = (("time_to_first_token_seconds", "Time to the first token"), ("inter_token_seconds", "Time between tokens"))


def ties(shadow: At, report: At) -> Part:
    """Return the part on ties and how they are broken."""
    block = shadow["ties"]
    if not block or not (block["positions"] or block["shadow_positions"]):
        return Part("Ties at the top", empty="Nobody has looked at the top of a list of alternatives yet.")
    picks = [("primary", block["primary_pick"].value), (shadow["name"].value, block["shadow_pick"].value)]
    table = [
        ("exact ties of the primary", data(block["exact"], count), data(block["positions"], count)),
        ("exact ties of the shadow", data(block["shadow_exact"], count), data(block["shadow_positions"], count)),
        ("tie-break mismatches", data(block["tie_break_mismatches"], count), ""),
        ("  of them with the same tied tokens in both", data(block["mismatches"]["same_set"], count), data(block["mismatches"]["n"], count)),
    ]  # fmt: skip
    policy = tuple(_policy(arm, one) for arm in block["policy"].names() if (one := block["policy"][arm]))
    tables = [Table("Positions at which the first two tokens are exactly as likely", ("what", "n", "of"), tuple(table))]
    if policy:
        tables.append(
            Table(
                "Which of tied tokens an arm picks, by id",
                ("arm", "rule", "picks", "lowest (95 %)", "highest (95 %)", "other (95 %)"),
                policy,
            )
        )
    only = {**report.value, "shadows": [one for one in report.value["shadows"] if one["name"] == shadow["name"].value]}
    said = tuple(sentences(only))
    return Part(
        "Ties at the top",
        said,
        (shares("Which of tied tokens is picked", picks, ("lowest", "highest", "other")),),
        tuple(tables),
    )


def _policy(arm: str, one: At) -> tuple[Cell, ...]:
    ways = (one[way] for way in ("lowest", "highest", "other"))
    return (
        arm,
        data(one["rule"]),
        data(one["picks"], count),
        *(
            Markup("{} ({})").format(data(way["share"], share), interval(way["interval"], share)) if way else NOTHING
            for way in ways
        ),
    )


def outputs(shadow: At) -> Part:
    """Return the part on tool calls, JSON, reasoning, refusals, and replies that are numbers."""
    free = shadow["modes"]["free"]
    found = [
        _flat(title, free[key])
        for key, title in (("tools", "Tool calls"), ("json", "JSON"), ("reasoning", "Reasoning"), ("refusals", "Refusals"), ("embeddings", "Embeddings"), ("rerank", "Rerank"), ("score", "Scores"))
        if free[key]
    ]  # fmt: skip
    return Part(
        "Tool calls, JSON, reasoning and other replies",
        tables=tuple(found),
        empty="No reply was compared in which tools were offered, JSON was asked for, or reasoning was shown.",
    )


def _flat(title: str, block: At) -> Table:
    """One row a number, however deep it stands."""
    return Table(title, ("what", "value"), tuple(_leaves(block, ())))


def _leaves(at: At, way: tuple[str, ...]) -> list[tuple[Cell, ...]]:
    if isinstance(at.value, Mapping):
        return [row for key in at.names() for row in _leaves(at[key], (*way, key))]
    return [(named(", ".join(way)), data(at))]


def lengths(shadow: At) -> Part:
    """Return the part on lengths of replies."""
    free = shadow["modes"]["free"]
    blocks = [(words, free[path]) for path, words in (("output_length_ratio", "tokens of the reply"),) if free[path]]
    if free["reasoning"]["length_ratio"]:
        blocks.append(("characters of reasoning", free["reasoning"]["length_ratio"]))
    table = tuple((words, *distribution(block)) for words, block in blocks)
    tables = (
        (Table("Length of the shadow's divided by the primary's", ("of", *QUANTILES, "n"), table),) if table else ()
    )
    chart = tuple(
        quantiles(f"Length ratio: {words}", "shadow to primary", [Spread("ratio", "candidate", block.value)])
        for words, block in blocks
    )
    return Part(
        "Lengths",
        (),
        chart,
        tables,
        "No pair of replies has lengths in tokens, or shows reasoning.",
    )


def latency(shadow: At) -> Part:
    """Return the part on the pace of streamed replies."""
    charts = []
    table: list[tuple[Cell, ...]] = []
    for key, title in _LATENCY:
        arms = [(arm, block) for arm in ("primary", "shadow") if (block := shadow["latency"][key][arm])]
        if arms:
            kinds = {"primary": "primary", "shadow": "candidate"}
            charts.append(quantiles(title, "seconds", [Spread(arm, kinds[arm], block.value) for arm, block in arms]))
        table += [(f"{title}, {arm} (seconds)", *distribution(block)) for arm, block in arms]
    heads = ("of", *QUANTILES, "n")
    tables = (Table("Latency of streamed replies that the shadow answered too", heads, tuple(table)),) if table else ()
    known = {arm for arm in ("primary", "shadow") for key, _ in _LATENCY if shadow["latency"][key][arm]}
    said = (_UNSTREAMED,) if known == {"primary"} else ()
    return Part("Latency of both arms", said, tuple(charts), tables, "Nothing was streamed in both arms.")
