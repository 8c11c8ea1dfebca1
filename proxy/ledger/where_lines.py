"""Where a candidate differs, as sentences on a terminal: from which token on, for how long replies stay the same, in which part of the traffic.

House rules. As ``opening``: made of the report's numbers alone, and no more is claimed than they show. Tokens are counted from 0. What may be everywhere begins nowhere, and
is not said to.
"""

from __future__ import annotations

from collections.abc import Sequence

from proxy.compare.e_bh import needed
from proxy.compare.slices import DIMENSIONS
from proxy.ledger.cells import Numbers, number, share
from proxy.ledger.inert import inert

#: So many named slices are told, strongest first; all are in the JSON.
_MOST = 8
_BEGINS = {"first_difference": "differences", "genuine_flip": "genuine flips", "logprob_error": "logprob errors"}
#: Where a block of positions has the rate of each kind, and in what.
_RATES = {
    "first_difference": ("hazard_per_1000_tokens", "differences per 1,000 tokens"),
    "genuine_flip": ("genuine_flips_per_1000", "genuine flips per 1,000 tokens"),
    "logprob_error": ("error_nats", "mean logprob error in nats"),
}
_YES_NO = {
    "tools": ("the request offers tools", "the request offers no tools"),
    "stream": ("the reply is streamed", "the reply is not streamed"),
    "several_choices": ("several choices are asked for", "one choice is asked for"),
    "logprobs_asked": ("the client asks for logprobs", "the client asks for no logprobs"),
}
_TOKENS = {"prompt_tokens": "the prompt has {} tokens", "output_tokens": "the primary's reply has {} tokens"}
_TEMPERATURE = {"0": "is 0", "0-1": "is above 0 and below 1", "1": "is 1", ">1": "is above 1"}
_CACHED = {
    "none": "the primary had nothing of the prompt cached",
    "some": "the primary had less than half of the prompt cached",
    "most": "the primary had half of the prompt cached, or more",
}


def where_lines(shadow: Numbers) -> list[str]:
    """Return what is to be said of one shadow; nothing of a control."""
    if shadow["role"] == "control":
        return []
    said = [
        line for mode in shadow["modes"].values() for line in _onset(mode.get("onset"), mode.get("by_position", []))
    ]
    survival = shadow["modes"].get("free", {}).get("survival")
    said += _median(survival) if survival else []
    alpha = (shadow.get("verdict") or {}).get("alpha")
    return said + _slices(shadow.get("slices") or [], alpha)


def _onset(found: Numbers | None, blocks: Sequence[Numbers]) -> list[str]:
    if found is None or found["between"][0] == 0:
        return []
    low, high = found["between"]
    place = f"{found['position']:,}" + (f" (likeliest; between {low:,} and {high:,})" if low < high else "")
    evidence = f"log e {_evidence(found['log_e'])}"
    if found["floor"] == "assumed":
        counts = f"{found['events_from']:,} from there on, {found['events_before']:,} before"
        line = f"{_BEGINS[found['by']]} come faster from token {place} on: {counts} ({evidence}; no control says whether they do on any stack)"
    else:
        counts = f"{found['candidate_only']:,} conversations against the control's {found['control_only']:,}"
        line = (
            f"{_BEGINS[found['by']]} beyond the noise floor begin at token {place}: {counts} from there on ({evidence})"
        )
    return [line, *_along(found["by"], blocks)]


def _along(by: str, blocks: Sequence[Numbers]) -> list[str]:
    """Return the rates by position in one line, the control's in brackets."""
    key, unit = _RATES[by]
    known = [(block, block[key]) for block in blocks if block.get(key)]
    parts = [
        f"{_positions(block)}: {number(rates['raw'])}" + (f" ({number(rates['floor'])})" if "floor" in rates else "")
        for block, rates in known
    ]
    beside = ", the control's in brackets" if any("floor" in rates for _, rates in known) else ""
    return [f"{unit} by position{beside}: " + ", ".join(parts)] if parts else []


def _positions(block: Numbers) -> str:
    return f"{block['from']:,}" if block["from"] == block["to"] else f"{block['from']:,}-{block['to']:,}"


def _median(survival: Numbers) -> list[str]:
    medians = survival["median"]
    own = next((name for name in survival["streams"] if name != "control"), None)
    if own not in medians:
        return []
    line = f"half of its {survival['streams'][own]:,} replies have parted after {_after(medians[own])} tokens"
    if "control" not in survival["streams"]:
        return [line]
    floor = medians.get("control")
    beside = f"after {_after(floor)}" if floor else "not half of them"
    return [f"{line}; of the control's {survival['streams']['control']:,} {beside}"]


def _after(median: Numbers) -> str:
    if (edges := median.get("interval")) is None:
        return f"{median['position']:,}"
    low, high = edges
    if high is None:
        return f"{median['position']:,}" + (f" (95 %: at least {low:,})" if low is not None else "")
    return f"{median['position']:,} (95 %: {low:,} to {high:,})"


def _slices(found: Sequence[Numbers], alpha: float | None) -> list[str]:
    named = [one for one in found if one["named"]]
    if named:
        more = [f"and {len(named) - _MOST:,} more parts of the traffic, in the JSON"] if len(named) > _MOST else []
        return [*map(_worse, named[:_MOST]), *more]
    if not found or found[0]["log_e"] <= 0:
        return []
    first = found[0]
    enough = "" if alpha is None else f"; it takes {_evidence(needed(len(found), alpha))}"
    line = f"none of the {len(found):,} parts of the traffic stands out; nearest to it is where {_place(first)}"
    return [f"{line}: {_counts(first)} (log e {_evidence(first['log_e'])}{enough})"]


def _worse(one: Numbers) -> str:
    return f"worse where {_place(one)}: {_counts(one)} (log e {_evidence(one['log_e'])})"


def _counts(one: Numbers) -> str:
    bad = f"{share(one['candidate_bad'], one['conversations'])} conversations bad"
    if "control_bad" not in one:
        return bad
    return f"{bad}, the control's {share(one['control_bad'], one['conversations'])}"


def _place(one: Numbers) -> str:
    """Say a slice in words; whatever a client may have made up is inert."""
    dimension, value = one["dimension"], inert(one["value"], 60)
    if dimension in _YES_NO:
        return _YES_NO[dimension][value != "yes"]
    if dimension in _TOKENS:
        return _TOKENS[dimension].format(_range(value))
    match dimension:
        case "in_flight":
            return f"{_range(value)} requests are in flight"
        case "temperature":
            return f"the temperature {_TEMPERATURE.get(value, value)}"
        case "cached_tokens":
            return _CACHED.get(value, value)
        case _:
            return f"the {dimension if dimension in DIMENSIONS else 'cut'} is {value}"


def _range(value: str) -> str:
    if value.startswith(">"):
        return f"more than {int(value[1:]):,}"
    low, high = value.split("-")
    return f"up to {int(high):,}" if low == "0" else f"{int(low):,} to {int(high):,}"


def _evidence(value: float) -> str:
    return number(round(value, 1))
