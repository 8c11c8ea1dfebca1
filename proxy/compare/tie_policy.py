"""How an arm breaks exact ties: by which rule, whether it does the same again, and whether that hangs on what else runs.

Of two tied tokens the highest id is merely the other one; sets of three and more tell rules apart, and their number stands beside each share.

House rules. Pure. Picks are those that an arm was seen to make. The unit is the conversation: ties of one reply share a batch and a prompt, so that they count as one where an interval is
made (``independent``). A rule is named only where the interval leaves nothing else, and that something does not depend on something else is never said without power to see it.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from math import lgamma, log, sqrt
from typing import Any, NamedTuple

from proxy.compare.comparison import Comparison, Pick, Tie
from proxy.compare.hazard import Edges
from proxy.compare.tie_exposure import Seen, exposure, logits

#: A rule is named when its share is above this for certain, and "mixed" when no rule's can be.
RULE = 0.9
#: Log evidence of 100 to 1: the picks (or their repeats) depend on whether the request ran alone.
ENOUGH_EVIDENCE = log(100.0)

_Z = 1.959964

Summary = dict[str, Any]
#: Prompt, hash of the output before, tied ids.
Again = tuple[str, bytes, tuple[int, ...]]


class Picked(NamedTuple):
    """One pick. ``again`` is equal for the same tied tokens after the same prompt and the same output, None where that cannot be told."""

    pick: Pick
    size: int
    conversation: str
    prompt: str
    again: Again | None
    alone: bool


def summarise_policy(primary: Seen, shadow_exposure: Seen, free: Seen) -> Summary:
    """Summarise both arms' ties; ``primary`` and ``shadow_exposure`` are the mode that looked at more of the arm's positions (see ``summarise_ties``).

    ``mismatches``: see there. ``policy``, ``repeats``: by arm, the shadow's from ``free``, where it chose. ``batch_mates``: the primary's. ``exposure``, ``logits``: by arm.
    """
    picks = {"primary": list(picked(primary, "primary")), "shadow": list(picked(free, "shadow"))}
    rows = {"primary": primary, "shadow": shadow_exposure}
    return {
        "mismatches": mismatches(free.comparisons),
        "policy": {arm: policy(found) for arm, found in picks.items()},
        "repeats": {arm: repeats(found) for arm, found in picks.items()},
        "batch_mates": batch_mates(picks["primary"]),
        "exposure": {arm: exposure(seen, arm) for arm, seen in rows.items()},
        "logits": {arm: logits(seen, arm) for arm, seen in rows.items()},
    }


def mismatches(comparisons: Iterable[Comparison]) -> Summary:
    """Count tie-break mismatches, and those of them at which both arms see the same whole set of tied tokens: nothing but the rule differs there."""
    found = [
        [tie.ids for tie in choice.ties if tie.index == choice.first.index]
        for one in comparisons
        if one.incomparable is None
        for choice in one.choices
        if choice.first is not None and choice.first.tie_break_mismatch
    ]
    return {"n": len(found), "same_set": sum(len(ids) == 2 and ids[0] == ids[1] != () for ids in found)}


def picked(seen: Seen, arm: str) -> Iterator[Picked]:
    """Yield the arm's known picks among exactly tied tokens."""
    for one, conversation, prompt, load in zip(*seen, strict=True):
        if one.incomparable is not None:
            continue
        for choice in one.choices:
            for tie in choice.ties:
                if tie.arm == arm and tie.pick is not None:
                    again = _again(prompt, choice.ids, tie) if prompt and choice.positions is None else None
                    yield Picked(tie.pick, tie.size, conversation, prompt, again, load == 0)


def _again(prompt: str, ids: Sequence[int | None], tie: Tie) -> Again | None:
    before = [number for number in ids[: tie.index] if number is not None]
    if not tie.ids or len(before) < tie.index:
        return None
    return prompt, blake2b(array("q", before).tobytes(), digest_size=12).digest(), tie.ids


def independent(sizes: Iterable[int]) -> float:
    """Return how many independent ones a sample of clusters is worth at the worst, that all of a cluster are alike: (sum n)^2 / sum n^2.

    Kish 1965, "Survey Sampling", the design effect at an intraclass correlation of 1.
    """
    known = list(sizes)
    squares = sum(size * size for size in known)
    return sum(known) ** 2 / squares if squares else 0.0


def wilson(share: float, n: float) -> Edges:
    """Return the 95 % interval of a share seen among ``n`` independent ones; (0, 1) without any.

    Wilson 1927, "Probable inference, the law of succession, and statistical inference", JASA 22, 209-212; recommended for few by Brown, Cai and DasGupta 2001.
    """
    if n <= 0:
        return 0.0, 1.0
    over = _Z * _Z / n
    middle, half = share + over / 2, _Z * sqrt(share * (1.0 - share) / n + over / (4.0 * n))
    return max(0.0, (middle - half) / (1.0 + over)), min(1.0, (middle + half) / (1.0 + over))


