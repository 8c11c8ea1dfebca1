"""The logprob layer, observed: values that are another function of the same logits, belong to a neighbouring token, or stand in lists that repeat or lack.

House rules. Looks at what was compared and never decides by a mean alone: such faults leave means as they are. Cheap where nothing is off: each search begins with
a look at whether anything differs by more than healthy arms do. What is found out here takes numbers away and adds none.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from math import exp, fsum, log
from operator import sub
from typing import TypeVar

from msgspec.structs import replace

from proxy.compare.comparison import ChoiceComparison, FlipClass
from proxy.compare.distance import correlation
from proxy.compare.identity import same
from proxy.compare.layers import Found
from proxy.compare.token_stream import Alternative, Token

T = TypeVar("T")

LOGPROB_MODE = "logprob_mode"
LOGPROB_ALIGNMENT = "logprob_alignment"
ALTERNATIVES_INCOMPLETE = "alternatives_incomplete"

#: Healthy arms correlate at about 0.999 (public reinforcement-learning roll-outs), values of unrelated tokens hardly; 16 pairs
#: tell the two apart.
_RELATED, _UNRELATED, _ENOUGH_VALUES = 0.95, 0.6, 16
#: A scale is claimed where it explains so much of how the gaps moved. For shifts that have nothing to do with the gaps the share explained by chance is
#: Beta(1/2, (n - 1)/2) distributed: with 8 of them it exceeds 0.98 about once in a million.
_EXPLAINED, _ENOUGH_GAPS = 0.98, 8
_SCALED, _MOVED = 0.05, 0.05
#: A difference of values (nats) that bf16 and other kernels seldom make; fewer than two of them are no sign of a shift.
_FAR = 0.5
#: A list that goes on so far (nats) below a token and does not hold it has left it out, if it is the other arm's list otherwise: no two engines of one model differ by so much there alone.
_BELOW, _ENOUGH_HIDDEN, _ROUNDING = 3.0, 3, 1e-9
_LIKELY = log(0.5)
#: So many rivals with the same names and values in two rows are no chance, whatever few digits they are given with.
_ENOUGH_RIVALS = 3


def alignment_findings(primary: Sequence[float | None], shadow: Sequence[float | None]) -> tuple[str, ...]:
    """Find values that belong to the neighbouring token: both arms' logprobs of one choice, position by position.

    Such a fault leaves the mean as it is. The sign of it: the values do not correlate where they are, and do one row away.
    """
    return (LOGPROB_ALIGNMENT,) if shift(primary, shadow) else ()


def shift(primary: Sequence[float | None], shadow: Sequence[float | None]) -> int:
    """Return by how many rows (1 or -1) the shadow's values stand behind the primary's; 0 where they stand right or that cannot be told."""
    if len(primary) < _ENOUGH_VALUES or not _far_apart(primary, shadow):
        return 0
    here = _correlation(zip(primary, shadow, strict=True))
    if here is None or here > _UNRELATED:
        return 0
    behind = _correlation(zip(primary, shadow[1:], strict=False)) or 0.0
    ahead = _correlation(zip(primary[1:], shadow, strict=False)) or 0.0
    if max(behind, ahead) <= _RELATED:
        return 0
    return 1 if behind > ahead else -1


def _far_apart(primary: Sequence[float | None], shadow: Sequence[float | None]) -> bool:
    far = 0
    for p, q in zip(primary, shadow, strict=True):
        if p is not None and q is not None and not -_FAR < p - q < _FAR:
            far += 1
            if far > 1:
                return True
    return False


def _correlation(pairs: Iterable[tuple[float | None, float | None]]) -> float | None:
    known = [(p, q) for p, q in pairs if p is not None and q is not None]
    return correlation(known) if len(known) >= _ENOUGH_VALUES else None


def mode_finding(choice: ChoiceComparison) -> Found | None:
    """Find values of another mode: all gaps larger or smaller by one factor (a temperature), or every chosen token certain (renormalised)."""
    for arm, values, others in (
        ("shadow", choice.shadow_logprobs, choice.primary_logprobs),
        ("primary", choice.primary_logprobs, choice.shadow_logprobs),
    ):
        if _all_zero(values) and not _all_zero(others):
            return Found(LOGPROB_MODE, {"arm": arm, "seen": "renormalised", "positions": choice.compared})
    if sum([moved is not None and not -_MOVED < moved < _MOVED for moved in choice.gap_shifts]) < _ENOUGH_GAPS // 2:
        return None
    pairs = [
        (gap, moved)
        for gap, moved in zip(choice.gaps, choice.gap_shifts, strict=True)
        if gap is not None and moved is not None
    ]
    if len(pairs) < _ENOUGH_GAPS or sum(not -_MOVED < moved < _MOVED for _, moved in pairs) < _ENOUGH_GAPS // 2:
        return None
    total = fsum(moved * moved for _, moved in pairs)
    size = fsum(gap * gap for gap, _ in pairs)
    slope = fsum(gap * moved for gap, moved in pairs) / size if size else 0.0
    left = fsum((moved - slope * gap) ** 2 for gap, moved in pairs)
    if abs(slope) < _SCALED or left > (1.0 - _EXPLAINED) * total:
        return None
    return Found(LOGPROB_MODE, {"seen": "scaled", "scale": round(1.0 + slope, 4), "positions": len(pairs)})


def _all_zero(values: Sequence[float | None]) -> bool:
    if len(values) < _ENOUGH_GAPS or values[0] != 0.0:
        return False
    return all(value == 0.0 for value in values)


def repeated_lists(tokens: Sequence[Token]) -> list[int]:
    """Return the rows that show the list of the row before under another token: what a stream does that gives a whole event the first row's list."""
    rows: list[int] = []
    start, others = (
        0,
        False,
    )  # of the rows that share one list: where they begin, and whether their tokens are not all the same
    for index in range(1, len(tokens) + 1):
        head = tokens[start]
        if index < len(tokens) and _same_list(head, tokens[index]):
            others = others or (head.id, head.text) != (tokens[index].id, tokens[index].text)
            continue
        if others:
            rows += range(start + 1, index)
        start, others = index, False
    return rows


