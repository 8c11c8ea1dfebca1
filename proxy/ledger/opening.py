"""How the report begins on a terminal: a few plain sentences that say what its numbers say, and why something was not compared.

House rules. Pure. Every sentence is made of the report's numbers alone and claims no more than they do: no verdict, no cause, and without
a control no word on noise but that its floor is missing.
"""

from __future__ import annotations

from collections.abc import Sequence

from proxy.compare.headline import REASONS
from proxy.ledger.cells import Numbers, number, reasons, times, within
from proxy.ledger.inert import inert

_NO_TOKENS = ". A control, or primary.logprobs: inject or rescore, tells the primary's tokens (no_primary_tokens)"
_NO_FLOOR = "there is no noise floor, and a difference may be the engine's own noise"


def opening(report: Numbers) -> list[str]:
    """Return the sentences: for each candidate its answers, what of them noise can explain, its scores, and what was found."""
    shadows = report["shadows"]
    part = "--since" in report.get("command", "")
    if not shadows:
        return [
            "Nothing is recorded of this time."
            if part
            else "Nothing is recorded yet, and no configuration that names a shadow was given."
        ]
    if not any(_made(shadow, mode) for shadow in shadows for mode in shadow["modes"]):
        return ["Nothing of this time has been compared." if part else "Nothing has been compared yet."]
    controls = [shadow for shadow in shadows if shadow["role"] == "control"]
    control = next((one for one in controls if _made(one, "free") or _made(one, "forced")), None)
    candidates = [shadow for shadow in shadows if shadow["role"] != "control"]
    if not any(_made(one, mode) for one in candidates for mode in one["modes"]):
        changed = any(one.get("earlier") or one.get("left_out_between_stacks") for one in candidates)
        when = "since a stack changed: what was compared before is counted below" if changed else "yet"
        return [f"No candidate has been compared {when}.", *(said for one in controls for said in _answers(one, None))]
    return [
        *(sentence for one in candidates for sentence in _answers(one, control)),
        *_without_floor(controls, control),
        *(sentence for one in candidates for sentence in _scores(one, control) + _explained(one)),
        *_known(report),
    ]


def _known(report: Numbers) -> list[str]:
    """Return how many records are known by rules, and that this changes nothing."""
    known = report.get("known")
    if not known or not known["records"]:
        return []
    by = ", ".join(f"{rule['name']} ({number(rule['records'])})" for rule in known["rules"] if rule["records"])
    return [
        f"{number(known['records'])} of {number(report['records'])} records are marked as known, by {by}; they count like all others."
    ]


def not_compared(shadow: Numbers, requests: Numbers | None = None) -> str | None:
    """Return why a shadow has nothing compared in some mode, in one line; None when it has in each."""
    empty = [mode for mode in shadow["modes"] if not _made(shadow, mode)]
    if not empty:
        return None
    told = (
        _NO_TOKENS
        if any("no_primary_tokens" in shadow["modes"][mode].get("incomparable", {}) for mode in empty)
        else ""
    )
    why = {mode: _why(shadow["modes"][mode], requests) for mode in empty}
    where = "" if len(empty) == len(shadow["modes"]) else f" in {' and '.join(empty)} mode"
    if len(set(why.values())) == 1:
        return f"{_named(shadow)}: nothing compared{where}: {why[empty[0]]}{told}"
    each = "; ".join(f"{mode}: {text}" for mode, text in why.items())
    return f"{_named(shadow)}: nothing compared{where}: {each}{told}"


def _why(numbers: Numbers, requests: Numbers | None) -> str:
    parts: list[str] = []
    if numbers.get("compared"):
        parts.append(f"no record is kept of {number(numbers['compared'])} compared")
    if numbers.get("in_flight"):
        parts.append(f"{number(numbers['in_flight'])} in flight")
    parts += [
        f"{number(sum(counted.values()))} {outcome} ({', '.join(reasons(counted))})"
        for outcome in ("shed", "incomparable")
        if (counted := numbers.get(outcome))
    ]
    if parts:
        return ", ".join(parts)
    return "no request was sampled" if requests is not None and not requests["sampled"] else "nothing is recorded"


def _made(shadow: Numbers, mode: str) -> int:
    return int(shadow["modes"].get(mode, {}).get("requests", 0))


def _named(shadow: Numbers) -> str:
    role = "role unknown" if shadow["role"] == "unknown" else shadow["role"]
    name = inert(shadow["name"], 60)
    return name if name == role else f"{name} ({role})"


def _without_floor(controls: Sequence[Numbers], control: Numbers | None) -> list[str]:
    if not controls:
        return [f"No control is configured: {_NO_FLOOR}."]
    return [f"Nothing of the control has been compared yet: {_NO_FLOOR}."] if control is None else []