def policy(picks: Sequence[Picked]) -> Summary:
    """Name an arm's rule: ``lowest``, ``highest``, ``mixed`` or ``unknown``; with the share of each pick, and its interval where conversations are known.

    ``independent``: what the picks are worth, being of so many ``conversations``. ``of_three_or_more``: picks in sets that tell "highest" from "the other one".
    """
    if not picks:
        return {"rule": "unknown", "picks": 0}
    counted = Counter(one.pick for one in picks)
    found: Summary = {"rule": "unknown", "picks": len(picks), "of_three_or_more": sum(one.size > 2 for one in picks)}
    shares = {pick.value: {"share": counted[pick] / len(picks)} for pick in Pick}
    if not all(one.conversation for one in picks):
        return found | shares
    clusters = Counter(one.conversation for one in picks)
    worth = independent(clusters.values())
    edges = {pick: wilson(counted[pick] / len(picks), worth) for pick in Pick}
    named = [pick for pick in (Pick.LOWEST, Pick.HIGHEST) if edges[pick][0] > RULE]
    if named:
        found["rule"] = named[0].value
    elif edges[Pick.LOWEST][1] < RULE and edges[Pick.HIGHEST][1] < RULE:
        found["rule"] = "mixed"
    with_edges: Summary = {pick.value: shares[pick.value] | {"interval": list(edges[pick])} for pick in Pick}
    return found | {"conversations": len(clusters), "independent": worth} | with_edges


def repeats(picks: Sequence[Picked]) -> Summary:
    """Say how often the same tie is resolved the same way again.

    Of ``ties`` seen more than once, each adds its ``repeats`` (times it was seen less one) with the chance that two of its picks agree; the interval counts all of one prompt
    as one.
    """
    times: dict[Again, Counter[Pick]] = {}
    for one in picks:
        if one.again is not None:
            times.setdefault(one.again, Counter())[one.pick] += 1
    clusters: Counter[str] = Counter()
    agreed = 0.0
    seen_again = 0
    for (prompt, _, _), counted in times.items():
        n = counted.total()
        if n > 1:
            seen_again += 1
            clusters[prompt] += n - 1
            agreed += sum(k * (k - 1) for k in counted.values()) / n
    if not clusters:
        return {"repeats": 0, "ties": 0}
    share = agreed / clusters.total()
    edges = wilson(share, independent(clusters.values()))
    return {
        "repeats": clusters.total(),
        "ties": seen_again,
        "prompts": len(clusters),
        "share": share,
        "interval": list(edges),
    }


def batch_mates(picks: Sequence[Picked]) -> Summary:
    """Hold what was picked alone against what was picked while other requests ran, and likewise whether a tie was resolved the same way again.

    One pick a conversation and one pair a prompt (its first two), for those are independent. ``says``: ``depends``; ``no_sign``, where as many could have shown it; ``too_few``.
    What ran is what this proxy had sent to the primary and not yet had back: other clients of the engine are not seen.
    """
    first: dict[str, Picked] = {}
    pairs: dict[Again, list[Picked]] = {}
    repeated: dict[str, Again] = {}
    for one in picks:
        if one.conversation:
            first.setdefault(one.conversation, one)
        if one.again is not None:
            pairs.setdefault(one.again, []).append(one)
            if len(pairs[one.again]) > 1:
                repeated.setdefault(one.prompt, one.again)
    two = [pairs[again][:2] for again in repeated.values()]
    return {
        "picks": _two_by_two([(one.alone, one.pick is Pick.LOWEST) for one in first.values()], "lowest"),
        "repeats": _two_by_two([(a.alone and b.alone, a.pick is b.pick) for a, b in two], "agreed"),
    }


def _two_by_two(outcomes: Iterable[tuple[bool, bool]], what: str) -> Summary:
    counted = Counter(outcomes)
    alone, mates = (counted[True, True], counted[True, False]), (counted[False, True], counted[False, False])
    evidence = log_evidence(alone, mates)
    most = log_evidence((sum(alone), 0), (0, sum(mates)))
    says = "depends" if evidence >= ENOUGH_EVIDENCE else "no_sign" if most >= ENOUGH_EVIDENCE else "too_few"
    return {
        "says": says,
        "alone": {"n": sum(alone), what: alone[0]},
        "with_others": {"n": sum(mates), what: mates[0]},
        "log_e": evidence,
        "most_log_e": most,
    }


def log_evidence(one: tuple[int, int], other: tuple[int, int]) -> float:
    """Return the log evidence that two rates differ, from (hits, misses) of each; holds however often one looks.

    The chance of these outcomes if each rate is unknown (Beta(1/2, 1/2), Krichevsky and Trofimov 1981) over the largest that any common rate gives them: an e-process by universal
    inference (Wasserman, Ramdas and Balakrishnan 2020, arXiv 1912.11436).
    """
    hits, misses = one[0] + other[0], one[1] + other[1]
    n = hits + misses
    common = sum(k * log(k / n) for k in (hits, misses) if k)
    return _unknown_rate(*one) + _unknown_rate(*other) - common


def _unknown_rate(hits: int, misses: int) -> float:
    """Return ln of Beta(hits + 1/2, misses + 1/2) / Beta(1/2, 1/2)."""
    return lgamma(hits + 0.5) + lgamma(misses + 0.5) - lgamma(hits + misses + 1.0) - 2.0 * lgamma(0.5)
