"""The verdict on a migration: PASS, FAIL or KEEP WATCHING, from counts that add up over replicas, workers and restarts.

House rules. Pure. It never says PASS for want of evidence, and what is missing is never taken for good: a PASS needs few missing results, and the worst
case over all of them stands beside every verdict. Whoever looks a thousand times is told something wrong with probability alpha at most, on either side.
"""

from __future__ import annotations

from enum import StrEnum
from math import log

from msgspec import Struct

from proxy.compare.betting import Outcomes, above, below, interval, log_wealth, needed, worse_than_control
from proxy.compare.confidence_sequence import Shares


class State(StrEnum):
    """What is known of a candidate."""

    PASS = "PASS"  # noqa: S105 - a verdict
    FAIL = "FAIL"
    WATCH = "KEEP WATCHING"


class Floor(StrEnum):
    """What a candidate is held against."""

    CONTROL = "control"
    ASSUMED = "assumed"


class Terms(Struct, frozen=True):
    """What the user chose before looking.

    ``alpha``: probability of a wrong PASS, and of a wrong FAIL. ``margin``: by how much more often than the control a candidate's conversation may be bad.
    ``allowance``: the share of conversations that may be bad where there is no control.
    """

    alpha: float = 0.01
    margin: float = 0.01
    allowance: float = 0.01


class Tally(Struct, frozen=True):
    """Conversations of one candidate, each counted once.

    With a control by pairs: ``worse`` (only the candidate was bad), ``better`` (only the control was), ``both``, ``neither``. Without one ``worse`` and ``neither``.
    ``missing``: sampled, and not compared on both; of them those in which the control differs from the primary by nobody knows what, ``both_apart`` where the
    candidate was bad, ``control_apart`` where it was not known to be.
    """

    worse: int = 0
    better: int = 0
    both: int = 0
    neither: int = 0
    missing: int = 0
    controlled: bool = True
    control_apart: int = 0
    both_apart: int = 0

    def __add__(self, other: Tally) -> Tally:
        if self.controlled != other.controlled:
            raise ValueError("pairs with a control and results without one do not add up")
        return Tally(
            self.worse + other.worse,
            self.better + other.better,
            self.both + other.both,
            self.neither + other.neither,
            self.missing + other.missing,
            self.controlled,
            self.control_apart + other.control_apart,
            self.both_apart + other.both_apart,
        )

    @property
    def spared(self) -> Outcomes:
        """The three values of Y as a FAIL has to bear them: where the control differed by nobody knows what, it was the bad one, too."""
        return self.outcomes() + Outcomes(alike=self.both_apart, better=self.control_apart)

    @property
    def seen(self) -> int:
        """Conversations with a result."""
        return self.worse + self.better + self.both + self.neither

    @property
    def coverage(self) -> float | None:
        """The share of conversations that have a result, None before the first."""
        every = self.seen + self.missing
        return self.seen / every if every else None

    def outcomes(self, *, missing_as_worse: bool = False) -> Outcomes:
        """The three values of Y; without a control there are two."""
        worse = self.worse + (self.missing if missing_as_worse else 0)
        alike = self.both + self.neither if self.controlled else 0
        return Outcomes(worse, alike, self.better if self.controlled else self.neither)


class Verdict(Struct, frozen=True):
    """A verdict and what it rests on.

    ``log_e_fail``, ``log_e_pass`` and ``log_e_worse_than_control`` (None without a control) are natural logarithms of evidence; a verdict takes ln(1 / alpha).
    ``excess``: the confidence sequence of the difference in shares of bad conversations, candidate minus control (without a control: the candidate's share), at
    1 - alpha. ``worst_case``: the verdict if every missing result were bad for the candidate alone. ``needed``: conversations until a decision, if they go on
    as so far; None where that is not known.
    """

    state: State
    floor: Floor
    terms: Terms
    tally: Tally
    log_e_fail: float
    log_e_pass: float
    log_e_worse_than_control: float | None
    excess: tuple[float, float] | None
    worst_case: State
    needed: int | None


def judge(tally: Tally, terms: Terms) -> Verdict:
    """Say what the counts prove.

    The mean of Y is (1 + difference) / 2 with a control, so the margin on the difference is a bound of (1 + margin) / 2 on the mean; without a control it is the
    candidate's share itself, bounded by the allowance. What of the control differs and cannot be classed is taken for bad in the test of FAIL: where tokens are lent by the
    control they are known only where it agrees with the primary, and in those alone every candidate as noisy as the control would look worse.
    """
    bound = _bound(tally, terms)
    outcomes = tally.outcomes()
    spared = tally.spared if tally.controlled else outcomes
    fail, passed = evidence(tally, terms)
    worse = outcomes.mean is not None and outcomes.mean > bound
    state = _state(tally, terms, fail, passed)
    feared = tally.outcomes(missing_as_worse=True)
    edges = interval(outcomes, terms.alpha) if tally.seen else None
    return Verdict(
        state=state,
        floor=Floor.CONTROL if tally.controlled else Floor.ASSUMED,
        terms=terms,
        tally=tally,
        log_e_fail=fail,
        log_e_pass=passed,
        log_e_worse_than_control=worse_than_control(tally.worse, tally.better) if tally.controlled else None,
        excess=None if edges is None else _shares(edges, controlled=tally.controlled),
        worst_case=_decided(terms, above(feared, bound), below(feared, bound)),
        needed=0 if state is not State.WATCH else needed(spared if worse else outcomes, bound, terms.alpha),
    )


def evidence(tally: Tally, terms: Terms) -> tuple[float, float]:
    """Return the natural logarithms of the evidence for FAIL and for PASS."""
    outcomes = tally.outcomes()
    spared = tally.spared if tally.controlled else outcomes
    return above(spared, _bound(tally, terms)), below(outcomes, _bound(tally, terms))


def _bound(tally: Tally, terms: Terms) -> float:
    return (1 + terms.margin) / 2 if tally.controlled else terms.allowance


def verdict_of_variation(shares: Shares, terms: Terms, *, controlled: bool) -> tuple[float, float]:
    """Return the log evidence that the mean of ``trial.variation`` is above, and below, the bound of the terms.

    Values were rounded in bins: down for the first, up for the second, so that neither gains by it.
    """
    bound = (1 + terms.margin) / 2 if controlled else terms.allowance
    return log_wealth(shares.lowered, bound, over=True), log_wealth(shares.raised, bound, over=False)


def _state(tally: Tally, terms: Terms, fail: float, passed: float) -> State:
    """A PASS needs a result for all but half the margin of the conversations: what is missing could else hide the difference."""
    state = _decided(terms, fail, passed)
    tolerated = (terms.margin if tally.controlled else terms.allowance) / 2
    if state is State.PASS and tally.missing > tolerated * (tally.seen + tally.missing):
        return State.WATCH
    return state


def _decided(terms: Terms, fail: float, passed: float) -> State:
    bound = log(1 / terms.alpha)
    if fail >= bound:
        return State.FAIL
    return State.PASS if passed >= bound else State.WATCH


def _shares(edges: tuple[float, float], *, controlled: bool) -> tuple[float, float]:
    """From the mean of Y to a difference in shares."""
    return (2 * edges[0] - 1, 2 * edges[1] - 1) if controlled else edges
