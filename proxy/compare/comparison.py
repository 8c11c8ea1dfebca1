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


class By(StrEnum):
    """What told the arms' tokens apart, best first."""

    ID = "id"
    BYTES = "bytes"
    TEXT = "text"


class TauOrigin(StrEnum):
    """Where the near-tie threshold came from."""

    CONFIGURED = "configured"
    LEARNED = "learned"
    ASSUMED = "assumed"


class Source(StrEnum):
    """Where the primary's tokens came from, best first."""

    REPLY = "reply"
    INJECT = "inject"
    BY_CONTROL = "by_control"
    RESCORE = "rescore"
    CANONICAL = "canonical"
    TEXT = "text"


class Validity(StrEnum):
    """What a text that should be JSON is worth: a tool call's arguments, or a reply to a request for JSON.

    ``unjudged``: it is JSON, and the request's schema could not be applied (see ``json_validity``). ``unknown_tool``: the request offers no tool
    of the call's name.
    """

    VALID = "valid"
    NOT_JSON = "not_json"
    AGAINST_SCHEMA = "against_schema"
    UNKNOWN_TOOL = "unknown_tool"
    UNJUDGED = "unjudged"


class TokenRef(Struct, frozen=True):
    """One token as one arm reported it."""

    id: int | None = None
    text: str | None = None
    logprob: float | None = None


