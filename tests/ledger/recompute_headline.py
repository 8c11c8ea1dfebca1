"""Work headline numbers, hazards, survival and ties out of an export with nothing of the product: plain JSON and the standard library.

Run as ``python recompute_headline.py EXPORT.jsonl``; prints what it found as JSON. Definitions are those written in the documentation, coded a second time on purpose. Quantiles are
exact here; the report's are at most 1/32 from them. Of every shadow the records of the pair of stacks that was compared last.
"""

from __future__ import annotations

import itertools
import json
import math
import statistics
import sys
from collections import Counter, defaultdict
from pathlib import Path

CLASSES = ("exact_tie", "near_tie", "genuine", "unknown")
EDGES = [0, 1, *(2**power for power in range(4, 30))]


def quantile(values, share):
    values = sorted(values)
    at = share * (len(values) - 1)
    low = math.floor(at)
    return values[low] + (values[min(low + 1, len(values) - 1)] - values[low]) * (at - low)


def tokens(comparison):
    return sum(choice["compared"] for choice in comparison["choices"])


def held(own, floor):
    """Both arms' comparisons of the same requests, and of which exchanges the tokens of either count. Without a floor all of the arm's."""
    shared = [one for one in own if one in floor]
    if not shared:
        return own, {}, set(own), set()
    named = {one for one in shared if tokens(own[one]) and tokens(floor[one])}
    return {one: own[one] for one in shared}, {one: floor[one] for one in shared}, named or set(shared), named


def pairs(comparisons):
    for one in comparisons:
        if one["values_incomparable"] is None:
            for choice in one["choices"]:
                for p, q in zip(choice["primary_logprobs"], choice["shadow_logprobs"], strict=True):
                    if p is not None and q is not None:
                        yield p, q


def column(comparisons, name):
    return [value for one in comparisons for choice in one["choices"] for value in choice[name] if value is not None]


def positions_of(comparison):
    """Positions that could show a flip: those at which both first choices are known."""
    return sum(agree is not None for choice in comparison["choices"] for agree in choice["top1_agree"])


def put(found, name, value, n):
    found[name] = {"raw": value, "n": n}


def probability(logprob):
    """No more than 1, whatever an engine's rounding makes of it."""
    return math.exp(min(0.0, logprob))


def of_values(comparisons):
    found = {}
    both = list(pairs(comparisons))
    if both:
        errors = [abs(q - p) for p, q in both]
        ratios = [abs(q - p) / abs(p) for p, q in both if abs(p) >= 1e-3]
        n = len(both)
        put(found, "mean_error_nats", math.fsum(errors) / n, n)
        for name, share in (("median", 0.5), ("p90", 0.9), ("p99", 0.99)):
            put(found, f"{name}_error_nats", quantile(errors, share), n)
        for edge in (0.01, 0.1, 1, 5):
            put(found, f"error_above_{edge}_nats_share", sum(one > edge for one in errors) / n, n)
        mean = math.fsum(q - p for p, q in both) / n
        put(found, "mean_difference_nats", mean, n)
        put(found, "k1_nats", -mean, n)
        put(found, "k3_nats", math.fsum(math.expm1(q - p) - (q - p) for p, q in both) / n, n)
        put(found, "mean_probability_error", math.fsum(abs(probability(q) - probability(p)) for p, q in both) / n, n)
        if ratios:
            put(found, "median_relative_error", quantile(ratios, 0.5), len(ratios))
            put(found, "p99_relative_error", quantile(ratios, 0.99), len(ratios))
        if len({p for p, _ in both}) > 1 and len({q for _, q in both}) > 1:
            put(found, "correlation", statistics.correlation([p for p, _ in both], [q for _, q in both]), n)
    for name, key in (("kl_lower_bound_nats", "kl_lower_bounds"), ("tv_lower_bound", "tv_lower_bounds")):
        if bounds := column(comparisons, key):
            put(found, f"mean_{name}", math.fsum(bounds) / len(bounds), len(bounds))
            put(found, f"p99_{name}", quantile(bounds, 0.99), len(bounds))
    if ranks := column(comparisons, "ranks"):
        put(found, "rank_1_share", ranks.count(1) / len(ranks), len(ranks))
        put(found, "p99_rank", quantile(ranks, 0.99), len(ranks))
    return found


def of_free(whole, named):
    """Greedy replies: how many are the same, and first differences for each token at which there could be one."""
    found = {}
    if whole:
        same = sum(one["outcome"] == "identical" for one in whole.values())
        put(found, "identical_share", same / len(whole), len(whole))
    choices = [choice for key in whole if key in named for choice in whole[key]["choices"]]
    if exposed := sum(choice["exposed"] for choice in choices):
        kinds = Counter(choice["first"]["kind"] for choice in choices if choice["first"] is not None)
        put(found, "divergences_per_1000_tokens", 1000 * kinds.total() / exposed, exposed)
        for kind in CLASSES:
            put(found, f"{kind}_divergences_per_1000_tokens", 1000 * kinds[kind] / exposed, exposed)
    return found | of_values([whole[key] for key in whole if key in named])


