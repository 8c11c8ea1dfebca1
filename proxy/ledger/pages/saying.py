"""What a record says, in words: one sentence first, then what its parts mean.

House rules. Pure. Numbers in a sentence carry their unit; what is not known is left out of it. Every text is plain: templates make it visible and escape it.
"""

from __future__ import annotations

from proxy.compare.comparison import ChoiceComparison, Comparison, Flip, FlipClass, Mode, TokenRef
from proxy.ledger.pages.visible import amount, count
from proxy.ledger.query import gravest_flip
from proxy.ledger.record import Record

_SHOWN = 40
KINDS = {
    FlipClass.GENUINE: "genuine difference",
    FlipClass.NEAR_TIE: "near tie",
    FlipClass.EXACT_TIE: "exact tie",
    FlipClass.UNKNOWN: "of unknown kind: the lists do not show both tokens",
}
SOURCES = {
    "reply": "the client asked for values, so the primary's own reply has its tokens",
    "inject": "values were asked for in the client's stead and stripped from what it got",
    "by_control": "taken from the control's reply, whose text is the primary's byte for byte",
    "rescore": "the primary was asked again, off the client's path, and said the same text",
    "canonical": "the visible text, split by the engine's own tokenizer: not necessarily the tokens that the primary made, so no flip and no pick is claimed from them",
    "text": "no tokens are known of the primary: only the texts are held against each other",
}
MODES = {
    "free": "the shadow answered on its own: only the first difference is the engines', what follows is another text",
    "forced": "the shadow scored the primary's tokens: every position is a comparison of its own",
}
_CENSORED = {
    "end": "both ended there",
    "max_tokens": "the limit on tokens was reached",
    "stop_string": "a stop string was found",
    "cut": "the reply was cut off",
    "unresolvable": "from there on no token could be told from another",
}
REASONS = {
    "sampled": "the request is not greedy: two random draws say nothing about each other",
    "endpoint": "this route is not compared in this mode",
    "request_not_json": "the request's body is not JSON",
    "request_encoding": "the request's body is in an encoding that is not read",
    "request_too_deep": "the request's body is nested too deep to be written again",
    "request_too_complex": "the request's body holds more values than are read",
    "echo": "the request asks for its prompt back",
    "infill": "the request asks for a gap to be filled",
    "search": "the request asks for a search over several continuations",
    "stored_conversation": "the request continues what only the primary has stored",
    "background": "the reply is only the promise of one",
    "server_tools": "the engine itself was to search, run code or call out, which would happen once more for each shadow",
    "vector_count": "the engines gave another number of embeddings",
    "vector_dimensions": "the engines gave embeddings of another size",
    "score_labels": "the engines scored another number of labels",
    "client_gone": "the client left before the reply was whole",
    "primary_cut": "the primary's reply broke off",
    "no_reply": "the primary gave no reply",
    "primary_error": "the primary answered with an error",
    "request_cut": "the reply was over before the request was, so nobody knows what else was asked",
    "primary_unknown": "the primary had not been probed yet, so its dialect was not known",
    "footprint_changed": "it began before an engine was found to be another stack: nobody knows which of the two answered",
    "shadow_error": "the shadow refused, hung, broke off or answered with an error",
    "prompt_tokens": "the engines made different prompts of the request; no token after it can be compared",
    "sampling_defaults": "the engines are known to have answered different requests, because of a default or of a field that one of them reads otherwise",
    "token_count": "the rows of a reply are not one for each token",
    "unaligned": "the rows of the replies cannot be laid side by side",
    "choice_count": "the replies have another number of choices",
    "no_tokens": "a reply names no tokens",
    "no_forced_scoring": "this shadow cannot score given tokens",
    "no_prompt_ids": "the prompt's ids are not known, and scoring needs them",
    "not_scored": "the shadow did not score these tokens",
    "no_primary_tokens": "nobody knows the primary's tokens",
    "text_not_canonical": "the primary's tokens are not known, and its text, tokenised, does not give itself back",
    "timeout": "the shadow did not answer in time",
    "judge_error": "a fault of ours: the judge's log says where",
}


def sentence(record: Record) -> str:
    """Say what came of it."""
    comparison, shadow = record.comparison, record.shadow
    if comparison.incomparable is not None:
        why = REASONS.get(comparison.incomparable, comparison.incomparable.replace("_", " "))
        return f"Not compared: {why}."
    if comparison.vectors:
        worst = max(
            (one.cosine_distance for one in comparison.vectors if one.cosine_distance is not None), default=None
        )
        return f"{count(len(comparison.vectors))} embeddings held against each other; the largest cosine distance is {amount(worst)}."
    if comparison.ranking is not None:
        same = "another order" if comparison.ranking.order_differs else "the same order"
        return f"{shadow} puts {count(comparison.ranking.items)} scored items into {same}."
    if comparison.mode is Mode.FORCED:
        return _scored(comparison, shadow)
    return _generated(comparison, shadow)


def _generated(comparison: Comparison, shadow: str) -> str:
    parted = next((choice for choice in comparison.choices if choice.diverged), None)
    if parted is not None and parted.first is not None:
        return f"{_replies(comparison)} part at token {count(parted.first.index)}: {_parting(parted.first, shadow)}: {KINDS[parted.first.kind]}."
    if parted is not None:
        return f"The texts part at character {count(parted.first_text_difference)}; no tokens are known there, so nothing is said of a class."
    compared = sum(choice.compared for choice in comparison.choices)
    if comparison.outcome == "identical":
        kind = (
            "as texts" if any(choice.by_text for choice in comparison.choices) else f"in all {count(compared)} tokens"
        )
        return f"Both replies are the same {kind}."
    why = next((choice.censored for choice in comparison.choices if choice.censored not in (None, "end")), None)
    return f"The same for {count(compared)} tokens; then {ending(why)}."


def ending(why: str | None) -> str:
    """Say why two replies stopped being comparable without a difference."""
    return _CENSORED.get(why or "", "they stopped being comparable")


def _scored(comparison: Comparison, shadow: str) -> str:
    compared = sum(choice.compared for choice in comparison.choices)
    flips = sum(len(choice.flips) for choice in comparison.choices)
    found = gravest_flip(comparison)
    if found is None:
        return f"{shadow} would have picked the primary's token at all {count(compared)} positions."
    at = found[1]
    return (
        f"{shadow} would have picked another token at {count(flips)} of {count(compared)} positions; "
        f"the gravest is at token {count(at.index)}: {_parting(at, shadow)}: {KINDS[at.kind]}."
    )


def _parting(flip: Flip, shadow: str) -> str:
    gap = f" (gap {amount(flip.gap)} nats to the other)" if flip.gap is not None else ""
    if flip.gap is None and flip.gap_at_least is not None:
        gap = f" (gap at least {amount(flip.gap_at_least)} nats)"
    return f"primary says {named(flip.primary)}{gap}, {shadow} {named(flip.shadow)}"


def named(one: TokenRef) -> str:
    """Name a token in a sentence."""
    if one.text is not None:
        return f"“{one.text[:_SHOWN]}{'…' if len(one.text) > _SHOWN else ''}”"
    return "nothing more" if one.id is None else f"token #{one.id}"


def _replies(comparison: Comparison) -> str:
    return (
        {True: "Greedy replies", False: "Sampled replies"}.get(bool(comparison.greedy), "Replies")
        if comparison.greedy is not None
        else "The replies"
    )


def ends(choice: ChoiceComparison) -> tuple[str, str]:
    """Say how each arm's reply ended."""
    first, second = (reason or "not said" for reason in choice.finish_reasons)
    return first, second
