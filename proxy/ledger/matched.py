"""The requests of which a candidate and its control both have results: only these can be held against each other.

House rules. Pure. Which requests a control has tokens of is no accident: it lends the primary's only where it agrees, and scores none of the text that it would not
have said itself. Numbers of other requests would say how those differ, and be called the candidate's; so they are left out of both arms alike, and counted.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import structs

from proxy.compare.comparison import ChoiceComparison, Comparison
from proxy.ledger.segments import Gathered


class Matched(NamedTuple):
    """Both arms' comparisons of the same requests, and what is left of the candidate's: ``requests``, and ``tokens`` of all requests."""

    own: Gathered
    floor: Gathered
    requests: int = 0
    tokens: int = 0


def matched(own: Gathered, floor: Gathered) -> Matched:
    """Return what both arms have results of: requests that both compared, tokens of those in which both named some.

    Where no request has tokens in both, the candidate keeps its own, and the control has none; where no request is in both, there is no floor.
    """
    ours, theirs = _by_exchange(own), _by_exchange(floor)
    shared = ours.keys() & theirs.keys()
    if not shared:
        return Matched(own, Gathered())
    by_token = {one for one in shared if _tokens(ours[one][0]) and _tokens(theirs[one][0])}
    mine = _only(own, ours, shared, by_token or shared)
    left = _total(own) - _total(mine)
    return Matched(mine, _only(floor, theirs, shared, by_token), len(ours) - len(shared), left)


def _by_exchange(gathered: Gathered) -> dict[str, tuple[Comparison, str]]:
    return {
        origin.exchange: (one, conversation)
        for one, conversation, origin in zip(
            gathered.comparisons, gathered.conversations, gathered.origins, strict=True
        )
        if one.incomparable is None
    }


def _only(whole: Gathered, made: dict[str, tuple[Comparison, str]], shared: set[str], by_token: set[str]) -> Gathered:
    """Return the shared part, with tokens of those ``by_token`` only; the very same object where that is all, for what was resampled of it is kept."""
    if shared == made.keys() and all(one in by_token or not _tokens(made[one][0]) for one in shared):
        return whole
    kept = [
        (one if exchange in by_token else _as_text(one), key)
        for exchange, (one, key) in made.items()
        if exchange in shared
    ]
    return Gathered([one for one, _ in kept], [key for _, key in kept], made=whole.made)


def _as_text(comparison: Comparison) -> Comparison:
    """Return what is left of a comparison without its tokens: whether the replies are the same."""
    choices = tuple(
        ChoiceComparison(
            index=one.index,
            primary_tokens=None,
            shadow_tokens=None,
            compared=0,
            exposed=0,
            identical=one.identical,
            by_text=True,
            censored=one.censored,
            first_text_difference=0 if one.diverged else None,
        )
        for one in comparison.choices
    )
    return structs.replace(comparison, choices=choices, expected_flips=None)


def _tokens(comparison: Comparison) -> int:
    return sum(choice.compared for choice in comparison.choices)


def _total(gathered: Gathered) -> int:
    return sum(_tokens(one) for one in gathered.comparisons)
