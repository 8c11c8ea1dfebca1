"""The report's intervals that hold however often and whenever somebody looks: one value a conversation, at the level of the verdict.

House rules. Pure. The unit is the conversation: its first exchange that could be compared stands for it, and one whose conversation is not known is left out. Each interval
holds by itself at 1 - alpha. What was computed is computed in ``proxy.compare.confidence_sequence``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import fsum
from typing import Any

from proxy.compare.comparison import Comparison, FlipClass, Mode
from proxy.compare.confidence_sequence import Shares, Tails, mean_interval, quantile_interval
from proxy.compare.summary import flip_positions, value_pairs
from proxy.ledger.record import Timing
from proxy.ledger.segments import Gathered, Segments

#: Two edges to an octave: nats from 1e-6 to 48, seconds from a millisecond to 25 minutes.
_NATS = tuple(scale * 2.0**power for power in range(-20, 6) for scale in (1.0, 1.5))
_SECONDS = tuple(scale * 2.0**power for power in range(-10, 11) for scale in (1.0, 1.5))


def add(shadows: Iterable[dict[str, Any]], records: Mapping[str, Segments], alpha: float) -> None:
    """Put ``anytime`` into every shadow's modes and latency of a report, where there is something to say."""
    for shadow in shadows:
        if (segments := records.get(shadow["name"])) is None:
            continue
        for mode, numbers in shadow["modes"].items():
            if found := of_mode(segments.latest(mode), alpha):
                numbers["anytime"] = found
        if found := of_latency(segments.latest(Mode.FREE.value), alpha):
            shadow["latency"]["anytime"] = found


def of_mode(gathered: Gathered, alpha: float) -> dict[str, Any]:
    """Return ``alpha`` and by name an ``interval`` with its number of ``conversations``; empty when there is none.

    ``genuine_share``: conversations with a genuine flip or first difference, of those that could show one. ``tv_mean``: the mean of a conversation's mean
    lower bound of the total variation. ``p99_abs_d``: the 99th percentile of abs(d) in nats, conversations counting alike.
    """
    unit = _units(gathered)
    genuine = [float(_genuine(one)) for one, _ in unit if flip_positions(one)]
    variations = [fsum(found) / len(found) for one, _ in unit if (found := _variations(one))]
    errors = [[abs(q - p) for p, q in value_pairs(one)] for one, _ in unit]
    return _levelled(alpha, {
        "genuine_share": _mean(genuine, alpha),
        "tv_mean": _mean(variations, alpha),
        "p99_abs_d": _quantile(_NATS, errors, 0.99, alpha),
    })  # fmt: skip


def of_latency(free: Gathered, alpha: float) -> dict[str, Any]:
    """Return ``alpha`` and, of the time to the first token in seconds, the ``p50`` and ``p99`` of each arm as an ``interval`` with its ``conversations``."""
    made = [pair for one, pair in _units(free) if one.mode is Mode.FREE and pair[1].end is not None]
    arms: dict[str, dict[str, Any]] = {}
    for arm, timings in (("primary", [pair[0] for pair in made]), ("shadow", [pair[1] for pair in made])):
        values = [[one.first_token] for one in timings if one.first_token is not None]
        found = {name: _quantile(_SECONDS, values, level, alpha) for name, level in (("p50", 0.5), ("p99", 0.99))}
        if known := {name: one for name, one in found.items() if one}:
            arms[arm] = known
    return _levelled(alpha, {"time_to_first_token_seconds": arms})


def _levelled(alpha: float, found: Mapping[str, Any]) -> dict[str, Any]:
    known = {name: one for name, one in found.items() if one}
    return {"alpha": alpha} | known if known else {}


def _units(gathered: Gathered) -> list[tuple[Comparison, tuple[Timing, Timing]]]:
    """Return the first of each conversation that could be compared."""
    first: dict[str, tuple[Comparison, tuple[Timing, Timing]]] = {}
    for one, conversation, timings in zip(gathered.comparisons, gathered.conversations, gathered.timings, strict=True):
        if conversation and one.incomparable is None:
            first.setdefault(conversation, (one, timings))
    return list(first.values())


def _genuine(comparison: Comparison) -> bool:
    flips = (flip for choice in comparison.choices for flip in (choice.first, *choice.flips) if flip is not None)
    return any(flip.kind is FlipClass.GENUINE for flip in flips)


def _variations(comparison: Comparison) -> list[float]:
    bounds = (one for choice in comparison.choices for one in choice.tv_lower_bounds if one is not None)
    return [min(one, 1.0) for one in bounds if one >= 0.0]  # of broken values no number


def _mean(values: Sequence[float], alpha: float) -> dict[str, Any] | None:
    ends = mean_interval(Shares.of(values), alpha)
    return None if ends is None else {"interval": list(ends), "conversations": len(values)}


def _quantile(
    edges: Sequence[float], values: Iterable[Sequence[float]], level: float, alpha: float
) -> dict[str, Any] | None:
    """Return an interval with an end that is None where nothing is known of it yet; None altogether when nothing is known of either."""
    tails = Tails.of(edges, values)
    ends = quantile_interval(tails, level, alpha)
    return None if ends in (None, (None, None)) else {"interval": list(ends or ()), "conversations": tails.total}