def _answers(one: Numbers, control: Numbers | None) -> list[str]:
    if not _made(one, "free"):
        return []
    free = one["modes"]["free"]
    said = f"{_named(one)} answered {_same(free)} greedy requests as the primary did{_left(free)}"
    if control is None or not _made(control, "free"):
        return [f"{said}."]
    floor = control["modes"]["free"]
    answered = f"{said}; {_named(control)} answered {_same(floor)}{_left(floor)}."
    return [answered, _floor(inert(one["name"], 60), free, floor)]


def _same(free: Numbers) -> str:
    return f"{free['identical']:,} of {free['requests']:,}"


def _left(free: Numbers) -> str:
    """Return what qualifies "the same": replies cut short, replies compared as text, and those that could not be compared though they are no draws."""
    parts: list[str] = []
    if free["censored"]:
        parts.append(f"{free['censored']:,} more as far as both went")
    if free.get("measured"):
        parts.append(f"{free['measured']:,} gave numbers, whose distance is below")
    if free["by_text"]:
        parts.append(f"{free['by_text']:,} of the {free['requests']:,} compared as text alone")
    if untold := sum(count for reason, count in free["incomparable"].items() if reason != "sampled"):
        parts.append(f"{untold:,} more could not be compared")
    return f" ({', '.join(parts)})" if parts else ""


def _differing(free: Numbers) -> int:
    return int(free["requests"] - free["identical"] - free["censored"] - free.get("measured", 0))


def _floor(name: str, free: Numbers, floor: Numbers) -> str:
    rates: Numbers = free.get("hazard_per_1000_tokens") or {}
    differing, noisy = _differing(free), _differing(floor)
    if not noisy:
        bound = (floor.get("hazard_per_1000_tokens") or {}).get("raw_interval")
        unseen = f" (95 %: at most {number(bound[1])} divergences per 1,000 tokens)" if bound is not None else ""
        shown = f"The control shows no noise in its {floor['requests']:,}{unseen}"
        if not differing:
            return f"{shown}."
        which = (
            f"{name}'s one difference is not" if differing == 1 else f"none of {name}'s {differing:,} differences is"
        )
        return f"{shown}, so {which} explained by noise that was seen."
    itself = f"The control itself differs in {noisy:,} of its {floor['requests']:,}: that is the noise floor"
    if "excess" not in rates:
        return f"{itself}."
    edges = rates.get("interval")
    sized: Numbers = free.get("headline", {}).get("divergences_per_1000_tokens", {})
    said = (
        f"{itself}. {name} parts {number(rates['raw'])} times per 1,000 tokens{_of(sized, 'n')}, the control {number(rates['floor'])} times{_of(sized, 'floor_n')}: "
        f"an excess of {number(rates['excess'])}{within(edges) or _no_interval(sized)}"
    )
    return said + (", an interval that includes 0." if edges is not None and edges[0] <= 0 <= edges[1] else ".")


def _scores(one: Numbers, control: Numbers | None) -> list[str]:
    if not _made(one, "forced"):
        return []
    forced = one["modes"]["forced"]
    floor = control["modes"]["forced"] if control is not None and _made(control, "forced") else {}
    parts: list[str] = []
    if forced.get("flip_positions"):
        beside = f" (control: {_flips(floor)})" if floor.get("flip_positions") else ""
        parts.append(f"prefers another token at {_flips(forced)} positions{beside}")
    if error := forced.get("logprob_error_nats"):
        base = (floor.get("logprob_error_nats") or {}).get("median")
        beside = f" (control: {number(base)})" if base is not None else ""
        parts.append(f"has a median logprob error of {number(error['median'])} nat{beside}")
    if not parts:
        return []
    said = f"Scoring the primary's own tokens, {inert(one['name'], 60)} {' and '.join(parts)}."
    flips: Numbers = forced.get("headline", {}).get("flips_per_1000_positions", {})
    if "excess" not in flips:
        return [said]
    edges = flips.get("interval")
    noise = ", an interval that includes 0" if edges is not None and edges[0] <= 0 <= edges[1] else ""
    return [
        f"{said} Over the control's that is an excess of {number(flips['excess'])} flips per 1,000 positions{within(edges) or _no_interval(flips)}{noise}."
    ]


def _of(one: Numbers, n: str) -> str:
    return f" (n {one[n]:,})" if n in one else ""


def _no_interval(one: Numbers) -> str:
    """Say why the excess stands there without an interval, where that is known."""
    reason = one.get("no_interval", {}).get("interval")
    return f" (no interval: {REASONS.get(reason) or inert(reason, 40)})" if reason is not None else ""


def _flips(forced: Numbers) -> str:
    return f"{sum(forced['flips'].values()):,} of {forced['flip_positions']:,}"


def _explained(one: Numbers) -> list[str]:
    said = []
    for severity, weight in (
        ("explains", "and enough to explain what differs after it"),
        ("functional", "in what a client sees, whatever the tokens say"),
    ):
        found = [finding for finding in one["findings"] if finding["severity"] == severity]
        names = ", ".join(f"{inert(finding['finding'])} ({times(finding['count'])})" for finding in found)
        if found:
            said.append(f"Found for {inert(one['name'], 60)}, {weight}: {names}; see below.")
    return said
