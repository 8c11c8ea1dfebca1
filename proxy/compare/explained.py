"""A comparison with its findings in the order of the layers, each with what was seen, and without the numbers that an early layer explains.

House rules. The last step of both modes. It takes away and never adds a number; a comparison in which nothing was found goes through as it is. Evidence holds
counts, values and bounded words, never a text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from proxy.compare import value_layer
from proxy.compare.columnar import lists_whole
from proxy.compare.columns import Columns
from proxy.compare.comparison import ChoiceComparison, Comparison
from proxy.compare.ending import visible
from proxy.compare.layers import NOTHING, Evidence, Found, Known, in_order
from proxy.compare.token_stream import Reply, Token, Tokens, TokenStream


def explained(
    comparison: Comparison,
    primary: Reply,
    shadow: Reply | None,
    known: Known = NOTHING,
    *,
    prompt: Sequence[Found] = (),
    scored: Sequence[Sequence[tuple[int, Token]]] = (),
) -> Comparison:
    """Finish a comparison. ``shadow`` is None in forced mode, where ``scored`` has the shadow's rows; ``prompt``: what the prompt layer found."""
    seen = [*known.noted, *prompt]
    if comparison.incomparable is None and comparison.choices:
        comparison, values = _values(comparison, primary, shadow, scored)
        seen += values
    if not seen and not comparison.findings:
        return comparison
    evidence: dict[str, Evidence] = {}
    for one in seen:
        evidence.setdefault(one.name, one.evidence)
    names = in_order((*comparison.findings, *evidence))
    for name in names:
        if name not in evidence:
            evidence[name] = _evidence(name, comparison, primary, shadow, known)
    kept = {name: evidence[name] for name in names if evidence[name]}
    return replace(comparison, findings=names, evidence=kept)


def _values(
    comparison: Comparison, primary: Reply, shadow: Reply | None, scored: Sequence[Sequence[tuple[int, Token]]]
) -> tuple[Comparison, list[Found]]:
    """Look for faults of the values themselves, and take away what they would be counted as."""
    if not any(choice.compared for choice in comparison.choices):
        return comparison, []
    found: list[Found] = []
    choices: list[ChoiceComparison] = []
    for number, choice in enumerate(comparison.choices):
        mine: Tokens = primary.choices[number].tokens if number < len(primary.choices) else ()
        if shadow is None:
            rows = scored[number]
            mine = tuple(mine[index] for index, _ in rows)
            theirs: Tokens = tuple(token for _, token in rows)
        else:
            theirs = shadow.choices[number].tokens
        comparable = comparison.values_incomparable is None
        doubt = _doubt(choice) if comparable else []
        cleaned, lists = choice, list[Found]()
        if value_layer.LOGPROB_ALIGNMENT not in (comparison.values_incomparable, *(one.name for one in doubt)):
            # Lists of another row are told already: that one of them stands twice, at the end that was shifted away from, is the same fault.
            cleaned, lists = _lists(choice, mine, theirs, comparable=comparable and not doubt)
        choices.append(cleaned)
        found += [*doubt, *lists]
    if not found:
        return comparison, []
    reason = next((one.name for one in found if one.name != value_layer.ALTERNATIVES_INCOMPLETE), None)
    if reason is not None:
        lists_too = reason == value_layer.LOGPROB_ALIGNMENT
        choices = [value_layer.without_values(choice, lists=lists_too) for choice in choices]
        comparison = replace(comparison, values_incomparable=reason, k3_is_kl=False)
    if comparison.expected_flips is not None and any(
        choice.gaps != one.gaps for choice, one in zip(choices, comparison.choices, strict=True)
    ):
        comparison = replace(comparison, expected_flips=None)
    return replace(comparison, choices=tuple(choices)), found


def _doubt(choice: ChoiceComparison) -> list[Found]:
    """Say why the values of one choice may not be set against each other, if so."""
    mode = value_layer.mode_finding(choice)
    if mode is not None:
        return [mode]
    rows = value_layer.shift(choice.primary_logprobs, choice.shadow_logprobs) if choice.positions is None else 0
    return [Found(value_layer.LOGPROB_ALIGNMENT, {"rows": rows, "positions": choice.compared})] if rows else []


