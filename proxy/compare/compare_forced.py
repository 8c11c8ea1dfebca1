"""Forced mode: the shadow scored the primary's own tokens; every scored position is compared.

House rules. A forced arm shows what it believes, not what it would have picked: a tie at the top of its list that holds
the primary's first is an exposure, not a flip, and no pick is ever read off it. Under ``canonical`` both sides are scored
streams of ids that nobody is known to have produced: values are compared, no flip and no pick is claimed.
"""

from __future__ import annotations

from collections.abc import Sequence

from proxy.compare import findings as found
from proxy.compare.align import countable
from proxy.compare.classify import classify, pick, tie
from proxy.compare.comparison import By, ChoiceComparison, Comparison, Flip, Mode, Source, Tie
from proxy.compare.explained import explained
from proxy.compare.identity import Named, same
from proxy.compare.layers import NOTHING, Known
from proxy.compare.near_tie import Tau
from proxy.compare.position import Position, arrays, measure
from proxy.compare.prompt import prompt_findings
from proxy.compare.row import Row, read_row
from proxy.compare.token_stream import Reply, Token, TokenStream

Rows = Sequence[tuple[int, Token]]


def compare_forced(
    primary: Reply,
    scored: Sequence[Rows],
    *,
    source: Source,
    tau: Tau,
    greedy: bool,
    values_incomparable: str | None = None,
    unfiltered: bool = False,
    shadow_prompt_ids: tuple[int, ...] | None = None,
    known: Known = NOTHING,
) -> Comparison:
    """Hold the shadow's scores of the primary's tokens against the primary's own.

    ``scored`` has, for each of the primary's choices, (index of the token, the shadow's row for it) in ascending order,
    possibly for a sample of the positions. ``greedy``: the primary's effective temperature is 0. ``unfiltered``: it is 1,
    without top-p, top-k, min-p, penalties, bias or grammar, so that k3 estimates a KL. ``shadow_prompt_ids``: how the
    shadow itself renders the request, when it can say. ``known``: what was found out before. One incomparable choice makes the whole comparison so.
    """
    prompt_ids = primary.choices[0].prompt_ids if primary.choices else None
    prompt = prompt_findings(prompt_ids, shadow_prompt_ids, known=known)
    findings: list[str] = []
    reason, detail = _refusal(primary, scored, prompt_differs=bool(prompt))
    comparable, claims = values_incomparable is None, source is not Source.CANONICAL
    choices: list[ChoiceComparison] = []
    if reason is None:
        choices = [
            _choice(stream, rows, tau, greedy=greedy, claims=claims, comparable=comparable)
            for stream, rows in zip(primary.choices, scored, strict=True)
        ]
    elif reason == "unaligned":
        findings.append(found.STREAM_MISALIGNED)
    comparison = Comparison(
        mode=Mode.FORCED,
        source=source,
        incomparable=reason,
        detail=detail,
        choices=tuple(choices),
        findings=tuple(dict.fromkeys(findings)),
        values_incomparable=values_incomparable,
        tau=tau.value,
        tau_origin=tau.origin,
        greedy=greedy,
        expected_flips=tau.expected_flips(gap for choice in choices for gap in choice.gaps) if claims else None,
        k3_is_kl=unfiltered and not greedy and comparable and claims,
    )
    return explained(comparison, primary, None, known, prompt=prompt, scored=scored)


def _refusal(primary: Reply, scored: Sequence[Rows], *, prompt_differs: bool) -> tuple[str | None, str | None]:
    if primary.error is not None:
        return "primary_error", primary.error
    if prompt_differs:
        return "prompt_tokens", None
    if not primary.choices or len(primary.choices) != len(scored):
        return "choice_count", f"{len(primary.choices)} and {len(scored)}"
    if not any(stream.tokens for stream in primary.choices):
        return "no_tokens", None
    if not all(countable(stream) for stream in primary.choices):
        return "token_count", None
    if not any(scored):
        return "not_scored", None
    if not all(map(_matches, primary.choices, scored)):
        return "unaligned", None
    return None, None


def _matches(stream: TokenStream, rows: Rows) -> bool:
    """Say whether the rows ascend, lie within the stream and name its tokens as far as both can be told."""
    last = -1
    for index, token in rows:
        if not last < index < len(stream.tokens) or same(stream.tokens[index], token) is False:
            return False
        last = index
    return True


def _choice(
    stream: TokenStream, scored: Rows, tau: Tau, *, greedy: bool, claims: bool, comparable: bool
) -> ChoiceComparison:
    positions: list[Position] = []
    ties: list[Tie] = []
    flips: list[Flip] = []
    for index, theirs in scored:
        token = stream.tokens[index]
        rows = read_row(token), read_row(theirs)
        picked = pick(rows[0], token, rows[1]) if greedy and claims else None
        agree: bool | None = None
        if claims:
            agree, heads = _agree(token, rows, greedy=greedy)
            if heads is not None:
                flips.append(classify(index, heads, rows, tau, picks=(picked, None), chose=False))
        logprob = None if rows[1].chosen is None else theirs.logprob
        positions.append(measure(index, token, rows, logprob, agree=agree, comparable=comparable))
        seen = tie(index, "primary", rows[0], picked, rows[1]), tie(index, "shadow", rows[1], None, rows[0])
        ties += [one for one in seen if one is not None]
    return ChoiceComparison(
        index=stream.index,
        primary_tokens=len(stream.tokens),
        shadow_tokens=None,
        exposed=len(positions),
        identical=False,
        flips=tuple(flips),
        ties=tuple(ties),
        finish_reasons=(stream.finish_reason, None),
        aligned_by=By.ID if stream.has_ids else By.BYTES,
        **arrays(positions),
    )


def _agree(token: Token, rows: tuple[Row, Row], *, greedy: bool) -> tuple[bool | None, tuple[Named, Named] | None]:
    """Say whether the arms' lists begin with the same token; and if not, with which two. None where that cannot be told."""
    firsts, theirs = _firsts(token, rows[0], greedy=greedy), rows[1].tops
    if not firsts or not theirs:
        return None, None
    answers = {same(left, right) for left in firsts for right in theirs}
    if True in answers:
        return True, None
    if None in answers:
        return None, None
    return False, (firsts[0], theirs[0])


def _firsts(token: Token, row: Row, *, greedy: bool) -> tuple[Named, ...]:
    """Return the primary's first: of exactly tied tops the chosen one when it is greedy, all of them when it is not.

    A greedy token that is not at the top of its list was moved there by a penalty, a bias or a grammar.
    """
    tops = row.tops
    if not greedy:
        return tops
    if not tops:
        return (token,)
    if row.chosen is not None:
        return (token,) if row.chosen < len(tops) else tops
    return (token,) if any(same(entry, token) for entry in tops) else tops
