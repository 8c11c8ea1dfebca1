"""The report's part on ties and on flips beyond noise: from a shadow's records, and the control's, to what stands in its blocks.

House rules. Pure. Numbers come from ``proxy.compare``; here they are put together with what the footprints say, and in plain sentences for a terminal, which claim no more than
the numbers do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from proxy.compare.comparison import Mode
from proxy.compare.expected_flips import summarise_expected
from proxy.compare.flip_gaps import gather
from proxy.compare.summary import summarise_ties
from proxy.compare.tie_exposure import Seen, agrees
from proxy.compare.tie_policy import summarise_policy
from proxy.ledger.cells import Numbers, number, times, within
from proxy.ledger.inert import inert
from proxy.ledger.segments import Gathered

_FORMATS = {"bf16": "bf16", "fp16": "fp16", "fp32": "fp32", "rounded": "rounded to a few digits, or scaled"}


def ties(free: Gathered, forced: Gathered, footprints: tuple[Mapping[str, Any], Mapping[str, Any]]) -> dict[str, Any]:
    """Return ``shadows[].ties``; ``footprints`` are the primary's and the shadow's, of these records' stacks."""
    summary = summarise_ties(free.comparisons, forced.comparisons)
    modes = {Mode.FREE.value: _seen(free), Mode.FORCED.value: _seen(forced)}
    policy = summarise_policy(modes[summary["mode"]], modes[summary["shadow_mode"]], modes[Mode.FREE.value])
    for arm, footprint in zip(("primary", "shadow"), footprints, strict=True):
        logits = policy["logits"][arm]
        logits["footprint"] = {name: footprint.get(name) for name in ("logit_step", "dtype")}
        logits["agrees"] = agrees(logits["says"], footprint)
    return summary | policy


def _seen(one: Gathered) -> Seen:
    return Seen(one.comparisons, one.conversations, one.prompts, one.loads)


def beyond_noise(summary: dict[str, Any] | None, own: Gathered, control: Gathered | None) -> None:
    """Add to ``expected_flips`` of a mode's block what the control's noise makes of a shadow's flips; nothing without a control. ``control`` may be the shadow itself."""
    if summary is None or control is None:
        return
    noise = gather(control.comparisons, control.conversations)
    arm = noise if control is own else gather(own.comparisons, own.conversations)
    if found := summarise_expected(arm, noise):
        summary["expected_flips"] = summary.get("expected_flips", {}) | found


def sentences(report: Numbers) -> list[str]:
    """Return what the ties and the flips say, a sentence each; none of what was not seen."""
    shadows = report["shadows"]
    said = list(dict.fromkeys(_primary(one["ties"]) for one in _widest(shadows)))
    said += [line for one in shadows for line in _shadow(one)]
    said += [_noise(one, mode, numbers) for one in shadows for mode, numbers in one["modes"].items()]
    return [line for line in said if line]


def _widest(shadows: list[Numbers]) -> list[Numbers]:
    """Return the shadow beside which most of the primary's picks were seen: the same ties stand in each shadow's block."""
    picks = [one for one in shadows if one["ties"].get("policy", {}).get("primary", {}).get("picks")]
    return sorted(picks, key=lambda one: -int(one["ties"]["policy"]["primary"]["picks"]))[:1]


def _primary(ties: Numbers) -> str:
    return " ".join(
        part
        for part in (
            _rule("the primary", ties["policy"]["primary"]),
            _again(ties["repeats"]["primary"]),
            _mates(ties["batch_mates"]),
            _format("the primary", ties["logits"]["primary"], ties["exposure"]["primary"]),
        )
        if part
    )


def _shadow(one: Numbers) -> list[str]:
    ties, name = one["ties"], inert(one["name"], 60)
    if "policy" not in ties:
        return []
    parts = (
        _rule(name, ties["policy"]["shadow"]),
        _again(ties["repeats"]["shadow"]),
        _format(name, ties["logits"]["shadow"], ties["exposure"]["shadow"]),
    )
    return [" ".join(part for part in parts if part)]


