"""Flips against those that noise alone makes: whether an arm is numerically noisier, or wrong.

A position at which the primary prefers its first token to its second by a gap of g nats flips where the shift d(1st) - d(2nd) is below -g. How likely noise like the control's makes it so is said in
three ways. ``shifts``: the share of the control's own shifts that are below -g, whatever their shape; engines in bf16 have many of exactly 0 and the others on a grid. ``fitted``, once the control
has flipped often enough: the share of flips that it shows itself, fitted to fall with the gap (``isotonic``), which holds though shifts hang on the gap. ``normal``: Phi(-g / s), s the root mean
square of the control's shifts; a reference, right where noise is normal. The sum over an arm's positions is what noise like the control's would make of them, and what was observed beyond it is
the excess. Positions are those that could show a flip: in free mode up to and including the first difference, in forced mode all scored.

House rules. Pure. No conversation is judged by its own noise: the model that judges it is learned from the others, in ``FOLDS`` parts by a hash. The unit of resampling is
the conversation, and the model is learned anew in every replicate. Only positions count whose gap the primary's list shows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from itertools import accumulate
from math import erfc, hypot, sqrt
from operator import mul
from statistics import pvariance
from typing import Any, NamedTuple

from proxy.compare.flip_gaps import Arm, Layout, layout, passing
from proxy.compare.hazard import CONFIDENCE, ENOUGH_CONVERSATIONS, Edges
from proxy.compare.isotonic import falling
from proxy.compare.near_tie import ENOUGH_POSITIONS
from proxy.compare.quantile import quantile
from proxy.compare.resample import lanes, replicates

FOLDS = 4
#: With fewer of the control's flips a curve of them says less than its shifts.
ENOUGH_FLIPS = 20
#: With fewer flips the percentiles of a bootstrap are too narrow, and the count's own interval is used.
_FEW = 10

_TAIL, _Z = (1.0 - CONFIDENCE) / 2, 1.959964
_BEYOND = erfc(3.0 / sqrt(2.0))
_ROWS = 5  # of columns in a fold
_WHOLE = 2**50  # lanes hold whole numbers: squares are counted in so many parts of their sum

Summary = dict[str, Any]


class Fold(NamedTuple):
    """One part, once or in one replicate: by column, positions and flips of the arm and of the control, and how its shifts pass (``passing``); their number and squares."""

    own: Sequence[int]
    own_flips: Sequence[int]
    noise: Sequence[int]
    noise_flips: Sequence[int]
    passed: Sequence[int]
    shifts: int
    squares: int


Model = Callable[[Sequence[Fold]], float]


def summarise_expected(arm: Arm, control: Arm) -> Summary:
    """Hold an arm's flips against those that the control's noise makes; ``control`` may be the arm itself, which checks the model.

    ``model`` says which one ``expected``, ``excess`` and ``interval`` are of: ``fitted`` where the control has enough flips, else ``shifts``; all stand below. ``n`` positions of so
    many ``conversations``. The interval is of the excess, absent with fewer than ``ENOUGH_CONVERSATIONS``. ``tails`` (control): see ``_tails``. ``own_noise``: see ``_own_noise``. Empty without positions, or
    with too few of the control's.
    """
    if not arm.positions or control.shifts < ENOUGH_POSITIONS:
        return {}
    columns = layout(arm, control)
    unit = sum(one.squares for one in control.conversations.values()) / _WHOLE or 1.0
    seen = _folds(_sums(arm, control, columns, unit, lambda _: 1))
    if any(sum(fold.shifts for fold in seen) == fold.shifts for fold in seen):
        return {}  # all of the control's shifts are of one fold: nothing is left to judge that one by
    draws = _draws(arm, control, columns, unit)
    models: dict[str, Model] = {
        "normal": lambda folds: _by_normal(folds, columns.gaps, unit),
        "shifts": _by_shifts,
    }
    if control.flips >= ENOUGH_FLIPS and control.flipped >= ENOUGH_CONVERSATIONS:
        models["fitted"] = _by_curve
    found = {name: _excess(model, seen, draws) for name, model in models.items()}
    model = "fitted" if "fitted" in found else "shifts"
    summary: Summary = {"observed": arm.flips, "model": model, **found[model], "n": arm.positions}
    summary |= {"conversations": len(arm.conversations), "s_nats": control.scale, **found}
    summary["noise"] = {"n": control.positions, "flips": control.flips, "conversations": len(control.conversations)}
    if "fitted" in found:
        summary["curve"] = _curve(control)
    if arm is control and draws and control.scale:
        summary["tails"] = _tails(control)
    if arm is not control and arm.shifts >= ENOUGH_POSITIONS:
        summary["own_noise"] = _own_noise(*arm.typical, columns.gaps, seen, draws)
    return summary


def _own_noise(moved: float, scale: float, gaps: Sequence[float], seen: list[Fold], draws: list[list[Fold]]) -> Summary:
    """Hold an arm's flips against those that noise of its own size makes, as nearly all of its positions have it (``Arm.typical``): 0, or else normal.

    An arm that is noisier than the control, and not otherwise wrong, has no excess over that.
    """
    found = _excess(lambda folds: moved * sum(_normal(fold, gaps, scale) for fold in folds), seen, draws)
    return {"s_nats": scale, "moved": moved, **found}


def _tails(control: Arm) -> Summary:
    """Say how many of the control's shifts are beyond three times their root mean square: 0.27 % of normal ones.

    ``says``: ``heavier`` or ``lighter`` tails than the normal's where the interval over conversations leaves nothing else, ``normal`` where it does not.
    """
    far = 3.0 * control.scale
    beyond = {key: sum(abs(one) > far for one in it.shifts) for key, it in control.conversations.items()}
    weighted = [
        replicates(sum(lanes(key) * n for key, n in counted.items()))
        for counted in (beyond, {key: len(one.shifts) for key, one in control.conversations.items()})
    ]
    low, high = _percentiles([part / whole for part, whole in zip(*weighted, strict=True) if whole])
    says = "heavier" if low > _BEYOND else "lighter" if high < _BEYOND else "normal"
    return {
        "says": says,
        "beyond_3s": sum(beyond.values()) / control.shifts,
        "interval": [low, high],
        "n": control.shifts,
    }


def _draws(arm: Arm, control: Arm, columns: Layout, unit: float) -> list[list[Fold]]:
    """Return every replicate; none where conversations are too few, or cannot be told apart."""
    few = min(len(arm.conversations), len(control.conversations)) < ENOUGH_CONVERSATIONS
    if few or not arm.known or not control.known:
        return []
    drawn = [replicates(total) for total in _sums(arm, control, columns, unit, lanes)]
    return [_folds(draw) for draw in zip(*drawn, strict=True)]


def _fold(conversation: str) -> int:
    return blake2b(conversation.encode(), digest_size=1, person=b"fold").digest()[0] % FOLDS


def _sums(arm: Arm, control: Arm, columns: Layout, unit: float, weight: Callable[[str], int]) -> list[int]:
    """Return the sums that make up ``FOLDS`` folds, in the order that ``_folds`` reads; a conversation's counts are multiplied by its weight."""
    size = len(columns.gaps)
    width = _ROWS * size + 2
    sums = [0] * (FOLDS * width)
    for row, side in ((0, arm), (2, control)):
        for key, one in side.conversations.items():
            start, times = _fold(key) * width, weight(key)
            for place, (n, flips) in one.bins.items():
                column = start + row * size + columns.column[place]
                sums[column] += times * n
                if flips:
                    sums[column + size] += times * flips
    for key, one in control.conversations.items():
        start, times = _fold(key) * width, weight(key)
        for column, halves in enumerate(passing(one.shifts, columns.gaps, chose=control.chose), start + 4 * size):
            if halves:
                sums[column] += times * halves
        sums[start + width - 2] += times * len(one.shifts)
        sums[start + width - 1] += times * round(one.squares / unit)
    return sums


