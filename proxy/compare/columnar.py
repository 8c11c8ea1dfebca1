"""Two streams in columns held against each other: what ``position.measure`` says, without an object for each alternative.

House rules. The usual position and nothing else: at least three alternatives, no tie at the top, the chosen token among them, no name twice; or no list at
all. Everything else, and the place where the arms part, is left to ``measure``; the numbers are the same to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import exp, fsum, log
from operator import mul, sub

from proxy.compare.columns import Columns
from proxy.compare.distance import lower_bounds
from proxy.compare.position import Entry
from proxy.compare.row import MASS_ERROR


def usual(primary: Columns, shadow: Columns, common: int) -> list[Entry | None]:
    """Measure the first ``common`` positions, at which the arms chose the same token, as far as they are usual.

    None: not usual. This is the innermost loop of all comparing, and written to be that.
    """
    if primary.labelled is not shadow.labelled:
        return [None] * common
    ids: Sequence[int | None] = primary.ids or (None,) * common
    found: list[Entry | None] = []
    add = found.append
    for known, name, also, p, q, names, others, mine, theirs in zip(
        ids[:common], primary.names, shadow.names, primary.logprobs, shadow.logprobs, primary.listed, shadow.listed, primary.values, shadow.values,
        strict=False,
    ):  # fmt: skip
        if p is None or q is None or name != also:
            add(None)
        elif names == others and len(mine) > 2 and 0.0 >= mine[0] > mine[1] > mine[2] and 0.0 >= theirs[0] > theirs[1]:
            distinct = set(names)
            if len(distinct) < len(names) or name not in distinct or "" in distinct:
                add(None)
                continue
            gap, other_gap = mine[0] - mine[1], theirs[0] - theirs[1]
            rank = 1 if q >= theirs[0] else 1 + sum(value > q for value in theirs)
            add((known, p, q, gap, other_gap, other_gap - gap, rank, *_bounds(mine, theirs), True))
        elif mine or theirs:
            add(_reordered(known, name, (p, q), (names, others), (mine, theirs)))
        else:
            add(_alone(known, p, q))
    return found


def lists_whole(primary: Columns, shadow: Columns, upto: int) -> bool:
    """Say of the first ``upto`` rows that both arms show rivals in the same ones, and that no list is that of the row before. False: it may be."""
    mine, theirs = primary.values[:upto], shadow.values[:upto]
    if [len(column) > 1 for column in mine] != [len(column) > 1 for column in theirs]:
        return False
    return not any(
        one == other and names == others and len(one) > 1
        for arm in (primary, shadow)
        for (one, names), (other, others) in pairwise(zip(arm.values[:upto], arm.listed[:upto], strict=True))
    )


def _reordered(
    known: int | None,
    name: str,
    chosen: tuple[float, float],
    names: tuple[list[str], list[str]],
    values: tuple[list[float], list[float]],
) -> Entry | None:
    """The lists are not of the same tokens in the same order."""
    mine, theirs = values
    if len(mine) < 3 or len(theirs) < 3:
        return None
    first, second, third = mine[:3]
    if not 0.0 >= first > second > third or not 0.0 >= theirs[0] > theirs[1]:
        return None
    table, own = dict(zip(names[1], theirs, strict=True)), set(names[0])
    if len(table) < len(theirs) or len(own) < len(mine) or "" in own or "" in table:
        return None
    if name not in table or name not in own:
        return None
    one, two = table.get(names[0][0]), table.get(names[0][1])
    shift = None if one is None or two is None else one - two - (first - second)
    pairs = [(logprob, table[other]) for other, logprob in zip(names[0], mine, strict=True) if other in table]
    kl, tv = _bounds([pair[0] for pair in pairs], [pair[1] for pair in pairs])
    q = chosen[1]
    rank = 1 if q >= theirs[0] else 1 + sum(value > q for value in theirs)
    return known, chosen[0], q, first - second, theirs[0] - theirs[1], shift, rank, kl, tv, True


def _alone(known: int | None, p: float, q: float) -> Entry:
    """The chosen tokens have values, and there is no list on either side."""
    mine, theirs = (exp(p) if p <= 0.0 else 1.0), (exp(q) if q <= 0.0 else 1.0)
    p_rest, q_rest = 1.0 - mine, 1.0 - theirs
    kl = tv = 0.0
    if p_rest >= MASS_ERROR and q_rest >= MASS_ERROR:
        kl = mine * (p - q) + p_rest * log(p_rest / q_rest)
        kl = max(0.0, kl)
        tv = 0.5 * (abs(mine - theirs) + abs(p_rest - q_rest))
    return known, p, q, None, None, None, 1 if theirs > 0.5 + MASS_ERROR else None, kl, tv, True


def _bounds(mine: list[float], theirs: list[float]) -> tuple[float, float]:
    """``distance.lower_bounds`` of values none of which is above 0; ``mine`` in descending order."""
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
    kl = fsum(map(mul, ps, map(sub, mine, theirs))) + p_rest * log(p_rest / q_rest)
    tv = 0.5 * (fsum(map(abs, map(sub, ps, qs))) + abs(p_rest - q_rest))
    return max(0.0, kl), tv
