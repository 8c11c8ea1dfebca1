"""The verdict of each candidate as the report has it, from the sums over all its conversations.

House rules. Pure. A verdict is of one pair of stacks and one control: the one that was counted last; those before stand beside it. It is of all
conversations of that pair, whatever part of the records is shown. What was not measured is null or absent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from proxy.compare.confidence_sequence import Shares, mean_interval
from proxy.compare.trial import Result, names_a_fault
from proxy.compare.verdict import Floor, Tally, Terms, Verdict, judge, verdict_of_variation
from proxy.config import Config
from proxy.ledger.changes import moment
from proxy.ledger.grown import over_time
from proxy.ledger.hours import Conversations
from proxy.ledger.tallies import Scope, Tallied, Tallies


def terms_of(config: Config) -> Terms:
    """Return what the user chose."""
    return Terms(config.verdict.alpha, config.verdict.margin, config.verdict.allowance)


def latest(tallies: Tallies, candidate: str) -> tuple[Scope, Tallied] | None:
    """Return what was counted for the stacks that were counted last; None before anything was."""
    found = _of(tallies, candidate)
    return found[-1] if found else None


def _of(tallies: Tallies, candidate: str) -> list[tuple[Scope, Tallied]]:
    """What was counted for a candidate, by pair of stacks, the latest last."""
    own = [(scope, tallied) for scope, tallied in tallies.items() if scope.candidate == candidate]
    return sorted(own, key=lambda one: one[1].last)


def shown(
    tallies: Tallies, candidate: str, config: Config, hourly: Sequence[Conversations] | None = None
) -> dict[str, Any]:
    """Return a candidate's verdict, JSON-ready. ``hourly``: what was counted by the hour, for ``over_time``; None: without that."""
    terms, found = terms_of(config), _of(tallies, candidate)
    if not found:
        controlled = any(shadow.role == "control" for shadow in config.shadows)
        return _shown(judge(Tally(controlled=controlled), terms)) | {"earlier": []}
    *before, (scope, tallied) = found
    made = _of_scope(scope, tallied, terms) | {"earlier": [_of_scope(*one, terms) for one in before]}
    return made if hourly is None else made | {"over_time": over_time(hourly, scope, tallied, terms)}


def _of_scope(scope: Scope, tallied: Tallied, terms: Terms) -> dict[str, Any]:
    verdict = judge(tallied.tally(controlled=bool(scope.control)), terms)
    ids = {"primary": scope.primary, "shadow": scope.shadow}
    named = {"control": scope.control} if scope.control else {}
    if scope.control:
        ids["control"] = scope.control_footprint
    return _shown(verdict) | named | {
        **_variation(tallied.variations, terms, controlled=bool(scope.control)),
        "bad_by": _bad_by(tallied, controlled=bool(scope.control)),
        "missing_by": _missing_by(tallied),
        "since": moment(tallied.first),
        "last": moment(tallied.last),
        "footprint_ids": ids,
    }  # fmt: skip


def _shown(verdict: Verdict) -> dict[str, Any]:
    tally, terms = verdict.tally, verdict.terms
    controlled = verdict.floor is Floor.CONTROL
    counts = {"worse": tally.worse, "neither": tally.neither, "missing": tally.missing}
    if controlled:
        counts |= {"better": tally.better, "both": tally.both}
    mean = tally.outcomes().mean
    return {
        "state": verdict.state.value,
        "alpha": terms.alpha,
        "margin": terms.margin,
        "log_e_fail": verdict.log_e_fail,
        "log_e_pass": verdict.log_e_pass,
        "log_e_worse_than_control": verdict.log_e_worse_than_control,
        "conversations": tally.seen,
        "conversations_needed": verdict.needed,
        "coverage": tally.coverage,
        "floor": verdict.floor.value,
        "tally": counts,
        "excess": None if mean is None else 2 * mean - 1 if controlled else mean,
        "excess_interval": None if verdict.excess is None else list(verdict.excess),
        "worst_case": verdict.worst_case.value,
        "terms": {"alpha": terms.alpha, "margin": terms.margin, "allowance": terms.allowance},
        "of": "every conversation of this pair of stacks",
    }


def _variation(shares: Shares, terms: Terms, *, controlled: bool) -> dict[str, Any]:
    """The second test, of sampled output alone: by how much more of the tokens must differ than with the control. Evidence, and no part of the state."""
    if not shares.total:
        return {}
    fail, passed = verdict_of_variation(shares, terms, controlled=controlled)
    low, high = mean_interval(shares, terms.alpha) or (0.0, 1.0)
    edges = [2 * low - 1, 2 * high - 1] if controlled else [low, high]
    found = {"conversations": shares.total, "log_e_fail": fail, "log_e_pass": passed, "excess_interval": edges}
    return {"total_variation": found}


def _bad_by(tallied: Tallied, *, controlled: bool) -> list[dict[str, Any]]:
    """How many conversations were bad by what, the candidate's and beside them the control's; most frequent first."""
    own: Counter[str] = Counter()
    floor: Counter[str] = Counter()
    for cell, one in tallied.cells.items():
        if cell.result in (Result.WORSE, Result.BOTH):
            own[cell.by] += one.n
        if cell.result in (Result.BETTER, Result.BOTH):
            floor[cell.control_by] += one.n
    names = sorted({*own, *floor}, key=lambda name: (-own[name], -floor[name], name))
    return [{"by": name, "candidate": own[name]} | ({"control": floor[name]} if controlled else {}) for name in names]


def _missing_by(tallied: Tallied) -> dict[str, int]:
    """Why results are missing: the candidate's reason, else the control's. What made the candidate bad is none."""
    found: Counter[str] = Counter()
    for cell, one in tallied.cells.items():
        if cell.result is Result.MISSING:
            why = "" if names_a_fault(cell.by) else cell.by
            found[why or f"control_{cell.control_by}"] += one.n
    return dict(sorted(found.items(), key=lambda one: (-one[1], one[0])))
