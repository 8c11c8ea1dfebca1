"""The verdict in plain sentences, one paragraph a candidate: what is known, what it rests on, how much more it takes.

House rules. Pure; made of the report's numbers alone. A FAIL is never without what was bad and how often beside the control; a PASS never without its interval; what is
missing is always said.
"""

from __future__ import annotations

from math import log

from proxy.ledger.cells import Numbers, number, reasons
from proxy.ledger.inert import inert


def verdict_lines(report: Numbers) -> list[str]:
    """Return the paragraphs; none for a control."""
    part = "--since" in report.get("command", "")
    return [
        _paragraph(inert(one["name"], 60), one["verdict"], part=part)
        for one in report["shadows"]
        if one.get("verdict") is not None
    ]


def _paragraph(name: str, verdict: Numbers, *, part: bool) -> str:
    state, seen = verdict["state"], int(verdict["conversations"])
    if not seen and not verdict["tally"]["missing"]:
        return f"{name}: {state}; no conversation has been counted yet."
    said = [f"{name}: {state} after {_conversations(seen)}{_tail(verdict)}."]
    said += _evidence(verdict) + _bad(verdict) + _missing(verdict) + _variation(verdict)
    if verdict["floor"] == "assumed":
        allowed = _percent(verdict["terms"]["allowance"])
        said.append(f"There is no control: the floor is assumed, {allowed} of conversations may be bad.")
    if part:
        said.append("The verdict is of every conversation of this pair of stacks, not only of the time shown.")
    return " ".join(said)


def _conversations(n: int) -> str:
    return "1 conversation" if n == 1 else f"{n:,} conversations"


def _tail(verdict: Numbers) -> str:
    low, high = verdict["excess_interval"] or (None, None)
    held = verdict["floor"] == "control"
    match verdict["state"]:
        case "PASS" | "FAIL":
            sure = 100 * (1 - verdict["alpha"])
            what = "bad more often than the control by" if held else "bad in"
            excess = _points(verdict["excess"])
            return f": {what} {excess} of them ({_points(low)} to {_points(high)}, {number(sure)} % sure at all times)"
        case _ if _only_missing(verdict):
            return ", with evidence enough for a PASS but for what is missing"
        case _ if verdict["conversations_needed"] is not None:
            more = f"about {_rounded(verdict['conversations_needed'])} more"
            if _heading(verdict) == "PASS" and _hidden(verdict):
                return f"; no PASS while so many have no result ({more} that have one would be evidence enough)"
            return f"; {more} to a {_heading(verdict)} if it goes on like this"
        case _ if not verdict["conversations"]:
            return ""
        case _:
            return "; too near the margin, or too few, to say how many more it takes"


def _heading(verdict: Numbers) -> str:
    """The verdict that more of the same leads to: the excess so far lies on its side of what is allowed."""
    return "FAIL" if verdict["excess"] > _allowed(verdict) else "PASS"


def _hidden(verdict: Numbers) -> bool:
    """Whether more is missing than a PASS bears."""
    return bool(1 - verdict["coverage"] > _allowed(verdict) / 2)


def _allowed(verdict: Numbers) -> float:
    return float(verdict["terms"]["margin" if verdict["floor"] == "control" else "allowance"])


def _evidence(verdict: Numbers) -> list[str]:
    """What was asked, and how much speaks for either answer."""
    if not verdict["conversations"]:
        return []
    allowed, decides = _percent(_allowed(verdict)), number(log(1 / verdict["alpha"]))
    fail, passed = number(verdict["log_e_fail"]), number(verdict["log_e_pass"])
    asked = f"bad more often than the control by over {allowed}"
    if verdict["floor"] == "assumed":
        asked = f"bad in over {allowed} of conversations"
    return [f"Evidence (natural logarithm; {decides} decides): {fail} for FAIL ({asked}), {passed} for PASS."]


def _only_missing(verdict: Numbers) -> bool:
    return bool(verdict["log_e_pass"] >= log(1 / verdict["alpha"]) and verdict["state"] == "KEEP WATCHING")


def _bad(verdict: Numbers) -> list[str]:
    tally, by = verdict["tally"], verdict.get("bad_by", ())
    if not verdict["conversations"]:
        return []
    if not by:
        return ["None was bad."]
    bad = tally["worse"] + tally.get("both", 0)
    own = ", ".join(reasons({one["by"]: one["candidate"] for one in by if one["candidate"]}))
    said = f"Bad in {bad:,}" + (f" ({own})" if own else "")
    if "better" not in tally:
        return [f"{said}."]
    floor = ", ".join(reasons({one["by"]: one["control"] for one in by if one["control"]}))
    return [f"{said}; the control in {tally['better'] + tally['both']:,}" + (f" ({floor})." if floor else ".")]


def _missing(verdict: Numbers) -> list[str]:
    missing = verdict["tally"]["missing"]
    if not missing:
        return []
    why = ", ".join(reasons(verdict.get("missing_by", {})))
    most = _percent(_allowed(verdict) / 2)
    said = f"{missing:,} more have no result ({why}): {_percent(1 - verdict['coverage'])} of all, where a PASS bears {most}"
    told = [f"{said}; were all of them bad for it alone: {verdict['worst_case']}."]
    if {"unknown_flip", "control_unknown_flip"} & verdict.get("missing_by", {}).keys():
        told.append(
            "Where texts differ and the primary gave no logprobs nobody can say by what: primary.logprobs: inject or rescore shows it."
        )
    return told


def _variation(verdict: Numbers) -> list[str]:
    found = verdict.get("total_variation")
    if found is None:
        return []
    low, high = map(_percent, found["excess_interval"])
    above = " above the control's" if verdict["floor"] == "control" else ""
    return [
        f"In {_conversations(found['conversations'])} with sampled output the lower bound of the total variation is {low} to {high}{above} on average, which is no part of the verdict."
    ]


def _points(value: float | None) -> str:
    return "–" if value is None else _percent(value)


def _percent(value: float) -> str:
    return f"{100 * value:.3g} %"


def _rounded(n: int) -> str:
    """Two significant digits: a forecast is no more certain than that."""
    scale = 10 ** max(0, len(str(n)) - 2)
    return f"{round(n / scale) * scale:,}"
