"""One conversation's result for a candidate: bad where a user would get something else than before, good where not, missing where that cannot be told.

Bad is a genuine flip (forced mode: any; free mode: the first difference is one), or a finding that changes what users get. With a control the results of both
arms, of the same exchange in the same modes, make a pair.

House rules. Pure, and microseconds: looks at flips, first differences and findings, never at a token. What a candidate could hide behind (an error, rows that
cannot be read, a difference of unknown class) is missing and never good. What says nothing of the candidate and was settled before it was looked at
(the request, the primary's reply, a configured cap) is no trial at all. Which modes are looked at never depends on what the candidate said in them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from math import fsum

from msgspec import Struct

from proxy.compare.comparison import ChoiceComparison, Comparison, FlipClass, Mode, Source
from proxy.compare.layers import LAYER_OF, Layer, place

#: What makes a conversation bad beside findings.
GENUINE_FLIP, RANK_ORDER = "genuine_flip", "rank_order"
#: Why nothing can be told where the tokens or texts differ.
UNKNOWN_FLIP = "unknown_flip"
#: ... and where a reply stopped without saying why: nobody knows what was to come.
_CUT = "cut"

#: Reasons that lie in the request, in the primary's reply, or between two stacks: no arm can bring them about. Everything else an arm could hide behind.
_NOT_OF_AN_ARM = frozenset({
    "primary_error", "primary_unknown", "client_gone", "primary_cut", "no_reply", "footprint_changed",
    "endpoint", "echo", "infill", "search", "stored_conversation", "background", "server_tools",
    "request_cut", "request_encoding", "request_not_json", "request_too_complex", "request_too_deep",
})  # fmt: skip
#: Free mode alone: two random draws say nothing about each other.
_SAMPLED = "sampled"
#: Forced mode alone: what an engine of this kind never does, and replies without a token.
_NEVER_SCORED = frozenset({"no_forced_scoring", "no_tokens"})
#: Forced mode alone: the exchange cannot be scored because of what is known of the primary's prompt or tokens, whichever arm it is.
_NOT_SCORABLE = frozenset({"no_prompt_ids", "no_primary_tokens", "text_not_canonical"})
#: Caps that somebody set, and the kill switch: they thin the sample before an arm is asked.
_THINNED = frozenset({"rate_limit", "token_budget", "kill_switch"})
#: Layers whose findings change what users get: other prompts, other settings, another spelling of the same ids, and what is functional. Of the layer of
#: the tokens only the tokenizer; those of logprobs touch reported values alone, those of transport and stack are reasons.
_LAYERS = frozenset({Layer.PROMPT, Layer.SAMPLING, Layer.CHANNEL, Layer.STRUCTURE, Layer.LENGTH})
_TOKENIZER = "tokenizer"
_BEFORE_TOKENS = frozenset({Layer.PROMPT, Layer.SAMPLING})
_SAMPLE = 16  # positions that are looked at to see whether a reply has lists
_LISTS = "alternatives_incomplete"
_DEFAULTS = frozenset({"sampling_defaults", "output_length"})


class Result(StrEnum):
    """What came of one conversation. ``worse``: the candidate alone was bad (without a control: was bad); ``better``: the control alone."""

    WORSE = "worse"
    BETTER = "better"
    BOTH = "both"
    NEITHER = "neither"
    MISSING = "missing"


class Told(StrEnum):
    """What one mode tells. ``unable``: nothing, for want of the primary's prompt or tokens; ``out``: nothing, and no arm brought that about."""

    GOOD = "good"
    BAD = "bad"
    UNDECIDED = "undecided"
    UNABLE = "unable"
    OUT = "out"


class Sight(Struct, frozen=True):
    """One arm in one mode. ``tokens``: what its tokens tell; ``finding``: what else is bad, ""; ``compared``: whether findings were looked for; ``why``: the reason where nothing is told."""

    tokens: Told
    finding: str = ""
    compared: bool = True
    why: str = ""


class Trial(Struct, frozen=True):
    """A result. ``by``: what made the candidate bad, or why it is missing; ``control_by`` the same of the control; "" otherwise. Bounded labels.

    A missing one has both, too: there ``by`` says what made the candidate bad where it was the control of which nothing could be told.
    """

    result: Result
    by: str = ""
    control_by: str = ""


def names_a_fault(label: str) -> bool:
    """Say whether a label is of what was bad, and not of why nothing could be told."""
    return label in (GENUINE_FLIP, RANK_ORDER) or label in LAYER_OF


Arm = Mapping[Mode, Sight]
_GOOD = Sight(Told.GOOD)
_VALUES = 0.5  # a mean over fewer of a reply's positions says too little of it


