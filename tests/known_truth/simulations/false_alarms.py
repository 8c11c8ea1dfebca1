"""How often a verdict is wrong though somebody looks after every conversation: 1,000 days of 2,000 conversations, each begun anew; beside it the z-test that everybody knows."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from tests.known_truth.simulations.paths import Numbers, Truth, days, evidence, wilson

ALPHAS = (0.01, 0.05)
LENGTH = 2000
_BLOCK = 50  # days at a time: 20 MB
_EVERY = 50  # conversations between two looks at the z-test
_TWO_SIDED = f"either, by a two-sided z-test looked at every {_EVERY}"
_ORDINARY = (f"FAIL, by a z-test looked at every {_EVERY}", _TWO_SIDED)
#: Base rate of bad conversations, margin.
_CASES = ((0.005, 0.01), (0.02, 0.01), (0.2, 0.05))
_ALLOWANCE = 0.01


class Wrong(NamedTuple):
    """Of so many days, on how many ``said`` was ever said, by alpha."""

    truth: Truth
    said: str
    days: int
    alarms: tuple[int, ...]


def false_alarms(seed: int, many: int = 1000) -> Iterator[Wrong]:
    """Go through what is true and wrongly said of it: on the margin either verdict is wrong, inside it FAIL is, beyond it PASS."""
    rng = np.random.default_rng(seed)
    for base, margin in _CASES:
        yield from _of(rng, Truth(base, margin, margin), ("FAIL", "PASS", *_ORDINARY), many)
        yield from _of(rng, Truth(base, 0.0, margin), ("FAIL",), many)
        yield from _of(rng, Truth(base, 2 * margin, margin), ("PASS",), many)
    yield from _of(rng, Truth(_ALLOWANCE, 0.0, _ALLOWANCE, alone=True), ("FAIL", "PASS"), many)


def _of(rng: np.random.Generator, truth: Truth, verdicts: tuple[str, ...], many: int) -> Iterator[Wrong]:
    most: dict[str, list[Numbers]] = {said: [] for said in verdicts}
    for begin in range(0, many, _BLOCK):
        counts = days(rng, truth, min(_BLOCK, many - begin), LENGTH)
        for said in verdicts:
            most[said].append(_most(counts, truth, said))
    for said in verdicts:
        found = np.concatenate(most[said])
        yield Wrong(truth, said, many, tuple(int((found >= _bound(said, alpha)).sum()) for alpha in ALPHAS))


def _most(counts: Numbers, truth: Truth, said: str) -> Numbers:
    """The most that ever spoke for it, by day."""
    if said not in _ORDINARY:
        return evidence(counts, truth.bound, over=said == "FAIL").max(axis=1)
    looked = counts[:, _EVERY - 1 :: _EVERY]
    n = looked.sum(axis=2)
    mean = (looked[:, :, 0] - looked[:, :, 2]) / n
    variance = (looked[:, :, 0] + looked[:, :, 2]) / n - mean**2
    scored = (mean - truth.margin) * np.sqrt(n) / np.sqrt(np.where(variance > 0, variance, np.inf))
    most: Numbers = (np.abs(scored) if said == _TWO_SIDED else scored).max(axis=1)
    return most


def _bound(said: str, alpha: float) -> float:
    if said in _ORDINARY:
        return NormalDist().inv_cdf(1 - alpha / (2 if said == _TWO_SIDED else 1))
    return float(np.log(1 / alpha))


def table(seed: int) -> list[str]:
    """The table as Markdown."""
    rows = [
        "| base rate | margin | true difference | wrongly said | alpha 1 % | alpha 5 % |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for wrong in false_alarms(seed):
        shown = []
        for hits in wrong.alarms:
            low, high = wilson(hits, wrong.days)
            shown.append(f"{hits / wrong.days:.1%} ({low:.1%} to {high:.1%})")
        base, difference, margin, alone = wrong.truth
        said = f"{wrong.said}, no control" if alone else wrong.said
        rows.append(f"| {base:.1%} | {margin:.0%} | {difference:.0%} | {said} | {' | '.join(shown)} |")
    return rows