def _rule(name: str, policy: Numbers) -> str:
    picks = policy["picks"]
    if not picks:
        return ""
    which = max(("lowest", "highest", "other"), key=lambda one: float(policy[one]["share"]))
    counted = round(policy[which]["share"] * picks)
    word = "a middle" if which == "other" else f"the {which}"
    said = f"{name[0].upper()}{name[1:]} picks {word} id in {counted:,} of {picks:,} exact ties"
    if "interval" not in policy[which]:
        return f"{said}."
    low, high = policy[which]["interval"]
    beside = f"95 %: {100 * low:.0f} to {100 * high:.0f} %, {policy['conversations']:,} conversations"
    rule = {
        "lowest": "its rule is the lowest id",
        "highest": "its rule is the highest id",
        "mixed": "it has no rule by id",
    }.get(policy["rule"], "too few conversations to call that a rule")
    if policy["rule"] == "highest" and not policy["of_three_or_more"]:
        rule += ", or the other of two: no tie was of three"
    return f"{said} ({beside}): {rule}."


def _again(repeats: Numbers) -> str:
    if not repeats["repeats"]:
        return ""
    return (
        f"It picked the same again in {100 * repeats['share']:.0f} % of {repeats['repeats']:,} repeats of {repeats['ties']:,} ties "
        f"(95 %: {100 * repeats['interval'][0]:.0f} to {100 * repeats['interval'][1]:.0f} %)."
    )


def _mates(mates: Numbers) -> str:
    said = []
    for what, verb, counted in (("picks", "the lowest", "lowest"), ("repeats", "the same again", "agreed")):
        block = mates[what]
        if block["says"] == "depends":
            alone, others = block["alone"], block["with_others"]
            said.append(
                f"That depends on what else runs: {verb} in {alone[counted]:,} of {alone['n']:,} alone and in {others[counted]:,} of {others['n']:,} "
                f"with others (log evidence {number(block['log_e'])})."
            )
    return " ".join(said)


def _format(name: str, logits: Numbers, exposure: Numbers) -> str:
    """Say what the ties say of the logits, where the footprint says otherwise."""
    if logits["agrees"] is not False:
        return ""
    stated = logits["footprint"]["logit_step"] or logits["footprint"]["dtype"]
    step = f" and steps of {number(logits['step_nats'])} nat" if logits["step_nats"] is not None else ""
    share = f"Ties at {100 * exposure.get('share', 0.0):.1f} % of {exposure['positions']:,} positions{step}"
    return f"{share} say that {name}'s logits are {_FORMATS[logits['says']]}; its footprint says {inert(stated, 40)}."


def _noise(one: Numbers, mode: str, numbers: Numbers) -> str:
    found = numbers.get("expected_flips") or {}
    if "observed" not in found:
        return ""
    name, control = inert(one["name"], 60), one["role"] == "control"
    if control and not found["observed"] and not found["expected"]:
        return ""  # the report begins with that
    verb = "parts" if mode == Mode.FREE.value else "flips"
    whose = "its own noise gives" if control else "the control's noise gives"
    said = (
        f"{mode}: {name} {verb} {times(found['observed'])} in {found['n']:,} positions where {whose} {number(found['expected'])}: "
        f"an excess of {number(found['excess'])}{within(found.get('interval'))}"
    )
    if control:
        return said + _model(found)
    if "interval" not in found:
        return f"{said}; too few conversations to say more."
    low, high = found["interval"]
    if low > 0:
        return f"{said}: more than noise like the control's makes{_own(found)}."
    return said + (": less than noise like the control's makes." if high < 0 else ": no sign of a fault beyond noise.")


def _own(found: Numbers) -> str:
    """Say whether the arm's own noise accounts for what the control's does not."""
    own = found.get("own_noise")
    if own is None:
        return ""
    low, high = own["interval"]
    expected = f"{number(own['expected'])}, at {number(own['s_nats'])} nat"
    if low > 0:
        return f", and more than its own does ({expected})"
    if high < 0:
        return f", and its own is not normal, for then there would be more ({expected})"
    return f"; its own accounts for them ({expected}): no sign of another fault"


def _model(found: Numbers) -> str:
    """Say where the normal model does not fit the control."""
    tails = found.get("tails")
    heavy = ". Its noise has heavier tails than the normal" if tails is not None and tails["says"] == "heavier" else "."
    low, high = found["normal"].get("interval", (0.0, 0.0))
    if low <= 0 <= high:
        return heavy if heavy == "." else f"{heavy}."
    return f"{heavy.rstrip('.')}; normal noise of that size would give {number(found['normal']['expected'])}."
