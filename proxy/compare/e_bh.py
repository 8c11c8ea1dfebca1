"""Which of many hypotheses may be named wrong, when each comes with an e-value: the e-BH procedure.

Wang and Ramdas, "False discovery rate control with e-values", arXiv 2009.02824: of K e-values the k largest are named, with the largest k for which the k-th is
at least K / (k alpha). Of what is named a share of at most alpha is named wrongly, on average, however the e-values depend on each other.

House rules. Pure. Evidence is the natural logarithm of an e-value, as everywhere here.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log


def named(log_e: Sequence[float], alpha: float) -> list[bool]:
    """Say for each e-value whether its hypothesis is named at false discovery rate ``alpha``."""
    order = sorted(range(len(log_e)), key=lambda at: -log_e[at])
    needed = log(len(log_e) / alpha) if log_e else 0.0
    count = max((k for k, at in enumerate(order, 1) if log_e[at] >= needed - log(k)), default=0)
    chosen = set(order[:count])
    return [at in chosen for at in range(len(log_e))]


def needed(number: int, alpha: float) -> float:
    """Return the log evidence at which one of ``number`` hypotheses is named alone."""
    return log(number / alpha)
