"""The parts that say what was decided and on what: verdict, evidence, what to do."""

from __future__ import annotations

from math import log
from typing import Any

from proxy.ledger.charts.evidence import evidence as drawn_evidence
from proxy.ledger.charts.verdict import excess
from proxy.ledger.pages.visible import amount, count, share
from proxy.ledger.parts.part import At, Part, Table, data, interval, named

_RESULTS = {
    "worse": "only the candidate was bad",
    "better": "only the control was bad",
    "both": "both were bad",
    "neither": "neither was bad",
    "missing": "no result",
}
TONES = {"PASS": "good", "FAIL": "bad"}


def to_do(shadow: Any) -> str:
    """Say what to do about a candidate's verdict."""
    verdict = shadow["verdict"]
    state, tally = verdict["state"], verdict["tally"]
    if state == "PASS":
        return "You can migrate: what differs stays within what was allowed before looking."
    if state == "FAIL":
        explains = any(one["severity"] == "explains" for one in shadow["findings"])
        first = (
            "Begin with the findings below: one of them may explain what differs."
            if explains
            else "Look at the worst examples, and at what differs between the stacks."
        )
        return f"Do not migrate yet. {first} A changed stack is judged anew, by itself."
    if not verdict["conversations"] and not tally["missing"]:
        return "Send traffic through the proxy; every conversation counts once."
    if verdict["log_e_pass"] >= log(1 / verdict["alpha"]):
        return "Find out why results are missing: there would be evidence enough for a PASS without that."
    needed = verdict["conversations_needed"]
    return "Leave it mirrored." + (
        f" About {count(needed)} more conversations decide if it goes on like this."
        if needed
        else " Nobody can say yet how many more conversations it takes."
    )


def evidence(shadow: At) -> Part:
    """Return the part on evidence."""
    verdict = shadow["verdict"]
    value = verdict.value
    if not value["conversations"] and not value["tally"]["missing"]:
        return Part("Evidence", empty="No conversation has been counted towards this verdict yet.")
    return Part(
        "Evidence",
        charts=(excess(value), drawn_evidence(value.get("over_time"), value["alpha"])),
        tables=(_tally(verdict), _terms(verdict), *_reasons(verdict)),
    )


def _tally(verdict: At) -> Table:
    tally = verdict["tally"]
    rows = tuple(
        (f"{name}: {said}" if verdict["floor"].value == "control" else name, data(tally[name], count))
        for name, said in _RESULTS.items()
        if name in tally.names()
    )
    return Table("Conversations, each counted once", ("result", "conversations"), rows)


def _terms(verdict: At) -> Table:
    decides = amount(log(1 / verdict.value["alpha"]))
    rows = [
        ("state", data(verdict["state"])),
        ("conversations with a result", data(verdict["conversations"], count)),
        ("coverage: the share that have one", data(verdict["coverage"], share)),
        (f"ln of the evidence for FAIL ({decides} decides)", data(verdict["log_e_fail"])),
        (f"ln of the evidence for PASS ({decides} decides)", data(verdict["log_e_pass"])),
        ("ln of the evidence that it is worse than the control at all", data(verdict["log_e_worse_than_control"])),
        ("excess of bad conversations", data(verdict["excess"], share)),
        ("its interval, at all times at once", interval(verdict["excess_interval"], share)),
        ("conversations needed if it goes on like this", data(verdict["conversations_needed"], count)),
        ("worst case: were all that are missing bad for the candidate alone", data(verdict["worst_case"])),
        ("alpha: how often a verdict may be wrong", data(verdict["terms"]["alpha"], share)),
        ("margin: what is allowed above the control", data(verdict["terms"]["margin"], share)),
        ("allowance: what is allowed without a control", data(verdict["terms"]["allowance"], share)),
        ("floor", data(verdict["floor"])),
        ("first conversation", data(verdict["since"])),
        ("last conversation", data(verdict["last"])),
    ]  # fmt: skip
    variation = verdict["total_variation"]
    if variation:
        rows += [
            ("sampled output: conversations", data(variation["conversations"], count)),
            ("sampled output: lower bound of the total variation, interval", interval(variation["excess_interval"], share)),
            ("sampled output: ln of the evidence, FAIL", data(variation["log_e_fail"])),
            ("sampled output: ln of the evidence, PASS", data(variation["log_e_pass"])),
        ]  # fmt: skip
    return Table("What the verdict rests on", ("what", "value"), tuple(rows))


def _reasons(verdict: At) -> list[Table]:
    found: list[Table] = []
    if verdict["bad_by"]:
        rows = tuple(
            (named(one["by"].value), data(one["candidate"], count), data(one["control"], count))
            for one in verdict["bad_by"]
        )
        found.append(Table("Bad by what", ("what", "candidate", "control"), rows))
    if missing := verdict["missing_by"]:
        why = tuple((named(name), data(missing[name], count)) for name in missing.names())
        found.append(Table("Why results are missing", ("reason", "conversations"), why))
    if verdict["earlier"]:
        earlier = tuple(
            (data(one["last"]), data(one["state"]), data(one["conversations"], count), data(one["excess"], share))
            for one in verdict["earlier"]
        )
        found.append(
            Table("Verdicts on earlier pairs of stacks", ("until", "state", "conversations", "excess"), earlier)
        )
    return found