def of_forced(whole, named):
    made = [whole[key] for key in whole if key in named]
    found = {}
    if n := sum(map(positions_of, made)):
        kinds = Counter(flip["kind"] for one in made for choice in one["choices"] for flip in choice["flips"])
        put(found, "flips_per_1000_positions", 1000 * kinds.total() / n, n)
        for kind in CLASSES:
            put(found, f"{kind}_flips_per_1000_positions", 1000 * kinds[kind] / n, n)
        differing = sum(choice["top1_agree"].count(False) for one in made for choice in one["choices"])
        put(found, "top1_agreement_share", 1 - differing / n, n)
    expected = [(one["expected_flips"], positions_of(one)) for one in made if one["expected_flips"] is not None]
    if n := sum(n for _, n in expected):
        put(found, "expected_flips_per_1000_positions", 1000 * math.fsum(one for one, _ in expected) / n, n)
    return found | of_values(made)


def lives(whole, named):
    """Of each reply how many tokens were watched, and whether it parted at the last of them."""
    choices = [choice for key in whole if key in named for choice in whole[key]["choices"]]
    return [(one["exposed"], one["first"] is not None) for one in choices if one["exposed"]]


def kaplan_meier(watched, position):
    share = 1.0
    for end in range(1, position + 1):
        parted = sum(one == (end, True) for one in watched)
        if parted:
            share *= 1 - parted / sum(length >= end for length, _ in watched)
    return share if share < 1e-12 or any(length >= position for length, _ in watched) else None


def ranges(watched):
    """Hazard for each range of positions: 0, 1 to 15, 16 to 31, 32 to 63 ..."""
    found = []
    for start, end in itertools.pairwise(EDGES):
        exposed = sum(max(0, min(length, end) - start) for length, _ in watched)
        if not exposed:
            break
        events = sum(parted and start < length <= end for length, parted in watched)
        found.append({"from": start, "to": end - 1, "exposed": exposed, "events": events})
    return found


def ties(made):
    """Exact ties of both arms in what was answered freely, and which of the tied tokens each took."""
    found = {}
    for arm in ("primary", "shadow"):
        seen = [tie for one in made for choice in one["choices"] for tie in choice["ties"] if tie["arm"] == arm]
        found[arm] = {"n": len(seen), "picks": dict(Counter(tie["pick"] for tie in seen if tie["pick"] is not None))}
    firsts = [choice["first"] for one in made for choice in one["choices"] if choice["first"] is not None]
    return found | {"mismatches": sum(one["tie_break_mismatch"] for one in firsts)}


def beside(own, floor):
    """Each number of an arm with the control's and the difference."""
    for name, one in own.items():
        if name in floor:
            one |= {"floor": floor[name]["raw"], "floor_n": floor[name]["n"], "excess": one["raw"] - floor[name]["raw"]}
    return own


def recompute(lines):
    made = defaultdict(lambda: {"free": {}, "forced": {}})
    pair, controls = {}, []
    records = [json.loads(line) for line in lines]
    for record in records:
        pair[record["shadow"]] = (record["primary_footprint"], record["shadow_footprint"])
        if record["role"] == "control" and record["shadow"] not in controls:
            controls.append(record["shadow"])
    for record in records:
        comparison = record["comparison"] | {"outcome": record["outcome"]}
        latest = (record["primary_footprint"], record["shadow_footprint"]) == pair[record["shadow"]]
        if latest and comparison["incomparable"] is None:
            made[record["shadow"]][comparison["mode"]][record["exchange"]] = comparison
    found = {}
    for name in pair:
        found[name] = {}
        for mode, numbers in (("free", of_free), ("forced", of_forced)):
            control = next((one for one in controls if made[one][mode]), None)
            own, floor, named, floored = held(
                made[name][mode], made[control][mode] if control not in (None, name) else {}
            )
            found[name][mode] = {"headline": beside(numbers(own, named), numbers(floor, floored))}
            if mode == "free":
                watched = lives(own, named)
                longest = max((length for length, _ in watched), default=0)
                found[name][mode] |= {
                    "by_position": ranges(watched),
                    "survival": {position: kaplan_meier(watched, position) for position in range(1, longest + 1)},
                    "ties": ties(made[name][mode].values()),
                }
    return found


if __name__ == "__main__":
    with Path(sys.argv[1]).open(encoding="utf-8") as export:
        json.dump(recompute(export), sys.stdout, indent=1)
