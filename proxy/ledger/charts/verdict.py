"""What a verdict is about: the excess of bad conversations with its interval beside what is allowed, and the same by slices of the traffic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from proxy.ledger.charts.figure import WIDTH, Table, figure, nothing
from proxy.ledger.charts.markup import finite, line, mark, text
from proxy.ledger.charts.scale import Scale, even
from proxy.ledger.pages.visible import amount, count, share, shortened

_LEFT, _RIGHT = 14.0, WIDTH - 14
_EXCESS = "Bad conversations beside what is allowed"
_SLICES = "Where among the traffic it is bad"
_MOST = 16


def excess(verdict: Mapping[str, Any]) -> Markup:
    """Draw ``excess`` and ``excess_interval`` of a verdict beside its margin (without a control: its allowance)."""
    value, edges = finite(verdict.get("excess")), verdict.get("excess_interval")
    low, high = (finite(one) for one in (edges or (None, None)))
    held = verdict.get("floor") == "control"
    allowed = finite((verdict.get("terms") or {}).get("margin" if held else "allowance"))
    if value is None or low is None or high is None or allowed is None:
        return nothing(_EXCESS, "No conversation has a result yet.")
    x = even([low, high, value, 2 * allowed], _LEFT, _RIGHT, zero=True)
    drawn = [line((_LEFT, 60), (_RIGHT, 60), "axis")]
    for one in x.ticks(5):
        drawn += [
            line((x.at(one), 60), (x.at(one), 64), "axis"),
            text(x.at(one), 77, f"{amount(100 * one)} %", "tick", "middle"),
        ]
    drawn += [line((x.at(0), 24), (x.at(0), 60), "grid"), line((x.at(allowed), 16), (x.at(allowed), 60), "limit")]
    side = "start" if x.at(allowed) < WIDTH * 0.6 else "end"
    drawn.append(text(x.at(allowed) + (4 if side == "start" else -4), 14, f"allowed: {share(allowed)}", "tick", side))
    drawn += [line((x.at(low), 42), (x.at(high), 42), "whisker candidate"), mark(x.at(value), 42, "candidate")]
    drawn.append(
        text(WIDTH / 2, 94, f"share of bad conversations{', above the control’s' if held else ''}", "label", "middle")
    )
    sure = share(1 - float(verdict.get("alpha") or 0))
    n = count(finite(verdict.get("conversations")))
    said = f"{share(value)}, {share(low)} to {share(high)}; allowed are {share(allowed)}."
    return figure(
        _EXCESS,
        f"Share of bad conversations {'above the control’s' if held else ''}: {said}",
        drawn,
        100.0,
        f"Disc: {'by how much more of the candidate’s conversations are bad than of the control’s' if held else 'share of the candidate’s conversations that are bad'}; line: {sure} sure at all times. n: {n} conversations.",
        Table(
            ("what", "share"),
            (
                ("so far", share(value)),
                ("at least", share(low)),
                ("at most", share(high)),
                ("allowed", share(allowed)),
                ("conversations", n),
            ),
        ),
    )


def slices(found: Sequence[Mapping[str, Any]] | None) -> Markup:
    """Draw the first slices of a report: the share of their conversations that are bad for the candidate, and for the control."""
    shown = [one for one in found or () if one.get("conversations")][:_MOST]
    if not shown:
        return nothing(_SLICES, "There are no conversations to cut into slices yet.")
    x = Scale(0.0, 1.0, _LEFT, _RIGHT)
    bottom = 8 + 34.0 * len(shown)
    drawn = [line((_LEFT, bottom), (_RIGHT, bottom), "axis")]
    for part in range(5):
        at = x.at(part / 4)
        drawn += [
            line((at, 4), (at, bottom + 4), "grid"),
            text(at, bottom + 16, f"{25 * part} %", "tick", "middle"),
        ]
    for at, one in enumerate(shown):
        y, n = 8 + at * 34.0, one["conversations"]
        name = f"{_name(one)} (n {count(n)}){', named' if one.get('named') else ''}"
        drawn += [text(_LEFT, y + 10, shortened(name, 56), "tick"), line((_LEFT, y + 20), (_RIGHT, y + 20), "grid")]
        for arm, key, aside in (("control", "control_bad", 2), ("candidate", "candidate_bad", -2)):
            if (bad := finite(one.get(key))) is not None:
                drawn.append(mark(x.at(bad / n), y + 20 + aside, arm))
    rows = tuple(
        (_name(one), count(one["conversations"]), count(finite(one.get("candidate_bad"))), count(finite(one.get("control_bad"))), amount(finite(one.get("log_e"))), "yes" if one.get("named") else "no")
        for one in found or ()
        if one.get("conversations")
    )  # fmt: skip
    more = f" The first {_MOST} of {len(rows)}." if len(rows) > _MOST else ""
    return figure(
        _SLICES,
        f"{len(rows)} slices; for each the share of bad conversations of the candidate and of the control.",
        drawn,
        bottom + 24,
        f"Share of a slice's conversations that are bad. Disc: candidate; diamond: control. Named: worse than the control there and by more than elsewhere, false discoveries held.{more}",
        Table(("slice", "n", "candidate bad", "control bad", "ln of the evidence", "named"), rows),
    )


def _name(one: Mapping[str, Any]) -> str:
    return f"{one.get('dimension')} {one.get('value')}".replace("_", " ")