def _folds(sums: Sequence[int]) -> list[Fold]:
    width = len(sums) // FOLDS
    size = (width - 2) // _ROWS
    folds: list[Fold] = []
    for start in range(0, len(sums), width):
        own, own_flips, noise, noise_flips, passed = (
            sums[start + row * size : start + (row + 1) * size] for row in range(_ROWS)
        )
        folds.append(Fold(own, own_flips, noise, noise_flips, passed, *sums[start + width - 2 : start + width]))
    return folds


def _by_normal(folds: Sequence[Fold], gaps: Sequence[float], unit: float) -> float:
    """Return the expected flips where shifts are normal, each fold judged by the others' size of them."""
    shifts, squares = sum(fold.shifts for fold in folds), sum(fold.squares for fold in folds)
    expected = 0.0
    for fold in folds:
        others = shifts - fold.shifts
        expected += _normal(fold, gaps, sqrt(unit * (squares - fold.squares) / others) if others else 0.0)
    return expected


def _normal(fold: Fold, gaps: Sequence[float], scale: float) -> float:
    """Return the sum of Phi(-gap / scale) over the arm's positions; shifts of size 0 make no flip."""
    if not scale:
        return 0.0
    return sum(n * 0.5 * erfc(gap / (scale * sqrt(2.0))) for n, gap in zip(fold.own, gaps, strict=True) if n)


