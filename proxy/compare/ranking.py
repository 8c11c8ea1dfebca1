"""Scores held against each other: by their values, and by the order they give.

House rules. Pure. Values are compared as they are: engines that give logits and engines that give probabilities of the same model differ, and that is the finding.
The order is made of the scores and not of the list, for engines list equal scores as it happens.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence

from proxy.compare.comparison import Comparison, Mode, RankingComparison, Source
from proxy.compare.explained import explained
from proxy.compare.findings import TRANSPORT_ERRORS
from proxy.compare.prompt import prompt_findings
from proxy.compare.token_stream import Reply, Score

_Place = tuple[int, int]  # label, item


def compare_ranking(primary: Reply, shadow: Reply, *, kind: str) -> Comparison:
    """Compare two replies of a reranking or scoring route; ``kind`` is the route's label."""
    prompt = prompt_findings(None, None, primary.prompt_tokens, shadow.prompt_tokens)
    reason, detail = _refusal(primary, shadow, prompt_differs=bool(prompt))
    findings = (TRANSPORT_ERRORS,) if shadow.error is not None else ()
    ranking = ranked(primary.scores, shadow.scores, kind=kind) if reason is None else None
    comparison = Comparison(
        mode=Mode.FREE, source=Source.TEXT, incomparable=reason, detail=detail, findings=findings, ranking=ranking
    )
    return explained(comparison, primary, shadow, prompt=prompt)


def _refusal(primary: Reply, shadow: Reply, *, prompt_differs: bool) -> tuple[str | None, str | None]:
    if primary.error is not None:
        return "primary_error", primary.error
    if shadow.error is not None:
        return "shadow_error", shadow.error
    if prompt_differs:
        return "prompt_tokens", None
    labels = ({one.label for one in scores} for scores in (primary.scores, shadow.scores))
    counts = tuple(map(len, labels))
    if counts[0] != counts[1]:
        return "score_labels", f"{counts[0]} and {counts[1]}"
    return None, None


def ranked(primary: Sequence[Score], shadow: Sequence[Score], *, kind: str) -> RankingComparison:
    """Hold two lists of scores against each other; each label has an order of its own."""
    left, right = _values(primary), _values(shadow)
    both = sorted(left.keys() & right.keys())
    orders = [_order(values, both) for values in (left, right)]
    tops = _order(left, left), _order(right, right)
    discordant = pairs = 0
    for own, its in _by_label(*orders):
        discordant += _inversions(own, its)
        pairs += len(own) * (len(own) - 1) // 2
    return RankingComparison(
        kind=kind,
        items=len(both),
        score_errors=tuple(abs(right[place] - left[place]) for place in both),
        first_difference=_first_difference(tops),
        discordant_pairs=discordant,
        pairs=pairs,
        only_primary=len(left) - len(both),
        only_shadow=len(right) - len(both),
    )


def _values(scores: Sequence[Score]) -> dict[_Place, float]:
    return {(one.label, one.index): one.value for one in scores}


def _order(values: dict[_Place, float], places: Sequence[_Place] | dict[_Place, float]) -> list[_Place]:
    return sorted(places, key=lambda place: (place[0], -values[place], place[1]))


def _first_difference(orders: tuple[list[_Place], list[_Place]]) -> int | None:
    """Return the first rank at which the arms have different items, of the label where that is earliest; one that only goes on does not differ."""
    ranks: list[int] = []
    for own, its in _by_label(*orders):
        differing = (rank for rank, (a, b) in enumerate(zip(own, its, strict=False)) if a != b)
        ranks += [rank for rank in [next(differing, None)] if rank is not None]
    return min(ranks, default=None)


def _by_label(one: Sequence[_Place], other: Sequence[_Place]) -> Iterable[tuple[list[_Place], list[_Place]]]:
    """Cut two orders into those of each label."""
    cut: dict[int, tuple[list[_Place], list[_Place]]] = {}
    for arm, order in enumerate((one, other)):
        for place in order:
            cut.setdefault(place[0], ([], []))[arm].append(place)
    return cut.values()


def _inversions(own: Sequence[_Place], its: Sequence[_Place]) -> int:
    """Count the pairs that two orders of the same items put the other way round."""
    rank = {place: number for number, place in enumerate(its)}
    seen: list[int] = []
    count = 0
    for place in own:
        number = rank[place]
        count += len(seen) - bisect_left(seen, number)
        insort(seen, number)
    return count