class Flip(Struct, frozen=True):
    """One place where the arms part: the first difference in ``free`` mode, any position in ``forced`` mode.

    ``gap`` is the primary's logprob difference between the two tokens concerned (its own minus the shadow's pick),
    ``shadow_gap`` the shadow's between the same two (its own pick minus the primary's); None where a list does not show
    both. ``gap_at_least`` then is what the primary's list proves of the gap, None where it proves nothing. ``tie_seen_by`` is set for ``exact_tie`` only. ``lowest`` names the arm ("primary" or "shadow") that chose the
    lower token id, None without ids and in ``forced`` mode, where the shadow chose nothing. ``tie_break_mismatch`` is an
    exact tie seen by both. An arm that ended without reporting an end token has a ``TokenRef`` that is None throughout.
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
    gap_at_least: float | None = None


class Tie(Struct, frozen=True):
    """An exact tie at the top of an arm's list, whether or not anything flipped there (exposure).

    ``arm`` is "primary" or "shadow"; ``size`` how many listed tokens share the top logprob; ``pick`` which of them the
    arm chose (None in forced mode for the shadow, which shows belief and not choice, for sampled output, wherever ids
    are missing, and where the list may have been cut in the middle of the tied set). ``ids`` are the tied tokens', ascending; empty where they
    are not all known, or too many to keep.
    """

    index: int
    arm: str
    size: int
    pick: Pick | None = None
    ids: tuple[int, ...] = ()


class OutputShape(Struct, frozen=True):
    """What one arm's output is made of, beside its tokens.

    ``text`` and ``reasoning`` are lengths in code points, and ``refused`` is what the engine says. ``calls`` has one entry for each tool call: what its arguments are
    worth against the tool's own schema; None where the request offers no tool. ``json``: what the text is worth where JSON was asked for. Both are None
    of a reply that did not come to its own end, for such a one proves nothing.
    """

    text: int
    reasoning: int
    refused: bool = False
    calls: tuple[Validity, ...] | None = None
    json: Validity | None = None


class VectorComparison(Struct, frozen=True):
    """One input's embeddings held against each other.

    ``cosine_distance``: 1 minus the cosine of the angle, in [0, 2]; None where a vector has no direction. ``element_error``: the largest
    absolute difference of two elements. ``norms``: Euclidean lengths, the primary's and the shadow's.
    """

    index: int
    dimensions: int
    cosine_distance: float | None
    element_error: float
    norms: tuple[float, float]


class RankingComparison(Struct, frozen=True):
    """One request's scores held against each other.

    ``kind``: ``rerank`` or ``score``. ``items`` are those that both arms scored (some list only the best few), the others are counted in ``only_primary`` and
    ``only_shadow``. ``score_errors``: absolute differences, by item. Order is that of descending scores, equal ones by the items' place in
    the request: ``first_difference`` is the first rank, from 0, at which the arms have different items; ``discordant_pairs`` of ``pairs`` stand the
    other way round (Kendall's distance).
    """

    kind: str
    items: int
    score_errors: tuple[float, ...] = ()
    first_difference: int | None = None
    discordant_pairs: int = 0
    pairs: int = 0
    only_primary: int = 0
    only_shadow: int = 0

    @property
    def order_differs(self) -> bool:
        """Whether a client would see another order, or other items."""
        return self.first_difference is not None or self.only_primary > 0 or self.only_shadow > 0


class ChoiceComparison(Struct, frozen=True):
    """One choice (token stream) held against its counterpart.

    The arrays below have one entry per compared position, None where an arm gave no value; positions run from 0, or are
    listed in ``positions`` (an engine that scores a sample of them). ``exposed`` is the number of positions at which the
    arms could have parted (the common prefix, plus the parting position itself). ``first`` is the first difference
    (``free`` mode only). ``flips`` are all top-1 disagreements (``forced`` mode only). ``identical``: same tokens to the
    end and same finish reason (``free``), by text alone where ``by_text`` (from ``exposed`` on, where some rows named
    tokens); then ``first_text_difference`` (in code points of reasoning, content, tool calls) stands for the difference. ``censored`` says why the arms stopped being
    comparable without a difference: ``end`` (both ended here), ``max_tokens``, ``stop_string``, ``cut``,
    ``unresolvable`` (no ids, and the next rows name no token), ``other``; None when they parted.

    ``ids``: the primary's. ``primary_logprobs``, ``shadow_logprobs``: of the primary's token. ``gaps``: primary's own
    first minus second; ``shadow_gaps``: the shadow's own. ``gap_shifts``: d(1st) - d(2nd), the shadow's difference
    between the *primary's* first two minus the primary's. ``ranks``: of the primary's token in the shadow's list, 1 the
    most likely, a lower bound where the list ends above it. ``kl_lower_bounds`` in nats, ``tv_lower_bounds`` in [0, 1].

    ``shapes``: the primary's and the shadow's, where tools were offered, JSON was asked for, or an arm reasoned, called or refused; None elsewhere.
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
    shadow_gaps: tuple[float | None, ...] = ()
    gap_shifts: tuple[float | None, ...] = ()
    tv_lower_bounds: tuple[float | None, ...] = ()
    aligned_by: By | None = None
    shapes: tuple[OutputShape, OutputShape] | None = None

    @property
    def diverged(self) -> bool:
        """True when the arms parted, as tokens or (text alone) as texts."""
        return self.first is not None or (self.by_text and self.first_text_difference is not None)


class Comparison(Struct, frozen=True):
    """One exchange held against one shadow in one mode: compared, or incomparable with its reason.

    ``incomparable`` is a bounded label, ``detail`` the arm's own short reason behind it (``status_500``). ``tau`` (nats)
    and its origin are what the near ties were judged by. ``values_incomparable`` says why the arms' values may not be
    set against each other although their tokens may (``logprob_mode``, ``logprob_alignment``); the arrays of differences are then None.
    ``k3_is_kl``: the tokens were drawn at an effective temperature of 1 without any filter, so that the mean of k3
    estimates KL(primary || shadow); otherwise it is a score. ``greedy`` is about the primary's output. ``expected_flips``:
    how many flips (first differences) the control's noise alone makes at these gaps; None until that noise is learned.
    ``findings`` stand in the order of the layers (``layers.ORDER``); ``evidence`` has, by finding, what was seen: counts and values, no text.
    ``vectors`` (embeddings) and ``ranking`` (rerank, score) stand in place of choices where a reply is numbers and no text.
    """

    mode: Mode
    source: Source | None = None
    incomparable: str | None = None
    choices: tuple[ChoiceComparison, ...] = ()
    findings: tuple[str, ...] = ()
    values_incomparable: str | None = None
    detail: str | None = None
    tau: float | None = None
    tau_origin: TauOrigin | None = None
    k3_is_kl: bool = False
    greedy: bool | None = None
    expected_flips: float | None = None
    evidence: dict[str, dict[str, int | float | str | bool | None]] = {}
    vectors: tuple[VectorComparison, ...] = ()
    ranking: RankingComparison | None = None

    @property
    def outcome(self) -> str:
        """``incomparable``, ``scored`` (forced); ``identical``, ``diverged``, ``censored`` or ``measured`` (free): a bounded label.

        ``censored``: nothing differed as far as both went, but they did not come to the same end. ``measured``: numbers differ, of which only their
        distance says anything (embeddings; scores that give the same order).
        """
        if self.incomparable is not None:
            return "incomparable"
        if self.mode is Mode.FORCED:
            return "scored"
        if self.vectors:
            return "measured" if any(one.element_error for one in self.vectors) else "identical"
        if self.ranking is not None:
            moved = "measured" if any(self.ranking.score_errors) else "identical"
            return "diverged" if self.ranking.order_differs else moved
        if any(choice.diverged for choice in self.choices):
            return "diverged"
        return "identical" if all(choice.identical for choice in self.choices) else "censored"
