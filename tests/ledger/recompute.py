"""Recompute the report's numbers from an export with nothing of the product: plain JSON and the standard library.

Run as ``python recompute.py EXPORT.jsonl``; prints what it found as JSON. Definitions are those written in the documentation, coded a second
time on purpose.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from collections import Counter, defaultdict
from pathlib import Path

SOURCES = ["reply", "inject", "by_control", "rescore", "canonical", "text"]
CLASSES = ["exact_tie", "near_tie", "genuine", "unknown"]


def percentile(values, share):
    values = sorted(values)
    if len(values) == 1:
        return values[0]
    at = share * (len(values) - 1)
    low = math.floor(at)
    high = math.ceil(at)
    return values[low] + (values[high] - values[low]) * (at - low)


def spread(values):
    values = list(values)
    if not values:
        return None
    return {
        "median": statistics.median(values),
        "p90": percentile(values, 0.90),
        "p99": percentile(values, 0.99),
        "max": max(values),
        "mean": math.fsum(values) / len(values),
        "count": len(values),
    }


def pairs_of(records):
    for record in records:
        if record["comparison"]["values_incomparable"] is None:
            for choice in record["comparison"]["choices"]:
                for p, q in zip(choice["primary_logprobs"], choice["shadow_logprobs"], strict=True):
                    if p is not None and q is not None:
                        yield p, q


def values(made):
    pairs = list(pairs_of(made))
    if not pairs:
        return {}
    ratios = [abs(q - p) / abs(p) for p, q in pairs if abs(p) >= 1e-3]
    compared = sum(choice["compared"] for record in made for choice in record["comparison"]["choices"])
    return {
        "logprob_error_nats": spread(abs(q - p) for p, q in pairs),
        "relative_error": (spread(ratios) or {}) | {"left_out": len(pairs) - len(ratios)},
        "probability_error": spread(abs(math.exp(q) - math.exp(p)) for p, q in pairs),
        "values_left_out": compared - len(pairs),
    }


def one_mode(records):
    """Numbers that both modes have, and the made comparisons and their choices."""
    made = [record for record in records if record["comparison"]["incomparable"] is None]
    choices = [choice for record in made for choice in record["comparison"]["choices"]]
    found = {
        "requests": len(made),
        "incomparable": dict(
            Counter(r["comparison"]["incomparable"] for r in records if r["comparison"]["incomparable"] is not None)
        ),
        "tokens_compared": sum(choice["compared"] for choice in choices),
    }
    expected = [r["comparison"]["expected_flips"] for r in made if r["comparison"]["expected_flips"] is not None]
    if expected:
        found["expected_flips"] = {"sum": math.fsum(expected), "requests": len(expected)}
    taus = [(r["comparison"]["tau"], r["comparison"]["tau_origin"]) for r in made if r["comparison"]["tau"] is not None]
    if taus:
        found["near_tie"] = dict(zip(("tau_nats", "origin"), taus[-1], strict=True))
        if len({tau for tau, _ in taus}) > 1:
            found["near_tie"]["range_nats"] = [min(taus)[0], max(taus)[0]]
    return found | values(made), made, choices


def in_both(records, floor):
    """The choices of the requests of which the control named tokens, too; all of them where there is no such request."""
    made, named = (
        {r["exchange"]: r["comparison"]["choices"] for r in one if r["comparison"]["incomparable"] is None}
        for one in (records, floor)
    )
    both = [
        exchange for exchange, choices in made.items()
        if any(one["compared"] for one in choices) and any(one["compared"] for one in named.get(exchange, ()))
    ]  # fmt: skip
    return [choice for exchange in both or made for choice in made[exchange]]


def free(records, floor):
    found, made, choices = one_mode(records)
    kinds = Counter()
    for choice in choices:
        if choice["first"] is not None:
            kinds[choice["first"]["kind"]] += 1
        elif choice["by_text"] and choice["first_text_difference"] is not None:
            kinds["unknown"] += 1
    parted = [choice["first"]["index"] for choice in choices if choice["first"] is not None]
    exposed = sum(choice["exposed"] for choice in choices)
    found |= {
        "identical": sum(record["outcome"] == "identical" for record in made),
        "exposed_tokens": exposed,
        "divergences": {kind: kinds[kind] for kind in CLASSES},
    }
    if parted:
        found["first_divergence"] = {"median": statistics.median(parted)}
    held = in_both(records, floor)
    if exposed := sum(choice["exposed"] for choice in held):
        found["hazard_raw"] = 1000 * sum(choice["first"] is not None for choice in held) / exposed
    return found


def forced(records):
    found, made, choices = one_mode(records)
    kinds = Counter(flip["kind"] for choice in choices for flip in choice["flips"])
    agreed = [agree for choice in choices for agree in choice["top1_agree"] if agree is not None]
    pairs = list(pairs_of(made))
    bounds = [bound for choice in choices for bound in choice["kl_lower_bounds"] if bound is not None]
    lengths = [choice["primary_tokens"] for choice in choices]
    if lengths and None not in lengths:
        found["positions"] = {"scored": found["tokens_compared"], "of": sum(lengths)}
    found["flips"] = {kind: kinds[kind] for kind in CLASSES}
    found["flip_positions"] = len(agreed)
    if agreed:
        found["top1_agreement"] = sum(agreed) / len(agreed)
    if bounds:
        found["kl_lower_bound_nats"] = spread(bounds)
    if pairs:
        found["k1"] = math.fsum(p - q for p, q in pairs) / len(pairs)
        found["k3"] = math.fsum(math.expm1(q - p) - (q - p) for p, q in pairs) / len(pairs)
    if len(pairs) > 1 and len({p for p, _ in pairs}) > 1 and len({q for _, q in pairs}) > 1:
        found["correlation"] = statistics.correlation([p for p, _ in pairs], [q for _, q in pairs])
    return found


def latency(records):
    made = [record for record in records if record["shadow_timing"]["end"] is not None]
    found = {}
    for arm in ("primary", "shadow"):
        timings = [record[f"{arm}_timing"] for record in made]
        found[arm] = {
            "first": spread(timing["first_token"] for timing in timings if timing["first_token"] is not None),
            "gaps": spread(gap for timing in timings for gap in timing["gaps"]),
        }
    return found


def recompute(lines):
    arms = defaultdict(lambda: {"free": [], "forced": []})
    best = {}
    for line in lines:
        record = json.loads(line)
        arms[record["shadow"]][record["comparison"]["mode"]].append(record)
        source = record["comparison"]["source"]
        if source is not None:
            exchange = record["exchange"]
            best[exchange] = min(best.get(exchange, len(SOURCES)), SOURCES.index(source))
    controls = [modes["free"] for modes in arms.values() if any(r["role"] == "control" for r in modes["free"])]
    return {
        "tokens_source": {source: sum(rank == n for rank in best.values()) for n, source in enumerate(SOURCES)},
        "shadows": {
            name: {
                "free": free(modes["free"], next((one for one in controls if one is not modes["free"]), [])),
                "forced": forced(modes["forced"]),
                "latency": latency(modes["free"]),
                "findings": dict(
                    Counter(f for records in modes.values() for r in records for f in r["comparison"]["findings"])
                ),
            }
            for name, modes in arms.items()
        },
    }


if __name__ == "__main__":
    with Path(sys.argv[1]).open(encoding="utf-8") as export:
        json.dump(recompute(export), sys.stdout, indent=1)
