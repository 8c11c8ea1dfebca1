"""Work the verdicts out of an export with nothing of the product: plain JSON and the standard library.

Run as ``python recompute_verdict.py EXPORT.jsonl ALPHA MARGIN ALLOWANCE``; prints what it found as JSON. Definitions are those written in the documentation, coded a second time
on purpose. What came of requests without a record is not in an export; a reason that is not foreseen here ends it.
"""

from __future__ import annotations

import json
import math
import sys
from collections import Counter, defaultdict
from pathlib import Path

USERS_NOTICE = {  # findings that change what users get, the earliest layer first
    "context_truncated": 0, "prompt_double_bos": 0, "prompt_missing_bos": 0, "prompt_template": 0, "prompt_tokens": 0,
    "sampling_defaults": 1, "tokenizer": 2, "channel_split": 3,
    "tool_call_name": 4, "tool_call_arguments": 4, "json_structure": 4, "stop_handling": 4, "finish_reason": 4,
    "output_length": 5,
}  # fmt: skip
NOTHING = {("free", "sampled"), ("forced", "no_forced_scoring"), ("forced", "no_tokens")}
NO_TOKENS = {("forced", "no_primary_tokens"), ("forced", "text_not_canonical")}
SIGNS = {"worse": 1.0, "both": 0.5, "neither": 0.5, "better": 0.0}


def finding(comparison):
    """The earliest finding that changes what users get; not a default that the copy of the request makes the primary's."""

    def counts(name):
        seen = comparison["evidence"].get(name, {})
        if name in {"sampling_defaults", "output_length"} and "neutralised" in seen:
            return seen["neutralised"] is False and comparison["outcome"] != "identical" and None not in seen.values()
        return name in USERS_NOTICE

    return min((name for name in comparison["findings"] if counts(name)), key=USERS_NOTICE.get, default="")


def of_tokens(comparison):
    """What the tokens of one mode say: good, bad, or unknown; None where this mode says nothing, "none" where it has none to say it by."""
    mode, why = comparison["mode"], comparison["incomparable"]
    if (mode, why) in NOTHING:
        return None
    if (mode, why) in NO_TOKENS or (mode == "forced" and comparison["source"] == "canonical"):
        return "none"
    if why == "prompt_tokens":
        return "unknown"
    if why is not None:
        raise SystemExit(f"nothing is known here of a verdict where {mode} is incomparable by {why}")
    choices = comparison["choices"]
    if mode == "forced":
        kinds = {flip["kind"] for choice in choices for flip in choice["flips"]}
        agreed = [agree for choice in choices for agree in choice["top1_agree"]]
        if agreed.count(None) > len(agreed) / 2:
            kinds.add("unknown")
    else:
        kinds = {choice["first"]["kind"] for choice in choices if choice["first"] is not None}
        kinds |= {
            "unknown" for choice in choices if choice["first"] is None and choice["first_text_difference"] is not None
        }
        if comparison["source"] == "by_control" and "genuine" in kinds:
            kinds = {"unknown"}
    return "bad" if "genuine" in kinds else "unknown" if "unknown" in kinds else "good"


def of_pair(arms):
    """The result of one exchange: of the candidate's comparisons by mode and, where there is one, the control's."""
    tokens = [{mode: of_tokens(comparison) for mode, comparison in arm.items()} for arm in arms]
    modes = [mode for mode in ("free", "forced") if all(one.get(mode) is not None for one in tokens)]
    by = next(
        (mode for mode in ("forced", "free") if mode in modes and all(one[mode] != "none" for one in tokens)), None
    )
    if by is None:
        return None
    states = []
    for arm, said in zip(arms, tokens, strict=True):
        found = min(filter(None, map(finding, arm.values())), key=USERS_NOTICE.get, default="")
        if found and USERS_NOTICE[found] <= USERS_NOTICE["sampling_defaults"]:
            states.append(("bad", found))
        elif any(said[mode] == "bad" for mode in modes):
            states.append(("bad", "genuine_flip"))
        elif found:
            states.append(("bad", found))
        else:
            states.append((said[by], "unknown_flip" if said[by] == "unknown" else ""))
    if any(state == "unknown" for state, _ in states):
        return "missing", [why for _, why in states]
    bad = [state == "bad" for state, _ in states]
    if len(bad) == 1:
        return ("worse" if bad[0] else "neither"), [states[0][1]]
    return {(True, False): "worse", (False, True): "better", (True, True): "both", (False, False): "neither"}[tuple(bad)], [why for _, why in states]  # fmt: skip


def evidence(outcomes, bound, *, above):
    """Log of the mean wealth of the bets on a fixed grid that the mean of values in 0..1 is above (below) the bound."""
    worst = bound if above else 1 - bound  # what a bet of everything would be divided by
    odds = worst / (1 - worst)
    shares = [step / 40 for step in range(1, 21)] + [0.7, 0.85, 0.95, 0.98, 0.99]
    shares += [min(0.99, times * odds) for times in (0.25, 0.5, 1.0, 2.0)]
    sign = 1 if above else -1
    logs = [
        sum(n * math.log(1 + share * sign * (value - bound) / worst) for value, n in outcomes.items())
        for share in shares
    ]
    most = max(logs)
    return most + math.log(sum(math.exp(one - most) for one in logs) / len(logs))


def decide(outcomes, terms, bound):
    if not outcomes:
        return "KEEP WATCHING"
    needed = math.log(1 / terms["alpha"])
    if evidence(outcomes, bound, above=True) >= needed:
        return "FAIL"
    return "PASS" if evidence(outcomes, bound, above=False) >= needed else "KEEP WATCHING"


