"""Many comparisons of one shadow in one mode, as the numbers of the report (schema parhelion.report/1).

House rules. One pass, plain numbers out, JSON-ready. A quantity that was not measured is absent, never 0; counts of things
that were looked for and not found are 0. ``requests`` are comparisons that could be made; those that could not are in
``incomparable`` by reason. A request with several choices is one request; divergences, flips and tokens are counted per
choice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import fsum
from typing import Any, cast

from proxy.compare import distance
from proxy.compare.comparison import ChoiceComparison, Comparison, FlipClass, Mode, Pick
from proxy.compare.hazard import Exposure, gathered, rates
from proxy.compare.quantile import distribution, quantile
from proxy.compare.summary_outputs import summarise_outputs

Summary = dict[str, Any]
_Ties = tuple[int, int, dict[str, int]]  # positions, ties, picks


def summarise_free(
    comparisons: Sequence[Comparison],
    *,
    conversations: Sequence[str] | None = None,
    control: Sequence[Comparison] = (),
    control_conversations: Sequence[str] | None = None,
) -> Summary:
    """Summarise a shadow's ``free`` comparisons; ``control`` are the control's over the same time, for the noise floor.

    ``conversations`` (one key per comparison, and the control's likewise) allow intervals: ``raw_interval``,
    ``floor_interval``, and ``interval`` of the excess (of the raw hazard without a control). ``identical`` counts requests all of whose choices are. Differences of text alone are
    divergences of class unknown without a position, and give no exposure.
    """
    made = [one for one in comparisons if one.incomparable is None]
    choices = [choice for one in made for choice in one.choices]
    diverged = [choice for choice in choices if choice.diverged]
    summary: Summary = {
        "requests": len(made),
        "incomparable": _reasons(comparisons),
        "identical": sum(one.outcome == "identical" for one in made),
        "censored": sum(one.outcome == "censored" for one in made),
        "measured": sum(one.outcome == "measured" for one in made),
        "by_text": sum(any(choice.by_text for choice in one.choices) for one in made),
        "tokens_compared": sum(choice.compared for choice in choices),
        "exposed_tokens": sum(choice.exposed for choice in choices),
        "divergences": _classes(
            FlipClass.UNKNOWN if choice.first is None else choice.first.kind for choice in diverged
        ),
    }
    first = sorted(choice.first.index for choice in choices if choice.first is not None)
    if first:
        summary["first_divergence"] = {"median": quantile(first, 0.5)}
    parted = hazard(comparisons, conversations, control, control_conversations)
    if parted:
        summary["hazard_per_1000_tokens"] = parted
    return summary | _near_tie(made) | _expected(made) | _values(made) | summarise_outputs(made)


def summarise_forced(comparisons: Sequence[Comparison]) -> Summary:
    """Summarise a shadow's ``forced`` comparisons.

    ``flips`` are of ``flip_positions``, not of ``tokens_compared``. ``k3_is_kl`` is the share of k3's tokens for which its
    mean estimates a KL.
    """
    made = [one for one in comparisons if one.incomparable is None]
    choices = [choice for one in made for choice in one.choices]
    summary: Summary = {
        "requests": len(made),
        "incomparable": _reasons(comparisons),
        "tokens_compared": sum(choice.compared for choice in choices),
        "flips": _classes(flip.kind for choice in choices for flip in choice.flips),
        "flip_positions": sum(map(flip_positions, made)),
    }
    if choices and all(choice.primary_tokens is not None for choice in choices):
        # Some engines score a sample of each reply's positions: how many of how many there were.
        summary["positions"] = {
            "scored": summary["tokens_compared"],
            "of": sum(choice.primary_tokens or 0 for choice in choices),
        }
    agreed = [agree for choice in choices for agree in choice.top1_agree if agree is not None]
    if agreed:
        summary["top1_agreement"] = sum(agreed) / len(agreed)
    return summary | _near_tie(made) | _expected(made) | _values(made) | _divergence_estimates(made)


def summarise_ties(free: Sequence[Comparison], forced: Sequence[Comparison] = ()) -> Summary:
    """Summarise exact ties at the top of the arms' lists, and which member each arm picked.

    ``exact`` of ``positions``: the primary's, from the mode that looked at more of its positions, so that a request
    compared in both is not counted twice; ``shadow_exact`` of ``shadow_positions`` likewise. ``mode`` and ``shadow_mode`` say
    which that was. The primary's picks come with its ties; the shadow's are observed in ``free`` mode only.
    """
    mode, primary = _widest(free, forced, "primary")
    shadow_mode, shadow = _widest(free, forced, "shadow")
    flips = [choice.first for one in _made(free) for choice in one.choices if choice.first is not None]
    return {
        "mode": mode.value,
        "exact": primary[1],
        "positions": primary[0],
        "primary_pick": primary[2],
        "shadow_mode": shadow_mode.value,
        "shadow_exact": shadow[1],
        "shadow_positions": shadow[0],
        "shadow_pick": _arm_ties(free, "shadow")[2],
        "tie_break_mismatches": sum(flip.tie_break_mismatch for flip in flips),
    }


def summarise_latency(
    first_tokens: tuple[Iterable[float | None], Iterable[float | None]], gaps: tuple[Iterable[float], Iterable[float]]
) -> Summary:
    """Summarise timings in seconds, each a pair (primary's, shadow's); None: not observed."""
    return {
        "time_to_first_token_seconds": {
            arm: distribution(one for one in values if one is not None)
            for arm, values in zip(("primary", "shadow"), first_tokens, strict=True)
        },
        "inter_token_seconds": {
            arm: distribution(values) for arm, values in zip(("primary", "shadow"), gaps, strict=True)
        },
    }


def value_pairs(comparison: Comparison) -> list[tuple[float, float]]:
    """Return (log p, log q) of the primary's token at every position where both are known and may be set against each other."""
    pairs: list[tuple[float, float]] = []
    if comparison.incomparable is None and comparison.values_incomparable is None:
        for choice in comparison.choices:
            ours, theirs = choice.primary_logprobs, choice.shadow_logprobs
            each = zip(ours, theirs, strict=True)
            if None in ours or None in theirs:
                pairs += [(p, q) for p, q in each if p is not None and q is not None]
            else:  # nearly always, and what is done for every position counts
                pairs += cast("Iterable[tuple[float, float]]", each)
    return pairs


def flip_positions(comparison: Comparison) -> int:
    """Return how many positions could have shown a flip.

    In ``free`` mode those exposed; in ``forced`` mode those at which both arms' first choices are known and a flip may be
    claimed (of ``canonical`` tokens none is).
    """
    match comparison.mode:
        case Mode.FREE:
            return sum(choice.exposed for choice in comparison.choices)
        case Mode.FORCED:
            return sum(agree is not None for choice in comparison.choices for agree in choice.top1_agree)


def _made(comparisons: Iterable[Comparison]) -> list[Comparison]:
    return [one for one in comparisons if one.incomparable is None]


def _reasons(comparisons: Iterable[Comparison]) -> dict[str, int]:
    return dict(Counter(one.incomparable for one in comparisons if one.incomparable is not None))


def _classes(kinds: Iterable[FlipClass]) -> dict[str, int]:
    counted = Counter(kinds)
    return {kind.value: counted[kind] for kind in FlipClass}


def _near_tie(made: Sequence[Comparison]) -> Summary:
    """Say what near ties were judged by: the last threshold and its origin, and the range where it moved (it is learned)."""
    used = [(one.tau, one.tau_origin) for one in made if one.tau is not None]
    if not used:
        return {}
    tau, origin = used[-1]
    found: Summary = {"tau_nats": tau, "origin": None if origin is None else origin.value}
    low, high = min(tau for tau, _ in used), max(tau for tau, _ in used)
    if low < high:
        found["range_nats"] = [low, high]
    return {"near_tie": found}


def _expected(made: Sequence[Comparison]) -> Summary:
    """Sum the flips that the control's noise alone makes, over the comparisons for which it was known: a share of all."""
    known = [one.expected_flips for one in made if one.expected_flips is not None]
    return {"expected_flips": {"sum": fsum(known), "requests": len(known)}} if known else {}


def _values(made: Sequence[Comparison]) -> Summary:
    """Summarise what is measured in both modes. ``values_left_out``: compared tokens of which an arm gave no value."""
    pairs = [pair for one in made for pair in value_pairs(one)]
    errors = [abs(q - p) for p, q in pairs]
    relative = [one for one in distance.relative_errors(pairs) if one is not None]
    if not errors:
        return {}
    compared = sum(choice.compared for one in made for choice in one.choices)
    return {
        "logprob_error_nats": distribution(errors),
        "relative_error": distribution(relative) | {"left_out": len(errors) - len(relative)},
        "probability_error": distribution(distance.probability_errors(pairs)),
        "values_left_out": compared - len(errors),
    }


def _divergence_estimates(made: Sequence[Comparison]) -> Summary:
    found = [(value_pairs(one), one.k3_is_kl) for one in made]
    pairs = [pair for own, _ in found for pair in own]
    summary: Summary = {}
    bounds = [bound for one in made for choice in one.choices for bound in choice.kl_lower_bounds if bound is not None]
    if bounds:
        summary["kl_lower_bound_nats"] = distribution(bounds)
    variations = [v for one in made for choice in one.choices for v in choice.tv_lower_bounds if v is not None]
    if variations:
        summary["tv_lower_bound"] = distribution(variations)
    if pairs:
        differences = [q - p for p, q in pairs]
        summary["mean_difference_nats"] = fsum(differences) / len(differences)
        summary["k1"] = fsum(map(distance.k1, differences)) / len(differences)
        summary["k3"] = fsum(map(distance.k3, differences)) / len(differences)
        summary["k3_is_kl"] = sum(len(own) for own, is_kl in found if is_kl) / len(pairs)
    linear = distance.correlation(pairs)
    if linear is not None:
        summary["correlation"] = linear
    return summary


def _widest(free: Sequence[Comparison], forced: Sequence[Comparison], arm: str) -> tuple[Mode, _Ties]:
    """Return the ties of an arm in the mode that looked at more of its positions, and that mode."""
    ours, theirs = _arm_ties(free, arm), _arm_ties(forced, arm)
    return (Mode.FORCED, theirs) if theirs[0] > ours[0] else (Mode.FREE, ours)


def _arm_ties(comparisons: Sequence[Comparison], arm: str) -> _Ties:
    """Return positions at which a tie would have shown, ties, and picks by kind."""
    choices: list[ChoiceComparison] = [choice for one in _made(comparisons) for choice in one.choices]
    gaps = (choice.gaps if arm == "primary" else choice.shadow_gaps for choice in choices)
    ties = [tie for choice in choices for tie in choice.ties if tie.arm == arm]
    picks = Counter(tie.pick for tie in ties)
    return (
        sum(gap is not None for own in gaps for gap in own),
        len(ties),
        {pick.value: picks[pick] for pick in Pick},
    )


def _exposures(comparisons: Sequence[Comparison], conversations: Sequence[str]) -> list[Exposure]:
    return [
        Exposure(
            conversation,
            sum(choice.first is not None for choice in one.choices),
            sum(choice.exposed for choice in one.choices),
            sum(choice.exposed > 0 for choice in one.choices),
        )
        for one, conversation in zip(comparisons, conversations, strict=True)
        if one.incomparable is None and one.mode is Mode.FREE
    ]


def hazard(
    comparisons: Sequence[Comparison],
    conversations: Sequence[str] | None,
    control: Sequence[Comparison],
    control_conversations: Sequence[str] | None,
) -> Summary:
    """Return ``hazard_per_1000_tokens`` of ``free`` comparisons as ``summarise_free`` has it; empty where nothing was exposed."""
    own = gathered(_exposures(comparisons, conversations or [""] * len(comparisons)))
    floor = gathered(_exposures(control, control_conversations or [""] * len(control)))
    return rates(own, floor, resampled=bool(conversations and (not floor.exposed or control_conversations)))