def look(
    mode: Mode,
    comparison: Comparison | None = None,
    *,
    incomparable: str | None = None,
    shed: str | None = None,
    own_prompt: bool = True,
) -> Sight:
    """Say what one arm's outcome in one mode tells: its comparison, or the reason why there is none.

    ``own_prompt``: in forced mode the arm itself would have rendered the prompt, so that another length is a fault of its own.
    """
    if shed is not None:
        return Sight(Told.OUT if shed in _THINNED else Told.UNDECIDED, compared=False, why=shed)
    reason = incomparable if comparison is None else comparison.incomparable
    if reason is not None:
        return _without_numbers(mode, reason, comparison, own_prompt=own_prompt)
    if comparison is None:
        return Sight(Told.UNDECIDED, compared=False, why="judge_error")
    if comparison.vectors:  # numbers differ, and no number says from where on a user would notice
        return Sight(Told.OUT, why="endpoint")
    if comparison.ranking is not None:
        return Sight(Told.GOOD, RANK_ORDER if comparison.ranking.order_differs else "")
    told, why = _forced(comparison) if mode is Mode.FORCED else _free(comparison)
    found = finding(comparison)
    if mode is Mode.FREE and told is not Told.BAD and _cut_by_the_arm(comparison):
        return Sight(Told.UNDECIDED, found, compared=False, why=_CUT)
    return Sight(told, found, why=why) if found or told is not Told.GOOD else _GOOD


def _without_numbers(mode: Mode, reason: str, comparison: Comparison | None, *, own_prompt: bool) -> Sight:
    if reason in _NOT_OF_AN_ARM:
        return Sight(Told.OUT, compared=False, why=reason)
    found = "" if comparison is None else finding(comparison)
    if mode is Mode.FREE and reason == _SAMPLED:
        return Sight(Told.OUT, found, compared=False, why=reason)
    if mode is Mode.FORCED:
        if reason in _NEVER_SCORED:
            return Sight(Told.OUT, compared=False, why=reason)
        if reason in _NOT_SCORABLE or (reason == "prompt_tokens" and comparison is None and not own_prompt):
            return Sight(Told.UNABLE, compared=False, why=reason)
    if reason == "prompt_tokens" and not found:
        found = reason
    return Sight(Told.UNDECIDED, found, compared=False, why=reason)


