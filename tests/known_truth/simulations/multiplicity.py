"""Many slices at once: of those that e-BH names, how many are named wrongly, though one stops looking when something is named; beside it Benjamini and Hochberg's procedure on p-values."""

from __future__ import annotations

from functools import cache
from math import comb
from typing import NamedTuple

import numpy as np

from proxy.compare import e_bh
from proxy.compare.betting import worse_than_control

SLICES, FAULTY, WORSE = 20, 5, 0.7
_LOOKS = range(10, 201, 10)  # conversations in which the arms differ, in each slice


class Named(NamedTuple):
    """Means over runs: the share of what was named that was so wrongly, and the share of the faulty slices that were named; in how many runs anything was."""

    wrongly: float
    found: float
    named: float


def run(seed: int, alpha: float, *, faulty: int = FAULTY, stop: bool, ordinary: bool, runs: int = 200) -> Named:
    """Name slices at the last look, or (``stop``) at the first look that names any; by e-BH, or by BH on binomial p-values (``ordinary``)."""
    rng = np.random.default_rng(seed)
    shares = np.where(np.arange(SLICES) < faulty, WORSE, 0.5)
    wrongly, found, some = [], [], 0
    for _ in range(runs):
        worse = np.cumsum(rng.random((_LOOKS[-1], SLICES)) < shares, axis=0)
        chosen = [False] * SLICES
        for look in _LOOKS if stop else (_LOOKS[-1],):
            counts = worse[look - 1].tolist()
            if ordinary:
                chosen = _benjamini_hochberg([_p_value(count, look) for count in counts], alpha)
            else:
                chosen = e_bh.named([_evidence(count, look) for count in counts], alpha)
            if any(chosen):
                break
        wrongly.append(sum(chosen[faulty:]) / max(1, sum(chosen)))
        found.append(sum(chosen[:faulty]) / max(1, faulty))
        some += any(chosen)
    return Named(float(np.mean(wrongly)), float(np.mean(found)), some / runs)


@cache
def _evidence(worse: int, of: int) -> float:
    return worse_than_control(worse, of - worse)


@cache
def _p_value(worse: int, of: int) -> float:
    return sum(comb(of, count) for count in range(worse, of + 1)) / 2**of


def _benjamini_hochberg(p_values: list[float], alpha: float) -> list[bool]:
    ordered = sorted(p_values)
    passed = [p for place, p in enumerate(ordered, 1) if p <= alpha * place / len(ordered)]
    return [bool(passed) and p <= passed[-1] for p in p_values]


def table(seed: int) -> list[str]:
    """The table as Markdown."""
    rows = [
        "| faulty slices | named by | when | named wrongly, of the named | faulty slices found |",
        "| --- | --- | --- | --- | --- |",
    ]
    for faulty in (0, FAULTY):
        for stop in (False, True):
            for ordinary in (False, True):
                made = run(seed, 0.05, faulty=faulty, stop=stop, ordinary=ordinary)
                when = "as soon as any is" if stop else f"after {_LOOKS[-1]} differing conversations each"
                by = "BH on p-values" if ordinary else "e-BH"
                rows.append(f"| {faulty} of {SLICES} | {by} | {when} | {made.wrongly:.1%} | {made.found:.0%} |")
    return [row.replace(" | 0% |", " | – |") if f"| 0 of {SLICES} |" in row else row for row in rows]