def _lists(
    choice: ChoiceComparison, primary: Sequence[Token], shadow: Sequence[Token], *, comparable: bool
) -> tuple[ChoiceComparison, list[Found]]:
    """Find lists that repeat, double or leave out tokens, or that only one arm has, and trust none of the wrong ones."""
    if not choice.compared or (choice.shadow_tokens is not None and choice.by_text and not choice.ids):
        return choice, []
    doubled = value_layer.doubled_lists(primary, choice.gaps), value_layer.doubled_lists(shadow, choice.shadow_gaps)
    hidden = value_layer.hidden_rivals(choice, primary, shadow) if comparable else ([], [])
    repeated: tuple[list[int], list[int]] = ([], [])
    lacking: tuple[list[int], list[int]] = ([], [])
    # A list that repeats another lacks what belongs there, and makes the other arm's seem to lack what it holds.
    if any(hidden) or not (
        isinstance(primary, Columns) and isinstance(shadow, Columns) and lists_whole(primary, shadow, choice.compared)
    ):
        primary, shadow = primary[: choice.compared], shadow[: choice.compared]
        repeated = value_layer.repeated_lists(primary), value_layer.repeated_lists(shadow)
        lacking = value_layer.short_lists(primary, shadow)
    hidden = value_layer.left_out(hidden, primary, shadow, {row for rows in (*repeated, *doubled) for row in rows})
    seen: Evidence = {}
    for what, rows in (("repeated", repeated), ("doubled", doubled), ("left_out", hidden), ("missing", lacking)):
        seen |= {f"{arm}_{what}": len(some) for arm, some in zip(("primary", "shadow"), rows, strict=True) if some}
    if not seen:
        return choice, []
    wrong = {row for rows in (*repeated, *doubled, *hidden) for row in rows}
    cleaned = value_layer.without_rows(choice, wrong) if wrong else choice
    return cleaned, [Found(value_layer.ALTERNATIVES_INCOMPLETE, seen | {"positions": choice.compared})]


def _evidence(name: str, comparison: Comparison, primary: Reply, shadow: Reply | None, known: Known) -> Evidence:
    """Return what was seen of a finding that came without it, in the first choice that shows it."""
    if shadow is None:
        return {}
    match name:
        case "transport_errors":
            return {"error": shadow.error}
        case "stream_misaligned":
            return {"reason": comparison.incomparable} | _both(primary, shadow, _rows)
        case "finish_reason":
            return _both(primary, shadow, lambda one: {"reason": one.finish_reason})
        case "channel_split":
            return _both(primary, shadow, _channels)
        case "stop_handling" | "tokenizer":
            return _both(primary, shadow, lambda one: {"characters": len(visible(one))})
        case "output_length":
            return _both(primary, shadow, _length) | {"max_tokens": known.max_tokens or "not set"}
        case "tool_call_name" | "tool_call_arguments":
            return _both(primary, shadow, lambda one: {"calls": len(one.tool_calls)})
        case _:
            return {}


def _both(primary: Reply, shadow: Reply, look: Callable[[TokenStream], Evidence]) -> Evidence:
    pairs = [(look(left), look(right)) for left, right in zip(primary.choices, shadow.choices, strict=False)]
    mine, theirs = next((pair for pair in pairs if pair[0] != pair[1]), pairs[0] if pairs else ({}, {}))
    return {f"primary_{name}": value for name, value in mine.items()} | {
        f"shadow_{name}": value for name, value in theirs.items()
    }


def _rows(stream: TokenStream) -> Evidence:
    return {"rows": len(stream.tokens), "tokens": stream.count}


def _channels(stream: TokenStream) -> Evidence:
    return {"reasoning_characters": len(stream.reasoning), "content_characters": len(stream.text)}


def _length(stream: TokenStream) -> Evidence:
    return {"tokens": len(stream.tokens) or stream.count, "reason": stream.finish_reason}