def _forced(comparison: Comparison) -> tuple[Told, str]:
    """Any genuine flip is bad. Canonical tokens are nobody's: no flip is claimed from them."""
    if comparison.source is Source.CANONICAL:
        return Told.UNABLE, "canonical"
    kinds = [flip.kind for choice in comparison.choices for flip in choice.flips]
    if FlipClass.GENUINE in kinds:
        return Told.BAD, ""
    if FlipClass.UNKNOWN in kinds:
        return Told.UNDECIDED, UNKNOWN_FLIP
    if comparison.evidence.get(_LISTS, {}).get(
        "shadow_missing"
    ):  # it shows them elsewhere, so it could leave out where it would be wrong
        return Told.UNDECIDED, "lists_missing"
    hidden = looked = 0
    for choice in comparison.choices:
        some = choice.top1_agree[:: len(choice.top1_agree) // _SAMPLE + 1]
        hidden, looked = hidden + some.count(None), looked + len(some)
    if 2 * hidden > looked:  # an arm that shows no lists never prefers another token
        return Told.UNDECIDED, "lists_missing"
    return Told.GOOD, ""


def _free(comparison: Comparison) -> tuple[Told, str]:
    """The first difference of each choice. Tokens lent by the control are known only where the control agrees with the primary.

    A difference judged by such tokens would be held against a control that is good by the choice of the exchange, so its class counts as unknown.
    """
    seen = {_parted(choice) for choice in comparison.choices}
    if FlipClass.GENUINE in seen and comparison.source is not Source.BY_CONTROL:
        return Told.BAD, ""
    if seen & {FlipClass.GENUINE, FlipClass.UNKNOWN}:
        return Told.UNDECIDED, UNKNOWN_FLIP
    return Told.GOOD, ""


def _cut_by_the_arm(comparison: Comparison) -> bool:
    """Say whether a reply gives no finish reason where the primary's does: it may have been broken off just before what it had wrong, or before it said anything."""
    reasons = [choice.finish_reasons for choice in comparison.choices]
    return any(theirs is None and ours is not None for ours, theirs in reasons)


def _parted(choice: ChoiceComparison) -> FlipClass | None:
    if choice.first is not None:
        return choice.first.kind
    return FlipClass.UNKNOWN if choice.diverged else None


def finding(comparison: Comparison) -> str:
    """Name the earliest finding that changes what users get, "" without one.

    Defaults that the shadow's copy of the request says are the primary's again, and those that one engine alone tells of, change nothing.
    """
    if not comparison.findings:
        return ""
    return min((name for name in comparison.findings if _harmful(name, comparison)), key=place, default="")


def _harmful(name: str, comparison: Comparison) -> bool:
    if name == _TOKENIZER:
        return True
    if LAYER_OF.get(name) not in _LAYERS:
        return False
    seen = comparison.evidence.get(name, {})
    if name not in _DEFAULTS or "neutralised" not in seen:
        return True
    values = seen.values()
    known = "misread" in values or None not in values
    return seen["neutralised"] is False and known and comparison.outcome != "identical"


def trial(candidate: Arm, control: Arm | None = None) -> Trial | None:
    """Put both arms' sights of one exchange together; None when it says nothing of the candidate. ``control`` None: there is no control arm.

    A genuine flip is bad in whichever mode it shows, and so are findings, of the modes that both arms ran; that nothing can be told of the tokens is said by
    forced mode where it tells anything, else by free mode.
    """
    arms = (candidate,) if control is None else (candidate, control)
    if candidate and all(arm.keys() == candidate.keys() and all(one is _GOOD for one in arm.values()) for arm in arms):
        return _NOTHING_AMISS  # as what follows would find: most exchanges are so
    modes = [mode for mode in Mode if all(mode in arm and arm[mode].tokens is not Told.OUT for arm in arms)]
    if not modes:
        return None
    by: Mode | None = Mode.FREE if Mode.FREE in modes else None
    if Mode.FORCED in modes and all(arm[Mode.FORCED].tokens is not Told.UNABLE for arm in arms):
        by = Mode.FORCED
    if by is None and not _unable_by_an_arm(arms):
        return None
    told = [_of_arm(arm, modes, by) for arm in arms]
    if any(one[0] is Told.UNDECIDED for one in told):
        return Trial(Result.MISSING, *(why for _, why in told))
    bad = tuple(state is Told.BAD for state, _ in told)
    return Trial(_RESULTS[bad], *(why for _, why in told))


_NOTHING_AMISS = Trial(Result.NEITHER)


def variation(candidate: Comparison, control: Comparison | None = None) -> float | None:
    """Return what sampled output says of both distributions, in [0, 1]: half of 1 more than the candidate's mean lower bound of the total variation less the control's.

    Without a control the candidate's mean itself, the share of tokens that must differ between two arms that sample. None of greedy output, in free mode, and where
    an arm has no values at most positions.
    """
    means = [_mean_variation(one) for one in (candidate, control) if one is not None]
    if None in means:
        return None
    known = [one for one in means if one is not None]
    return known[0] if control is None else (known[0] - known[1] + 1.0) / 2.0


def _mean_variation(comparison: Comparison) -> float | None:
    if comparison.mode is not Mode.FORCED or comparison.greedy is not False or comparison.incomparable is not None:
        return None
    bounds = [bound for choice in comparison.choices for bound in choice.tv_lower_bounds]
    told = [bound for bound in bounds if bound is not None]
    return min(fsum(told) / len(told), 1.0) if told and len(told) >= _VALUES * len(bounds) else None


_RESULTS = {
    (False,): Result.NEITHER,
    (True,): Result.WORSE,
    (False, False): Result.NEITHER,
    (True, False): Result.WORSE,
    (False, True): Result.BETTER,
    (True, True): Result.BOTH,
}


def _unable_by_an_arm(arms: tuple[Arm, ...]) -> bool:
    """Sampled output whose tokens the primary did not give says nothing of an arm; one whose prompt an arm could not render may."""
    return any(arm[Mode.FORCED].why == "no_prompt_ids" for arm in arms)


def _of_arm(arm: Arm, modes: list[Mode], by: Mode | None) -> tuple[Told, str]:
    """One arm: bad by its earliest layer, undecided when something was not told, else good."""
    named = [sight.finding for sight in arm.values() if sight.finding]
    found = min(named, key=place) if named else ""
    if found and LAYER_OF.get(found) in _BEFORE_TOKENS:
        return Told.BAD, found
    # Scoring runs other kernels than generating: a fault of the one does not show in the other.
    if any(arm[mode].tokens is Told.BAD for mode in modes):
        return Told.BAD, GENUINE_FLIP
    if found:
        return Told.BAD, found
    if by is None:
        return Told.UNDECIDED, arm[Mode.FORCED].why or "no_prompt_ids"
    untold = [arm[by]] if arm[by].tokens is Told.UNDECIDED else []
    untold += [arm[mode] for mode in modes if not arm[mode].compared and arm[mode].tokens is not Told.UNABLE]
    return (Told.UNDECIDED, untold[0].why) if untold else (Told.GOOD, "")
