"""Free mode: the shadow answered on its own; token by token up to and including the first difference, else by text.

House rules. Greedy output only: two random draws say nothing. What cannot be compared is incomparable with its reason,
never divergent. After the first difference the arms condition on different text, and no token there is looked at.

Text alone (no tokens on a side): equal texts are ``identical`` with ``by_text``; a difference is one at text level, of class
unknown, with no token numbers and no exposure. A text that merely goes on where the other hit a limit is censored. Where rows
stop naming tokens half-way (parts of characters without ids), tokens count up to there and the texts decide the rest.
"""

from __future__ import annotations

from msgspec.structs import replace

from proxy.compare import findings as found
from proxy.compare.align import Aligned, Unaligned, align
from proxy.compare.classify import classify, pick, tie
from proxy.compare.columnar import usual
from proxy.compare.columns import Columns
from proxy.compare.comparison import ChoiceComparison, Comparison, Flip, Mode, Source, Tie
from proxy.compare.ending import both_ended, comparable_texts, ended, same_visible_end, shorter_ended, visible
from proxy.compare.explained import explained
from proxy.compare.layers import NOTHING, Found, Known
from proxy.compare.near_tie import Tau
from proxy.compare.position import entries, entry, measure, table
from proxy.compare.prompt import reply_prompt_findings
from proxy.compare.row import Row, read_row, value
from proxy.compare.token_stream import Reply, Token, TokenStream

_NOTHING = Row()


def compare_free(
    primary: Reply,
    shadow: Reply,
    *,
    source: Source,
    tau: Tau,
    greedy: bool,
    values_incomparable: str | None = None,
    stop: tuple[str, ...] = (),
    known: Known = NOTHING,
) -> Comparison:
    """Hold the shadow's own reply against the primary's.

    ``greedy``: the effective temperature is 0 in both arms. ``values_incomparable``: see ``findings.values_incomparable``.
    ``stop``: the request's stop strings. One incomparable choice makes the whole comparison so. ``known``: what was found out before.
    """
    prompt = reply_prompt_findings(primary, shadow, known)
    asked_otherwise = any(_asked_otherwise(one) for one in known.noted)
    reason, detail = _refusal(
        primary, shadow, prompt_differs=bool(prompt), greedy=greedy, asked_otherwise=asked_otherwise
    )
    findings: list[str] = []
    if shadow.error is not None:
        findings.append(found.TRANSPORT_ERRORS)
    choices: list[ChoiceComparison] = []
    if reason is None:
        for left, right in zip(primary.choices, shadow.choices, strict=True):
            result = _choice(left, right, source, tau, comparable=values_incomparable is None, stop=stop)
            if isinstance(result, str):
                reason, choices = result, []
                findings.append(found.STREAM_MISALIGNED)
                break
            choices.append(result)
            findings += _choice_findings(left, right, result)
    comparison = Comparison(
        mode=Mode.FREE,
        source=source,
        incomparable=reason,
        detail=detail,
        choices=tuple(choices),
        findings=tuple(dict.fromkeys(findings)),
        values_incomparable=values_incomparable,
        tau=tau.value,
        tau_origin=tau.origin,
        greedy=greedy,
        expected_flips=tau.expected_flips(gap for choice in choices for gap in choice.gaps),
    )
    return explained(comparison, primary, shadow, known, prompt=prompt)


def _asked_otherwise(one: Found) -> bool:
    """Say whether the engines are known to have answered different requests; what one of them does not tell of itself may be the same."""
    if one.name != found.SAMPLING_DEFAULTS or one.evidence.get("neutralised") is not False:
        return False
    values = one.evidence.values()
    return "misread" in values or None not in values


def _refusal(
    primary: Reply, shadow: Reply, *, prompt_differs: bool, greedy: bool, asked_otherwise: bool
) -> tuple[str | None, str | None]:
    """Return why the replies cannot be compared, in the order of the layers, and the arm's own short reason."""
    if primary.error is not None:
        return "primary_error", primary.error
    if shadow.error is not None:
        return "shadow_error", shadow.error
    if prompt_differs:
        return "prompt_tokens", None
    if not greedy:
        return "sampled", None
    if asked_otherwise:
        return found.SAMPLING_DEFAULTS, None
    if not primary.choices or len(primary.choices) != len(shadow.choices):
        return "choice_count", f"{len(primary.choices)} and {len(shadow.choices)}"
    return None, None


def _choice(
    primary: TokenStream, shadow: TokenStream, source: Source, tau: Tau, *, comparable: bool, stop: tuple[str, ...]
) -> ChoiceComparison | str:
    """Compare one choice; a string is the reason why it cannot be."""
    match align(primary, shadow):
        case _ if source is Source.TEXT:
            return _text_choice(primary, shadow, stop)
        case Unaligned("no_tokens"):
            return _text_choice(primary, shadow, stop)
        case Unaligned(reason):
            return reason
        case Aligned() as aligned:
            return _token_choice(primary, shadow, aligned, tau, comparable=comparable, stop=stop)