def interval(outcomes, alpha):
    """Ends of the means against which neither side has evidence of ln(2 / alpha)."""
    needed, total = math.log(2 / alpha), sum(outcomes.values())
    mean = sum(value * n for value, n in outcomes.items()) / total
    ends = []
    for end, above in ((0.0, True), (1.0, False)):
        refused, kept = end, mean
        while mean != end and abs(refused - kept) > 1e-9:
            middle = (refused + kept) / 2
            if 0 < middle < 1 and evidence(outcomes, middle, above=above) >= needed:
                refused = middle
            else:
                kept = middle
        ends.append(kept)
    return ends


def worse_than_control(worse, better, steps=20_000):
    """Log of 2^n times the integral of 2 t^x (1 - t)^(n - x) from a half to 1, by Simpson's rule."""
    n = worse + better
    at = [0.5 + 0.5 * step / steps for step in range(steps + 1)]
    weights = [1 if step in (0, steps) else 2 + 2 * (step % 2) for step in range(steps + 1)]
    area = math.fsum(weight * 2 * t**worse * (1 - t) ** better for weight, t in zip(weights, at, strict=True))
    return n * math.log(2) + math.log(area * 0.5 / steps / 3)


def more_needed(outcomes, bound, alpha):
    """The fewest more conversations, in the proportions so far, with which either side would have its evidence."""
    seen = sum(outcomes.values())
    for total in range(seen, 100 * seen + 1):
        scaled = {value: n * total / seen for value, n in outcomes.items()}
        if max(evidence(scaled, bound, above=side) for side in (True, False)) >= math.log(1 / alpha):
            return total - seen
    return None


def verdict(results, terms, *, controlled):
    tally = Counter(result for result, _ in results)
    apart = Counter(bool(whys[0]) and whys[0] != "unknown_flip" for result, whys in results if result == "missing" and whys[1:] == ["unknown_flip"])  # fmt: skip
    signs = SIGNS if controlled else {"worse": 1.0, "neither": 0.0}
    outcomes: Counter[float] = Counter()
    for result, sign in signs.items():
        if tally[result]:
            outcomes[sign] += tally[result]
    bound = (1 + terms["margin"]) / 2 if controlled else terms["allowance"]
    seen, missing = sum(outcomes.values()), tally["missing"]
    spared = outcomes + Counter({0.5: apart[True], 0.0: apart[False]})
    fail, passed = evidence(spared, bound, above=True), evidence(outcomes, bound, above=False)
    state, needed = "KEEP WATCHING", math.log(1 / terms["alpha"])
    if fail >= needed:
        state = "FAIL"
    elif passed >= needed and missing <= (terms["margin"] if controlled else terms["allowance"]) / 2 * (seen + missing):
        state = "PASS"
    found = {
        "state": state,
        "log_e_fail": fail,
        "log_e_pass": passed,
        "log_e_worse_than_control": worse_than_control(tally["worse"], tally["better"]) if controlled else None,
        "conversations": seen,
        "coverage": seen / (seen + missing) if seen + missing else None,
        "floor": "control" if controlled else "assumed",
        "tally": {name: tally[name] for name in ("worse", "neither", "missing", *(("better", "both") if controlled else ()))},
        "worst_case": decide(outcomes + Counter({1.0: missing}), terms, bound),
    }  # fmt: skip
    if seen:
        mean = sum(value * n for value, n in outcomes.items()) / seen
        ends = interval(outcomes, terms["alpha"])
        found |= {
            "excess": 2 * mean - 1 if controlled else mean,
            "excess_interval": [2 * one - 1 for one in ends] if controlled else ends,
            "conversations_needed": 0 if state != "KEEP WATCHING" else more_needed(spared if mean > bound else outcomes, bound, terms["alpha"]),
        }  # fmt: skip
    bad = [
        Counter(whys[place] for result, whys in results if result in side)
        for place, side in enumerate((("worse", "both"), ("better", "both")))
        if place == 0 or controlled
    ]
    found["bad_by"] = {name: [one[name] for one in bad] for name in set().union(*bad)}
    return found


def recompute(lines, terms):
    exchanges = defaultdict(lambda: defaultdict(dict))
    first, candidates, controls = {}, set(), set()
    for line in lines:
        record = json.loads(line)
        exchange = record["exchange"]
        exchanges[exchange][record["shadow"]][record["comparison"]["mode"]] = record["comparison"] | {"outcome": record["outcome"]}  # fmt: skip
        first.setdefault(exchange, (record["time"], record["conversation"], record["prompt"]))
        (controls if record["role"] == "control" else candidates).add(record["shadow"])
    control = next(iter(sorted(controls)), None)
    found = {}
    for candidate in sorted(candidates):
        seen, results = set(), []
        for exchange, (time, *keys) in sorted(first.items(), key=lambda one: one[1][0]):
            arms = [exchanges[exchange][name] for name in (candidate, control) if name is not None]
            result = of_pair(arms) if all(arms) else None
            day = {(key, time // 86400) for key in keys}
            if result is not None and not day & seen:
                seen |= day
                results.append(result)
        found[candidate] = verdict(results, terms, controlled=control is not None)
    return found


if __name__ == "__main__":
    chosen = dict(zip(("alpha", "margin", "allowance"), map(float, sys.argv[2:5]), strict=True))
    with Path(sys.argv[1]).open(encoding="utf-8") as export:
        json.dump(recompute(export, chosen), sys.stdout, indent=1)
