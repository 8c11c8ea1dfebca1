"""The rows of the report's tables: what each is called, what it shows, and a line of legend for those that few people know.

House rules. Labels fit 25 columns, so that two shadows fit a terminal of 80. A note explains one row and is printed with it only. No
number is computed here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from proxy.ledger import cells
from proxy.ledger.cells import Cell, Numbers, number


class Row(NamedTuple):
    """One row. ``quiet``: left out where every shadow has 0."""

    label: str
    cell: Cell
    note: str = ""
    quiet: bool = False


def _classes(key: str) -> tuple[Row, ...]:
    kinds = ("exact_tie", "near_tie", "genuine", "unknown")
    return tuple(Row(f"  {kind.replace('_', ' ')}", cells.at(key, kind)) for kind in kinds)


def _called(tools: Numbers | None) -> str:
    if not tools:
        return cells.ABSENT
    called = tools["called"]
    return f"{called['both']:,} / {called['primary'] + called['shadow']:,} / {called['neither']:,}"


def _ordered(kind: str) -> Cell:
    def cell(numbers: Numbers) -> str:
        block = numbers.get(kind)
        return cells.share(block["order_mismatches"], block["requests"]) if block else cells.ABSENT

    return cell


_VALUES = (
    Row("logprob error: median", cells.at("logprob_error_nats", "median"),
        "logprob error: how far the shadow's logprob of the same token is from the primary's, in nats, either way"),
    Row("  p99", cells.at("logprob_error_nats", "p99")),
    Row("  max", cells.at("logprob_error_nats", "max")),
    Row("relative error: median", cells.at("relative_error", "median")),
    Row("  p99", cells.at("relative_error", "p99")),
    Row("  left out", cells.at("relative_error", "left_out"),
        "left out of the relative error: tokens nearly certain to the primary (logprob within 0.001 of 0), where it says nothing", quiet=True),
)  # fmt: skip
_ANYTIME = (
    Row("at any time: genuine", cells.anytime("genuine_share"),
        "at any time: intervals that hold however often one looks. n: conversations, one exchange of each. genuine: the share of them with a genuine difference"),
    Row("  tokens that must differ", cells.anytime("tv_mean"),
        "must differ: at least this share of tokens would differ between two draws (total variation, a conversation's mean)"),
    Row("  p99 of logprob error", cells.anytime("p99_abs_d")),
)  # fmt: skip
_ENDS = (
    Row("incomparable", cells.listed("incomparable"),
        "incomparable: not compared, and never called different. Not greedy: the temperature is above 0, and two random draws say "
        "nothing about each other; scoring (forced) can compare those"),
    Row("shed", cells.listed("shed"), "shed: given up, to keep within the limits or because a process died", quiet=True),
    Row("in flight", cells.at("in_flight"), quiet=True),
)  # fmt: skip

_OUTPUTS = (
    Row("tools offered", cells.at("tools", "offered"),
        "tools offered: replies that came to their own end; of the arguments, those that fit the tool's own schema"),
    Row("  both / one / none call", lambda numbers: _called(numbers.get("tools"))),
    Row("  trigger F1", cells.at("tools", "trigger_f1"),
        "trigger F1: whether the shadow calls a tool exactly when the primary does; 1 when it always does"),
    Row("  valid arguments", cells.worth("tools", "calls")),
    Row("JSON replies that fit", cells.worth("json"), "fit: one JSON value, of the schema that the request asks for where it names one"),
    Row("reasoning length ratio", cells.at("reasoning", "length_ratio", "median"),
        "reasoning length ratio: the shadow's reasoning for each code point of the primary's, the median"),
    Row("refusals", cells.several("refusals", "both", "primary", "shadow"), "refusals: by both / by the primary alone / by the shadow alone"),
    Row("embeddings compared", cells.at("embeddings", "vectors")),
    Row("  cosine distance: median", cells.at("embeddings", "cosine_distance", "median"),
        "cosine distance: 1 minus the cosine of the angle between both arms' vectors of one input"),
    Row("    max", cells.at("embeddings", "cosine_distance", "max")),
    Row("  largest element error", cells.at("embeddings", "element_error", "max")),
    *(
        row
        for kind in ("rerank", "score")
        for row in (
            Row(f"{kind}: other order", _ordered(kind),
                "other order: replies whose scores give the items another order, or that list other items"),
            Row("  score error: median", cells.at(kind, "score_error", "median")),
            Row("    max", cells.at(kind, "score_error", "max")),
        )
    ),
)  # fmt: skip

FREE = (
    Row("requests compared", cells.at("requests")),
    Row("  identical replies", cells.counted("identical", "requests")),
    Row("  same until cut", cells.at("censored"),
        "same until cut: nothing differed until one reply was cut or hit a limit", quiet=True),
    Row("  numbers that differ", cells.at("measured"),
        "numbers that differ: embeddings, and scores that give the same order: how far apart is below", quiet=True),
    Row("  as text alone", cells.at("by_text"),
        "as text alone (by_text): one side named no tokens, so the texts were compared; such a difference has no position", quiet=True),
    Row("tokens compared", cells.at("tokens_compared")),
    Row("divergences", lambda numbers: number(sum(numbers["divergences"].values())),
        "divergence: the first token (or text) at which the replies differ; nothing after it is compared"),
    *_classes("divergences"),
    Row("first one: median token", cells.at("first_divergence", "median")),
    Row("hazard per 1,000 tokens", cells.hazard("raw", "raw_interval"),
        "hazard: divergences for each 1,000 tokens at which there could have been one. Where none was seen the interval ends at what "
        "would stay unseen once in 20 times"),
    Row("  noise floor", cells.hazard("floor", "floor_interval")),
    Row("  excess over the floor", cells.hazard("excess", "interval")),
    Row("expected of noise", cells.expected,
        "expected of noise: how many noise like the control's makes at the primary's gaps; a conversation is judged by the others' noise"),
    Row("  beyond noise", cells.beyond_noise),
    *_VALUES,
    *_ANYTIME,
    *_OUTPUTS,
    *_ENDS,
)  # fmt: skip

FORCED = (
    Row("requests compared", cells.at("requests")),
    Row("tokens compared", cells.positions),
    Row("flips", cells.of("flips", "flip_positions"),
        "flip: the shadow's most likely token is not the primary's, among the positions where both are known; of canonical tokens none "
        "is claimed"),
    *_classes("flips"),
    Row("expected of noise", cells.expected,
        "expected of noise: how many noise like the control's makes at the primary's gaps; a conversation is judged by the others' noise"),
    Row("  beyond noise", cells.beyond_noise),
    *_VALUES,
    Row("KL at least: mean, nat", cells.at("kl_lower_bound_nats", "mean"),
        "KL at least: a lower bound of the distance of the whole distributions, from the tokens that both lists show"),
    Row("k1 / k3", cells.estimates,
        "k1 / k3: means of -d and exp(d) - 1 - d, d the shadow's logprob less the primary's. They estimate the KL only of tokens drawn at "
        "temperature 1 without a filter; else they are scores, to be held against the control's"),
    Row("correlation of logprobs", cells.correlation),
    *_ANYTIME,
    *_ENDS,
)  # fmt: skip

TIES = (
    Row("ties the primary reports", cells.of("exact", "positions"),
        "tie: tokens at the top of a list with exactly the same logprob; low / high / other: which token id of them was picked"),
    Row("  picks low / high / other", cells.several("primary_pick", "lowest", "highest", "other")),
    Row("ties the shadow reports", cells.of("shadow_exact", "shadow_positions")),
    Row("  picks low / high / other", cells.several("shadow_pick", "lowest", "highest", "other")),
    Row("tie-break mismatches", cells.at("tie_break_mismatches"),
        "tie-break mismatch: both arms see the tie and pick differently: another rule, not another distribution"),
)  # fmt: skip

#: Keys of a latency block, and what they are called.
LATENCY = (
    ("time_to_first_token_seconds", "first token: median / p99"),
    ("inter_token_seconds", "between: median / p99"),
)


def near_tie(columns: Sequence[tuple[str, Numbers]]) -> str:
    """Return the legend of the four classes, with the thresholds that the shadows' near ties were judged by."""
    found = {}
    for name, numbers in columns:
        if (judged := numbers.get("near_tie")) is not None:
            found[name] = _threshold(judged)
    if len(set(found.values())) > 1:
        gap = "; ".join(f"{name} {one}" for name, one in found.items())
    else:
        gap = next(iter(found.values()), "")
    return (
        "exact tie: an arm gives both tokens the same logprob. near tie: the primary's gap between them is "
        + (f"<= {gap}" if gap else "small")
        + ". genuine: the gap is wider. unknown: the primary's list does not tell"
    )


def _threshold(judged: Numbers) -> str:
    origin, moved = judged.get("origin") or "origin unknown", judged.get("range_nats")
    changed = "" if moved is None else f"; {number(moved[0])} to {number(moved[1])} over these records"
    return f"{number(judged['tau_nats'])} nat ({origin}{changed})"
