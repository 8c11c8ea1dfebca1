"""What came of holding one arm's reply against the primary's: the values that are recorded, counted and shown.

House rules. Frozen values only, msgspec-encodable, additive changes only (they are stored). Positions are 0-based.
All logprobs, gaps and errors are in nats. ``None`` means unknown; a quantity that was not measured is never 0.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Mode(StrEnum):
    """How the shadow was run: on its own, or scoring the primary's tokens."""

    FREE = "free"
    FORCED = "forced"


class FlipClass(StrEnum):
    """Why two arms differ at a token (the contract's four classes)."""

    EXACT_TIE = "exact_tie"
    NEAR_TIE = "near_tie"
    GENUINE = "genuine"
    UNKNOWN = "unknown"


class Pick(StrEnum):
    """Which member of a set of exactly tied tokens an arm chose, by token id."""

    LOWEST = "lowest"
    HIGHEST = "highest"
    OTHER = "other"


class SeenBy(StrEnum):
    """Which arm reports two candidates as exactly equal."""

    BOTH = "both"
    PRIMARY = "primary"
    SHADOW = "shadow"


class Source(StrEnum):
    """Where the primary's tokens came from, best first."""

    REPLY = "reply"
    INJECT = "inject"
    BY_CONTROL = "by_control"
    RESCORE = "rescore"
    CANONICAL = "canonical"
    TEXT = "text"


class TokenRef(Struct, frozen=True):
    """One token as one arm reported it."""

    id: int | None = None
    text: str | None = None
    logprob: float | None = None


class Flip(Struct, frozen=True):
    """One place where the arms part: the first difference in ``free`` mode, any position in ``forced`` mode.

    ``gap`` is the primary's logprob difference between the two tokens concerned (its own minus the shadow's pick),
    ``shadow_gap`` the shadow's between the same two (its own pick minus the primary's); None where a list does not show
    both. ``tie_seen_by`` is set for ``exact_tie`` only. ``lowest`` names the arm ("primary" or "shadow") that chose the
    lower token id, None without ids. ``tie_break_mismatch`` is an exact tie seen by both.
    """

    index: int
    primary: TokenRef
    shadow: TokenRef
    kind: FlipClass
    gap: float | None = None
    shadow_gap: float | None = None
    tie_seen_by: SeenBy | None = None
    primary_pick: Pick | None = None
    shadow_pick: Pick | None = None
    lowest: str | None = None
    tie_break_mismatch: bool = False


class Tie(Struct, frozen=True):
    """An exact tie at the top of an arm's list, whether or not anything flipped there (exposure).

    ``arm`` is "primary" or "shadow"; ``size`` how many tokens share the top logprob; ``pick`` which of them the arm
    chose (None in forced mode for the shadow, which shows belief and not choice, and wherever ids are missing).
    """

    index: int
    arm: str
    size: int
    pick: Pick | None = None


class ChoiceComparison(Struct, frozen=True):
    """One choice (token stream) held against its counterpart.

    ``compared`` positions run from 0; the arrays below have one entry per compared position, None where an arm gave no
    value. ``exposed`` is the number of positions at which the arms could have parted (the common prefix, plus the
    parting position itself). ``first`` is the first difference (``free`` mode only). ``flips`` are all top-1
    disagreements (``forced`` mode only). ``identical``: same tokens to the end and same finish reason (``free``), by
    text alone where ``by_text``. ``positions`` lists the compared indices when they are not 0..compared-1 (an engine
    that scores a sample of positions), else None.
    """

    index: int
    primary_tokens: int | None
    shadow_tokens: int | None
    compared: int
    exposed: int
    identical: bool
    by_text: bool = False
    censored: str | None = None
    first: Flip | None = None
    flips: tuple[Flip, ...] = ()
    ties: tuple[Tie, ...] = ()
    positions: tuple[int, ...] | None = None
    ids: tuple[int | None, ...] = ()
    primary_logprobs: tuple[float | None, ...] = ()
    shadow_logprobs: tuple[float | None, ...] = ()
    gaps: tuple[float | None, ...] = ()
    ranks: tuple[int | None, ...] = ()
    kl_lower_bounds: tuple[float | None, ...] = ()
    top1_agree: tuple[bool | None, ...] = ()
    first_text_difference: int | None = None
    finish_reasons: tuple[str | None, str | None] = (None, None)


class Comparison(Struct, frozen=True):
    """One exchange held against one shadow in one mode: compared, or incomparable with its reason."""

    mode: Mode
    source: Source | None = None
    incomparable: str | None = None
    choices: tuple[ChoiceComparison, ...] = ()
    findings: tuple[str, ...] = ()
    values_incomparable: str | None = None

    @property
    def outcome(self) -> str:
        """``incomparable``, ``identical`` or ``diverged`` (free), ``scored`` (forced): a bounded label."""
        if self.incomparable is not None:
            return "incomparable"
        if self.mode is Mode.FORCED:
            return "scored"
        return "identical" if all(choice.identical for choice in self.choices) else "diverged"