def _token_choice(
    primary: TokenStream, shadow: TokenStream, aligned: Aligned, tau: Tau, *, comparable: bool, stop: tuple[str, ...]
) -> ChoiceComparison:
    common = aligned.common
    if isinstance(primary.tokens, Columns) and isinstance(shadow.tokens, Columns):
        measured, left_over = usual(primary.tokens, shadow.tokens, common, comparable=comparable)
    else:
        measured, left_over = table([None] * common), list(range(common))
    if aligned.parted:
        left_over.append(common)
        for column in measured:
            column.append(None)
    ties: list[Tie] = []
    for index in left_over:
        left, right = primary.tokens[index], shadow.tokens[index]
        rows = read_row(left), read_row(right)
        agree = index < common
        logprob = _own_value(right, rows[1]) if agree else value(rows[1], left)
        position = measure(index, left, rows, logprob, agree=agree, comparable=comparable)
        for column, one in zip(measured, entry(position), strict=True):
            column[index] = one
        ties += _ties(index, (left, right), rows)
    censored, identical = _end(primary, shadow, aligned, stop)
    first = _first(primary, shadow, common, tau) if censored is None else None
    choice = ChoiceComparison(
        index=primary.index,
        primary_tokens=len(primary.tokens),
        shadow_tokens=len(shadow.tokens),
        exposed=common + (first is not None),
        identical=identical,
        censored=censored,
        first=first,
        ties=tuple(ties),
        finish_reasons=(primary.finish_reason, shadow.finish_reason),
        aligned_by=aligned.by,
        **entries(measured),
    )
    return _finished_by_text(choice, primary, shadow, stop) if censored == "unresolvable" else choice


def _finished_by_text(
    choice: ChoiceComparison, primary: TokenStream, shadow: TokenStream, stop: tuple[str, ...]
) -> ChoiceComparison:
    """Let the texts say what rows that name no token cannot; the token numbers up to there stay."""
    text = _text_choice(primary, shadow, stop)
    at = text.first_text_difference
    return replace(
        choice,
        identical=text.identical,
        by_text=True,
        first_text_difference=at,
        censored=choice.censored if at is None else None,
    )


def _own_value(token: Token, row: Row) -> float | None:
    return None if row.chosen is None else token.logprob


def _end(primary: TokenStream, shadow: TokenStream, aligned: Aligned, stop: tuple[str, ...]) -> tuple[str | None, bool]:
    """Return why the streams stopped being comparable (None: they parted), and whether they are identical."""
    lengths = len(primary.tokens), len(shadow.tokens)
    same_end = primary.finish_reason == shadow.finish_reason
    if aligned.parted:
        return None, False
    if aligned.unresolved:
        # Two last rows that name no token, under replies that both ended by themselves, are the end of sequence twice.
        last = lengths == (aligned.common + 1,) * 2
        if last and ended(primary) == ended(shadow) == "end":
            return "end", same_end
        return "unresolvable", False
    if lengths[0] == lengths[1]:
        return both_ended(primary, shadow), same_end
    if same_visible_end(primary, shadow):
        return "end", True
    reason = shorter_ended(primary, shadow, stop)
    return None if reason == "end" else reason, False


def _first(primary: TokenStream, shadow: TokenStream, index: int, tau: Tau) -> Flip:
    left = primary.tokens[index] if index < len(primary.tokens) else None
    right = shadow.tokens[index] if index < len(shadow.tokens) else None
    rows = (read_row(left) if left else _NOTHING, read_row(right) if right else _NOTHING)
    picks = (
        pick(rows[0], left, rows[1]) if left else None,
        pick(rows[1], right, rows[0]) if right else None,
    )
    return classify(index, (left, right), rows, tau, picks=picks, chose=True)


def _ties(index: int, tokens: tuple[Token, Token], rows: tuple[Row, Row]) -> list[Tie]:
    if not rows[0].tied and not rows[1].tied:
        return []
    seen = (
        tie(index, "primary", rows[0], pick(rows[0], tokens[0], rows[1]), rows[1]),
        tie(index, "shadow", rows[1], pick(rows[1], tokens[1], rows[0]), rows[0]),
    )
    return [one for one in seen if one is not None]


def _text_choice(primary: TokenStream, shadow: TokenStream, stop: tuple[str, ...]) -> ChoiceComparison:
    texts = comparable_texts(primary, shadow)
    at = first_difference(*texts)
    censored: str | None = None
    if at is None:
        censored = both_ended(primary, shadow)
    elif at == min(len(text) for text in texts):
        shorter, rest = (primary, texts[1][at:]) if len(texts[0]) < len(texts[1]) else (shadow, texts[0][at:])
        heeded = ended(shorter) == "end" and rest.startswith(stop)  # of no stop strings, none begins anything
        censored = "stop_string" if heeded else None if ended(shorter) == "end" else ended(shorter)
    return ChoiceComparison(
        index=primary.index,
        primary_tokens=primary.count,
        shadow_tokens=shadow.count,
        compared=0,
        exposed=0,
        identical=at is None and primary.finish_reason == shadow.finish_reason,
        by_text=True,
        censored=censored,
        first_text_difference=at if censored is None else None,
        finish_reasons=(primary.finish_reason, shadow.finish_reason),
    )


def first_difference(left: str, right: str) -> int | None:
    """Return the first code point at which two texts differ (the end of the shorter one counts), None when they are equal."""
    if left == right:
        return None
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[:middle] == right[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _choice_findings(primary: TokenStream, shadow: TokenStream, choice: ChoiceComparison) -> list[str]:
    """Name what stands beside the tokens. Text and calls of a reply that was cut off are not findings, nor calls that a limit left no room for."""
    if "cut" in (ended(primary), ended(shadow)):
        return []
    if choice.by_text:
        left, right = comparable_texts(primary, shadow)
        to_the_end = left == right
    else:
        to_the_end = len(primary.tokens) == len(shadow.tokens)
    limited = choice.censored == "max_tokens" and not to_the_end
    findings = [] if limited else [*found.tool_call_findings(primary, shadow)]
    if choice.diverged:
        silent = bool(visible(primary)) != bool(visible(shadow))  # nothing at all is no other wording
        return [*findings, found.OUTPUT_LENGTH] if silent and not findings else findings
    if choice.censored == "stop_string":
        return [*findings, found.STOP_HANDLING]
    if choice.identical or to_the_end:
        return [*findings, *found.same_tokens_findings(primary, shadow)]
    return [*findings, found.OUTPUT_LENGTH]