def _by_shifts(folds: Sequence[Fold]) -> float:
    """Return the expected flips by the control's own shifts, each fold judged by the others'."""
    shifts = sum(fold.shifts for fold in folds)
    passed = [sum(column) for column in zip(*(fold.passed for fold in folds), strict=True)]
    expected = 0.0
    for fold in folds:
        others = shifts - fold.shifts
        if others:
            beyond = [total - mine for total, mine in zip(passed, fold.passed, strict=True)]
            over = list(accumulate(reversed(beyond)))  # widest gap first
            expected += sum(map(mul, fold.own, reversed(over))) / (2.0 * others)
    return expected


def _by_curve(folds: Sequence[Fold]) -> float:
    """Return the expected flips by the control's own share of them at each gap, each fold judged by the others' curve."""
    noise = [sum(column) for column in zip(*(fold.noise for fold in folds), strict=True)]
    flips = [sum(column) for column in zip(*(fold.noise_flips for fold in folds), strict=True)]
    expected = 0.0
    for fold in folds:
        others = [total - mine for total, mine in zip(noise, fold.noise, strict=True)]
        flipped = [total - mine for total, mine in zip(flips, fold.noise_flips, strict=True)]
        expected += sum(map(mul, fold.own, falling(others, flipped)))
    return expected


def _excess(model: Model, seen: list[Fold], draws: list[list[Fold]]) -> Summary:
    observed, expected = sum(sum(fold.own_flips) for fold in seen), model(seen)
    found: Summary = {"expected": expected, "excess": observed - expected}
    if draws:
        pairs = [(sum(sum(fold.own_flips) for fold in draw), model(draw)) for draw in draws]
        found["interval"] = list(_interval(observed, expected, pairs))
    return found


def _interval(observed: int, expected: float, pairs: Sequence[tuple[int, float]]) -> Edges:
    """Return the interval of observed minus expected: percentiles of the bootstrap, in pairs; with few flips put together from both terms' own.

    A count of few has the score interval of a Poisson mean, made wider by how much more than a Poisson count it varies over conversations; MOVER (Zou and Donner 2008, Statistics in
    Medicine 27, 1693-1702) puts it together with the percentiles of what was expected, as if the two were independent.
    """
    if observed >= _FEW:
        return _percentiles([one - other for one, other in pairs])
    wider = max(1.0, pvariance([one for one, _ in pairs]) / observed) if observed else 1.0
    own = observed / wider
    half = _Z * sqrt(own + _Z * _Z / 4.0)
    most, least = wider * (own + _Z * _Z / 2.0 + half), wider * (own + _Z * _Z / 2.0 - half)
    low, high = _percentiles([other for _, other in pairs])
    excess = observed - expected
    return excess - hypot(observed - least, high - expected), excess + hypot(most - observed, expected - low)


def _percentiles(values: Sequence[float]) -> Edges:
    ordered = sorted(values)
    return quantile(ordered, _TAIL), quantile(ordered, 1.0 - _TAIL)


def _curve(control: Arm) -> list[Summary]:
    """Return the fitted shares over all of the control's conversations: one entry for each range of gaps with one share. The last one has no end."""
    column, gaps, edges = layout(control, control)
    sizes, events = [0] * len(gaps), [0] * len(gaps)
    for one in control.conversations.values():
        for place, (n, flips) in one.bins.items():
            sizes[column[place]] += n
            events[column[place]] += flips
    curve: list[Summary] = []
    for edge, n, flips, share in zip(edges, sizes, events, falling(sizes, events), strict=True):
        if curve and curve[-1]["share"] == share:
            curve[-1]["n"] += n
            curve[-1]["flips"] += flips
        else:
            curve.append({"from_nats": edge, "n": n, "flips": flips, "share": share})
    return curve