def _same_list(one: Token, other: Token) -> bool:
    """Say whether two rows show one list, give or take the tokens chosen in them, which some engines put into whatever list they show."""
    mine, theirs = one.top, other.top
    if len(mine) < 2 or len(theirs) < 2:
        return False
    if mine[0].logprob == theirs[0].logprob and mine == theirs:
        return True
    if {entry.logprob for entry in mine[-2:]}.isdisjoint(entry.logprob for entry in theirs[-2:]):
        return False
    left, right = (
        [entry for entry in top if same(entry, one) is not True and same(entry, other) is not True]
        for top in (mine, theirs)
    )
    size = min(len(left), len(right))
    return size >= _ENOUGH_RIVALS and left[:size] == right[:size]


def short_lists(primary: Sequence[Token], shadow: Sequence[Token]) -> tuple[list[int], list[int]]:
    """Return the rows in which one arm alone shows no rival, for each arm that shows them elsewhere or whose counterpart does."""
    lacking: tuple[list[int], list[int]] = ([], [])
    both = 0
    for index, (left, right) in enumerate(zip(primary, shadow, strict=False)):
        mine, other = len(left.top) > 1, len(right.top) > 1
        if mine and other:
            both += 1
        elif mine != other and left.logprob is not None and right.logprob is not None:
            lacking[1 if mine else 0].append(index)
    # An arm that shows rivals nowhere was asked for none, unless it is the shadow, which is always asked for some.
    return lacking[0] if len(lacking[0]) < both else [], lacking[1] if len(lacking[1]) < both or not both else []


def doubled_lists(tokens: Sequence[Token], gaps: Sequence[float | None]) -> list[int]:
    """Return the rows whose list begins with one token twice: it would pass for a tie with itself."""
    if 0.0 not in gaps:
        return []
    return [
        index
        for index, gap in enumerate(gaps)
        if gap == 0.0 and len(top := tokens[index].top) > 1 and same(top[0], top[1]) is True
    ]


def hidden_rivals(
    choice: ChoiceComparison, primary: Sequence[Token], shadow: Sequence[Token]
) -> tuple[list[int], list[int]]:
    """Return the rows in which an arm does not hold one of the other's two most likely tokens although its list goes far below it, for each arm.

    Only rows in which the arms' first two are not the same are looked at.
    """
    hidden: tuple[list[int], list[int]] = ([], [])
    gaps, others, shifts = choice.gaps, choice.shadow_gaps, choice.gap_shifts
    if None not in gaps and None not in others and None not in shifts:
        apart: Iterable[float] = map(sub, map(sub, others, gaps), shifts)  # in one go, for there is seldom any
        if max(map(abs, apart), default=0.0) < _ROUNDING:
            return hidden
    for index, (gap, other, moved) in enumerate(zip(gaps, others, shifts, strict=True)):
        if gap is None or other is None or (moved is not None and abs(other - gap - moved) < _ROUNDING):
            continue
        left, right = primary[index].top, shadow[index].top
        if _lacking(right, left) is not None:
            hidden[1].append(index)
        elif _lacking(left, right) is not None:
            hidden[0].append(index)
    return _enough(hidden)


