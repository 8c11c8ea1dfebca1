"""Two streams in columns held against each other: what ``position.measure`` says, without an object for each alternative.

House rules. The usual position and nothing else: at least three alternatives, no tie at the top, the chosen token among them, no name twice; or no list at
all. Everything else, and the place where the arms part, is left to ``measure``; the numbers are the same to the last bit, bounds to ``SUMMED``. This is the
innermost loop of all comparing: alternatives are looked at once, and checks are made of all positions in one go, by functions that loop in C.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, pairwise, product
from math import exp, fsum
from operator import eq, gt, mul, sub
from typing import TypeVar

from proxy.compare.columns import Columns, Lists
from proxy.compare.distance import kl_bound, lower_bounds
from proxy.compare.position import Entry, Table, table
from proxy.compare.row import MASS_ERROR

T = TypeVar("T")

#: How far bounds from plain sums may be from those of exact ones: a sum of probabilities is off by some 1e-15 at most, a rest of 1e-6 then by 1e-9 of itself, and the
#: bound takes ``NORMALISER_ERROR`` times the ratio of two rests off.
SUMMED = 1e-11
#: Rests that decide which tokens have to join them are summed exactly, and such as magnify what a sum is off.
_LEAST_REST, _APART = MASS_ERROR + 1e-12, 10.0


def usual(primary: Columns, shadow: Columns, common: int, *, comparable: bool) -> tuple[Table, list[int]]:
    """Measure the first ``common`` positions, at which the arms chose the same token, as far as they are usual.

    Returns the table, and the places of what is not usual: whatever stands there is to be measured otherwise.
    """
    if primary.labelled is not shadow.labelled:
        return table([None] * common), list(range(common))
    width = primary.lists.width
    if width == 0:
        return _bare(primary, shadow, common, comparable=comparable)
    if width is not None and width > 2 and shadow.lists.width == width:
        return _even(primary, shadow, common, width, comparable=comparable)
    ids = primary.ids or (None,) * common
    rows = zip(
        ids[:common], primary.names, shadow.names, primary.logprobs, shadow.logprobs, primary.rows(common), shadow.rows(common),
        strict=False,
    )  # fmt: skip
    found: list[Entry | None] = []
    for known, name, also, p, q, (names, mine), (others, theirs) in rows:
        if p is None or q is None or name != also:
            found.append(None)
        else:
            found.append(_listed(known, name, (p, q), (names, others), (mine, theirs), comparable=comparable))
    return table(found), [place for place, entry in enumerate(found) if entry is None]


def lists_whole(primary: Columns, shadow: Columns, upto: int) -> bool:
    """Say of the first ``upto`` rows that no arm lacks rivals in some of them, and that no list is that of the row before. False: it may be.

    A primary that shows rivals nowhere was asked for none.
    """
    mine, theirs = primary.lists, shadow.lists
    if mine.sizes[:upto] != theirs.sizes[:upto]:
        rivals, others = [size > 1 for size in mine.sizes[:upto]], [size > 1 for size in theirs.sizes[:upto]]
        if rivals != others and True in rivals:
            return False
    return not _repeats(mine, upto) and not _repeats(theirs, upto)


def _repeats(lists: Lists, upto: int) -> bool:
    """Say whether a list may be that of the row before, give or take the tokens chosen in them: then their last values meet, and two rivals at least are the same."""
    names, values, _ = lists
    if (width := lists.width) and width > 1:
        ends = values[width - 2 : upto * width : width], values[width - 1 : upto * width : width]
        if not any(any(map(eq, one, other[1:])) for one, other in product(ends, ends)):
            return False
    rows = pairwise(islice(lists.places(), upto))
    return bool(values) and any(
        not {*values[at:then][-2:]}.isdisjoint(values[then:end][-2:])
        and len({*zip(names[at:then], values[at:then], strict=True)} & {*zip(names[then:end], values[then:end], strict=True)}) > 1
        for (at, then), (_, end) in rows
    )  # fmt: skip


def _even(primary: Columns, shadow: Columns, common: int, width: int, *, comparable: bool) -> tuple[Table, list[int]]:
    """Measure positions at which both arms list ``width`` alternatives."""
    names, mine, _ = _first(primary.lists, common * width)
    others, theirs, _ = _first(shadow.lists, common * width)
    rows = list(_by(names, width))
    heads = mine[::width], mine[1::width], mine[2::width], theirs[::width], theirs[1::width]
    fits = [
        len(own := set(row)) == width and name in own and "" not in own
        for name, row in zip(primary.names, rows, strict=False)
    ]
    _mark(fits, primary, shadow, heads)
    aligned, apart = theirs, dict[int, list[float | None]]()
    if names != others:
        aligned, apart = _aligned(primary.names, rows, list(_by(others, width)), theirs, fits)
    gaps, own_gaps = list(map(sub, heads[0], heads[1])), list(map(sub, heads[3], heads[4]))
    shifts: list[float | None] = [None] * common
    kls, tvs = shifts[:], shifts[:]
    if comparable:
        shifts = list(map(sub, map(sub, aligned[::width], aligned[1::width]), gaps))
        for place in apart:  # not in vain: equal rows are not looked at
            aligned[place * width : (place + 1) * width] = mine[place * width : (place + 1) * width]
        kls, tvs = _bounds_by(mine, aligned, width)
        for place, known in apart.items():
            row = mine[place * width : (place + 1) * width]
            shared = [p for p, q in zip(row, known, strict=True) if q is not None]
            kls[place], tvs[place] = _bounds(shared, [q for q in known if q is not None])
            one, two = known[:2]
            shifts[place] = None if one is None or two is None else one - two - gaps[place]
    ranks = [1] * common
    if shadow.logprobs[:common] != heads[3]:
        for place, (q, highest) in enumerate(zip(shadow.logprobs[:common], heads[3], strict=True)):
            if q is not None and q < highest:
                ranks[place] += sum(value > q for value in theirs[place * width : (place + 1) * width])
    ids = list(primary.ids[:common]) if primary.ids else [None] * common
    chosen = list(primary.logprobs[:common]), list(shadow.logprobs[:common])
    left = [place for place, is_usual in enumerate(fits) if not is_usual]
    return [ids, *chosen, gaps, own_gaps, shifts, ranks, kls, tvs, [True] * common], left


def _first(lists: Lists, size: int) -> Lists:
    """Cut off what follows the first ``size`` alternatives; where nothing does, nothing is copied."""
    return lists if len(lists.values) == size else Lists(lists.names[:size], lists.values[:size], lists.sizes)


def _mark(fits: list[bool], primary: Columns, shadow: Columns, heads: tuple[list[float], ...]) -> None:
    """Mark the places whose tokens or highest values are not usual: all of them are looked at in one go first, and one by one where that finds something."""
    common = len(fits)
    firsts, seconds, thirds, its, nexts = heads
    if (
        primary.names[:common] == shadow.names[:common]
        and None not in primary.logprobs[:common]
        and None not in shadow.logprobs[:common]
        and max(firsts, default=0.0) <= 0.0
        and max(its, default=0.0) <= 0.0
        and all(map(gt, firsts, seconds))
        and all(map(gt, seconds, thirds))
        and all(map(gt, its, nexts))
    ):
        return
    rows = zip(primary.names, shadow.names, primary.logprobs, shadow.logprobs, *heads, strict=False)
    for place, (name, also, p, q, first, second, third, theirs, following) in enumerate(rows):
        in_order = 0.0 >= first > second > third and 0.0 >= theirs > following
        fits[place] = fits[place] and in_order and name == also and p is not None and q is not None


def _by(flat: list[T], width: int) -> Iterator[tuple[T, ...]]:
    """Cut into rows."""
    return zip(*[iter(flat)] * width, strict=True)


def _aligned(
    chosen: list[str],
    rows: list[tuple[str, ...]],
    others: list[tuple[str, ...]],
    values: list[float],
    fits: list[bool],
) -> tuple[list[float], dict[int, list[float | None]]]:
    """Put the shadow's values into the order of the primary's names; rows that are not of the same tokens come apart, and what does not fit is marked."""
    width = len(rows[0])
    aligned = values[:]
    apart: dict[int, list[float | None]] = {}
    for place, (row, other) in enumerate(zip(rows, others, strict=True)):
        if row == other or not fits[place]:
            continue
        at = place * width
        its = dict(zip(other, values[at : at + width], strict=True))
        if len(its) < width or chosen[place] not in its or "" in its:
            fits[place] = False
            continue
        found = list(map(its.get, row))
        if None in found:
            apart[place] = found
        else:
            aligned[at : at + width] = found  # type: ignore[assignment] # None was ruled out
    return aligned, apart


def _listed(
    known: int | None,
    name: str,
    chosen: tuple[float, float],
    names: tuple[list[str], list[str]],
    values: tuple[list[float], list[float]],
    *,
    comparable: bool,
) -> Entry | None:
    """Measure one position with lists of any length."""
    mine, theirs = values
    if len(mine) < 3 or len(theirs) < 3:
        return None
    first, second, third = mine[:3]
    if not 0.0 >= first > second > third or not 0.0 >= theirs[0] > theirs[1]:
        return None
    its, own = dict(zip(names[1], theirs, strict=True)), set(names[0])
    if len(its) < len(theirs) or len(own) < len(mine) or "" in own or "" in its:
        return None
    if name not in its or name not in own:
        return None
    kl = tv = shift = None
    if comparable:
        one, two = its.get(names[0][0]), its.get(names[0][1])
        shift = None if one is None or two is None else one - two - (first - second)
        pairs = [(logprob, its[other]) for other, logprob in zip(names[0], mine, strict=True) if other in its]
        kl, tv = _bounds([pair[0] for pair in pairs], [pair[1] for pair in pairs])
    q = chosen[1]
    rank = 1 if q >= theirs[0] else 1 + sum(value > q for value in theirs)
    return known, chosen[0], q, first - second, theirs[0] - theirs[1], shift, rank, kl, tv, True


def _bare(primary: Columns, shadow: Columns, common: int, *, comparable: bool) -> tuple[Table, list[int]]:
    """Measure positions at which the primary lists no alternatives, as when a client asks for logprobs alone."""
    nothing: list[float | None] = [None] * common
    own_gaps, ranks, kls, tvs = nothing[:], nothing[:], nothing[:], nothing[:]
    left: list[int] = []
    rows = zip(primary.names, shadow.names, primary.logprobs, shadow.logprobs, shadow.rows(common), strict=False)
    for place, (name, also, p, q, (others, theirs)) in enumerate(rows):
        if p is None or q is None or name != also:
            left.append(place)
            continue
        its = _own(name, q, others, theirs)
        if its is None:
            left.append(place)
            continue
        listed, own_gaps[place], ranks[place] = its
        its_share = exp(listed) if listed <= 0.0 else 1.0
        if not theirs and its_share > 0.5 + MASS_ERROR:
            ranks[place] = 1
        if comparable:
            share = exp(p) if p <= 0.0 else 1.0
            p_rest, q_rest = 1.0 - share, 1.0 - its_share
            kls[place] = tvs[place] = 0.0
            if p_rest >= MASS_ERROR and q_rest >= MASS_ERROR:
                kls[place] = kl_bound(share * (p - listed), p_rest, q_rest)
                tvs[place] = 0.5 * (abs(share - its_share) + abs(p_rest - q_rest))
    ids = list(primary.ids[:common]) if primary.ids else nothing
    chosen = primary.logprobs[:common], shadow.logprobs[:common]
    return [ids, *chosen, nothing[:], own_gaps, nothing[:], ranks, kls, tvs, [True] * common], left


def _own(name: str, q: float, names: list[str], values: list[float]) -> tuple[float, float | None, int | None] | None:
    """What one arm shows beside the chosen token's ``q``: its listed value, its own gap, the token's rank. None: not usual."""
    if not values:
        return q, None, None
    its = dict(zip(names, values, strict=True))
    if name not in its or len(its) < len(values) or "" in its or len(values) < 3 or not 0.0 >= values[0] > values[1]:
        return None
    return its[name], values[0] - values[1], 1 if q >= values[0] else 1 + sum(value > q for value in values)


def _bounds_by(mine: list[float], theirs: list[float], width: int) -> tuple[list[float | None], list[float | None]]:
    """``_bounds`` of every row of ``width`` values."""
    found = list(map(_bounds, _by(mine, width), _by(theirs, width)))
    return [kl for kl, _ in found], [tv for _, tv in found]


def _bounds(mine: Sequence[float], theirs: Sequence[float]) -> tuple[float, float]:
    """``distance.lower_bounds`` of values none of which is above 0, ``mine`` in descending order; to ``SUMMED``, for the sums of one pass are plain ones.

    Of two distributions what one has more is as much as the other has: half the sum of differences is the sum of those above 0.
    """
    if mine == theirs:
        return 0.0, 0.0
    p_rest = q_rest = 1.0
    mean = move = 0.0
    for one, other in zip(mine, theirs, strict=True):
        p, q = exp(one), exp(other)
        p_rest -= p
        q_rest -= q
        mean += p * (one - other)
        if p > q:
            move += p - q
    if p_rest < _LEAST_REST or q_rest < _LEAST_REST or not 1.0 / _APART < p_rest / q_rest < _APART:
        return _exact_bounds(list(mine), list(theirs))
    return kl_bound(mean, p_rest, q_rest), move + p_rest - q_rest if p_rest > q_rest else move


def _exact_bounds(mine: list[float], theirs: list[float]) -> tuple[float, float]:
    """``_bounds`` to the last bit."""
    if mine == theirs:
        return 0.0, 0.0
    ps, qs = list(map(exp, mine)), list(map(exp, theirs))
    p_rest, q_rest = 1.0 - fsum(ps), 1.0 - fsum(qs)
    if p_rest < MASS_ERROR or q_rest < MASS_ERROR:
        size = len(ps)
        while size and (p_rest < MASS_ERROR or q_rest < MASS_ERROR):
            size -= 1
            if size and ps[size - 1] == ps[size]:  # which of two goes first is settled there
                return lower_bounds(list(zip(mine, theirs, strict=True)))
            p_rest, q_rest = p_rest + ps[size], q_rest + qs[size]
        if not size:
            return 0.0, 0.0
        mine, theirs, ps, qs = mine[:size], theirs[:size], ps[:size], qs[:size]
    kl = kl_bound(fsum(map(mul, ps, map(sub, mine, theirs))), p_rest, q_rest)
    tv = 0.5 * (fsum(map(abs, map(sub, ps, qs))) + abs(p_rest - q_rest))
    return kl, tv
