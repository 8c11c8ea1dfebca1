"""How the evidence for a verdict has grown: worked out for each hour, or less, from what had been counted by then.

House rules. Pure. Evidence is a function of counts, so that of a moment long past is what was true then. The last point is the verdict's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

from proxy.compare.verdict import Terms, evidence
from proxy.ledger.hours import Conversations
from proxy.ledger.tallies import Cell, Scope, Sum, Tallied

#: Points at most; steps are put together where there are more.
MOST = 120


def over_time(hourly: Sequence[Conversations], scope: Scope, tallied: Tallied, terms: Terms) -> list[dict[str, Any]]:
    """Return the points, oldest first, JSON-ready: ``time`` (Unix seconds, the end of what is counted), ``conversations`` with a result by then, and both logarithms.

    ``hourly``: what was counted by the hour or by shorter steps; what is in ``tallied`` and in none of them came before.
    """
    own = [one for one in hourly if one.scope == scope.key]
    counted = _before(own, tallied)
    by_step: dict[int, list[Conversations]] = {}
    for one in own:
        by_step.setdefault(one.until, []).append(one)
    times = sorted(by_step)
    together = max(1, ceil(len(times) / MOST))
    points = []
    for place, until in enumerate(times):
        for one in by_step[until]:
            counted[one.cell] = counted.get(one.cell, 0) + one.n
        if (len(times) - 1 - place) % together == 0 and place < len(times) - 1:
            points.append(_point(min(until, tallied.last), counted, scope, terms))
    whole = {cell: one.n for cell, one in tallied.cells.items()}
    return [*points, _point(tallied.last, whole, scope, terms)]


def _before(own: Sequence[Conversations], tallied: Tallied) -> dict[Cell, int]:
    left = {cell: one.n for cell, one in tallied.cells.items()}
    for one in own:
        left[one.cell] = max(0, left.get(one.cell, 0) - one.n)
    return left


def _point(time: float, counted: Mapping[Cell, int], scope: Scope, terms: Terms) -> dict[str, Any]:
    tally = Tallied({cell: Sum(n, 0, 0) for cell, n in counted.items() if n}).tally(controlled=bool(scope.control))
    fail, passed = evidence(tally, terms)
    return {"time": time, "conversations": tally.seen, "log_e_fail": fail, "log_e_pass": passed}