def _enough(hidden: tuple[list[int], list[int]]) -> tuple[list[int], list[int]]:
    mine, theirs = hidden
    return mine if len(mine) >= _ENOUGH_HIDDEN else [], theirs if len(theirs) >= _ENOUGH_HIDDEN else []


def left_out(
    hidden: tuple[list[int], list[int]], primary: Sequence[Token], shadow: Sequence[Token], wrong: Container[int]
) -> tuple[list[int], list[int]]:
    """Return those of the ``hidden_rivals`` that are a fault of the lists, without the rows of which something else is known to be wrong; too few of them are none.

    An arm that truly finds the token unlikely has little probability left that is not listed, or differs in the other tokens too.
    """
    mine, theirs = (
        [row for row in rows if row not in wrong and _left_out(listed[row].top, other[row].top)]
        for rows, listed, other in ((hidden[0], primary, shadow), (hidden[1], shadow, primary))
    )
    return _enough((mine, theirs))


def _lacking(listed: Sequence[Alternative], other: Sequence[Alternative]) -> float | None:
    """Return the largest value of those of the other arm's two most likely tokens that the list lacks and goes far below."""
    if not listed:
        return None
    lowest = listed[-1].logprob + _BELOW
    found = (
        one.logprob for one in other[:2] if one.logprob > lowest and all(same(one, entry) is False for entry in listed)
    )
    return max(found, default=None)


def _left_out(listed: Sequence[Alternative], other: Sequence[Alternative]) -> bool:
    """Say whether the list has room for what it lacks, and is the same otherwise: most of the tokens that both hold, and half of all, have about the same value in both.

    Of likely tokens that says little.
    """
    lacking = _lacking(listed, other)
    rest = 1.0 - fsum(exp(min(entry.logprob, 0.0)) for entry in listed)
    if lacking is None or rest < exp(min(lacking, 0.0) - _BELOW):
        return False
    apart = [
        abs(one.logprob - entry.logprob)
        for one in listed
        for entry in other
        if same(one, entry) and min(one.logprob, entry.logprob) < _LIKELY
    ]
    alike = sum(difference < _FAR for difference in apart)
    # Two lists with nothing to do with each other share a token now and then, and not half of theirs.
    return alike > 0 and 2 * alike > len(apart) and 2 * alike >= min(len(listed), len(other)) - 1


def without_values(choice: ChoiceComparison, *, lists: bool) -> ChoiceComparison:
    """Return the choice without what came of setting the arms' values against each other; what each arm said stays.

    ``lists``: the lists cannot be trusted either, so that no flip, tie or rank is read off them.
    """
    unknown = (None,) * choice.compared
    choice = replace(choice, gap_shifts=unknown, kl_lower_bounds=unknown, tv_lower_bounds=unknown)
    return without_rows(choice, range(choice.compared)) if lists else choice


def _cleared(values: tuple[T | None, ...], rows: Container[int]) -> tuple[T | None, ...]:
    return tuple(None if place in rows else value for place, value in enumerate(values))


def without_rows(choice: ChoiceComparison, rows: Container[int]) -> ChoiceComparison:
    """Return the choice without what came of the lists in some of its compared rows (by place in its arrays)."""
    at = {index for place, index in enumerate(choice.positions or range(choice.compared)) if place in rows}

    first = choice.first
    if first is not None and first.index in at:
        first = replace(
            first,
            kind=FlipClass.UNKNOWN,
            gap=None,
            gap_at_least=None,
            shadow_gap=None,
            tie_seen_by=None,
            tie_break_mismatch=False,
        )
    in_free = choice.shadow_tokens is not None  # there tokens were chosen, whatever the lists say
    return replace(
        choice,
        first=first,
        flips=tuple(flip for flip in choice.flips if flip.index not in at),
        ties=tuple(tie for tie in choice.ties if tie.index not in at),
        gaps=_cleared(choice.gaps, rows),
        shadow_gaps=_cleared(choice.shadow_gaps, rows),
        gap_shifts=_cleared(choice.gap_shifts, rows),
        ranks=_cleared(choice.ranks, rows),
        kl_lower_bounds=_cleared(choice.kl_lower_bounds, rows),
        tv_lower_bounds=_cleared(choice.tv_lower_bounds, rows),
        top1_agree=choice.top1_agree if in_free else _cleared(choice.top1_agree, rows),
    )
