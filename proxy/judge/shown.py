"""What is kept of a comparison to be shown: from both arms' replies to a record's ``Detail``, as much of it as the policy lets.

All tokens of both arms, what followed the first difference included, up to ``MOST_TOKENS`` a choice. Alternatives only where something differs, was found or could not be compared: at every
position of a reply of up to ``SHORT`` tokens; of a longer one around its differences, at its exact ties and where the arms' values are furthest apart. Of what agrees there is
no detail unless texts are kept: its record has ids and values already. House rules. Pure; nothing is asked of an engine.
"""

from __future__ import annotations

from collections.abc import Sequence

import orjson
from msgspec import Struct

from engines.dialect import Call, Scored
from proxy.compare.columns import Columns
from proxy.compare.comparison import ChoiceComparison, Comparison, Mode
from proxy.compare.token_stream import Alternative, Channel, Reply, Token, Tokens, TokenStream
from proxy.ledger.bounds import TEXT, short
from proxy.ledger.detail import MOST_ALTERNATIVES, MOST_TOKENS, ChoiceDetail, Detail, Listed, Partial, Run, Sent, Side

#: Tokens of a reply whose alternatives are kept at every position.
SHORT = 64
_BEFORE, _AFTER = 8, 32  # positions around a first difference
_AROUND = 2  # and on both sides of each further flip
_PLACES = 64  # flips, and ties, that are looked at
_WORST = 16  # positions where the arms' values are furthest apart

Rows = tuple[tuple[Scored, ...], ...]


class Seen(Struct, frozen=True):
    """What a comparison was made of. ``tokens``: the primary's reply as it was compared; ``shadow``: the shadow's own (``free``), or what it ``scored`` (``forced``).

    ``again``: what asks the primary for the same reply with its values shown; ``sent``: what the shadow was sent, by choice in ``forced`` mode.
    """

    tokens: Reply | None = None
    shadow: Reply | None = None
    scored: Rows = ()
    again: Call | None = None
    sent: tuple[tuple[Call, ...], ...] = ()


def noteworthy(comparison: Comparison) -> bool:
    """Whether somebody will want to see what the arms could have said, and to ask again."""
    if comparison.incomparable is not None or comparison.findings or comparison.outcome == "diverged":
        return True
    return any(choice.first is not None or choice.flips for choice in comparison.choices)


def detail(comparison: Comparison, seen: Seen, policy: str) -> Detail | None:
    """Return what is kept beside a record under ``records.content``; None where that is nothing."""
    marked, texts = noteworthy(comparison), policy == "text"
    if not (marked or texts):
        return None
    choices = tuple(_choices(comparison, seen, marked=marked, texts=texts))
    if not (marked and texts):
        return Detail(choices) if choices else None
    again, sent = _sent(seen.again), tuple(_sent(call) for call in _concerned(comparison, seen.sent))
    prompt = _prompt(seen)
    if not choices and again is None and not sent:
        return None
    return Detail(choices, again, tuple(one for one in sent if one is not None), prompt)


def _choices(comparison: Comparison, seen: Seen, *, marked: bool, texts: bool) -> list[ChoiceDetail]:
    pairs: list[tuple[int, Tokens, Tokens]]
    compared = {choice.index: choice for choice in comparison.choices}
    primary = {choice.index: choice for choice in seen.tokens.choices} if seen.tokens is not None else {}
    if comparison.mode is Mode.FORCED:
        shadow = dict(zip(primary, seen.scored, strict=False))
        pairs = [(index, one.tokens, _forced(one.tokens, shadow.get(index, ()))) for index, one in primary.items()]
    else:
        own = {choice.index: choice for choice in seen.shadow.choices} if seen.shadow is not None else {}
        nothing = TokenStream()
        both = sorted({*primary, *own})
        pairs = [(index, primary.get(index, nothing).tokens, own.get(index, nothing).tokens) for index in both]
    found = []
    for index, mine, its in pairs:
        if not len(mine) and not len(its):
            continue
        wanted = positions(compared.get(index), max(len(mine), len(its))) if marked else ()
        found.append(ChoiceDetail(index, side(mine, wanted, texts=texts), side(its, wanted, texts=texts)))
    return found


def _forced(tokens: Tokens, scored: Sequence[Scored]) -> tuple[Token, ...]:
    """The primary's tokens as the shadow scored them; one that it did not score has no value."""
    rows = {row.index: row.token for row in scored}
    if not rows:
        return ()
    return tuple(rows.get(index) or Token(token.text, token.id, token.data) for index, token in enumerate(tokens))


def positions(choice: ChoiceComparison | None, length: int) -> Sequence[int]:
    """Return where alternatives are kept, ascending."""
    if length <= SHORT or choice is None:
        return range(min(length, SHORT))
    wanted: set[int] = set()
    if choice.first is not None:
        wanted.update(range(choice.first.index - _BEFORE, choice.first.index + _AFTER + 1))
    for flip in choice.flips[:_PLACES]:
        wanted.update(range(flip.index - _AROUND, flip.index + _AROUND + 1))
    wanted.update(tie.index for tie in choice.ties[:_PLACES])
    wanted.update(_worst(choice))
    return sorted(index for index in wanted if 0 <= index < min(length, MOST_TOKENS)) or range(SHORT)


def _worst(choice: ChoiceComparison) -> list[int]:
    at = choice.positions or range(len(choice.primary_logprobs))
    apart: list[tuple[float, int]] = [
        (abs(mine - its), index)
        for index, mine, its in zip(at, choice.primary_logprobs, choice.shadow_logprobs, strict=False)
        if mine is not None and its is not None
    ]
    return [index for _, index in sorted(apart, reverse=True)[:_WORST]]


def side(tokens: Tokens, wanted: Sequence[int], *, texts: bool) -> Side:
    """Return one arm's tokens as they are kept, with alternatives at the positions that are ``wanted``."""
    size = min(len(tokens), MOST_TOKENS)
    tops = ((index, tokens[index].top) for index in wanted if index < size)
    listed = tuple(Listed(index, _top(top[:MOST_ALTERNATIVES], texts=texts)) for index, top in tops if top)
    if isinstance(tokens, Columns) and not (texts and tokens.labelled):  # those are content, and text by themselves
        names = _cut(tokens.names[:size]) if texts else None
        ids = None if tokens.ids is None else tokens.ids[:size]
        return Side(tuple(tokens.logprobs[:size]), ids, names, (), (), listed, len(tokens))
    kept = tokens[:size]
    named = any(token.id is not None for token in kept)
    return Side(
        tuple(token.logprob for token in kept),
        tuple(token.id for token in kept) if named else None,
        _cut([token.text for token in kept]) if texts else None,
        tuple(_partial(kept)) if texts else (),
        tuple(_runs(kept)),
        listed,
        len(tokens),
    )


def _top(top: tuple[Alternative, ...], *, texts: bool) -> tuple[Alternative, ...]:
    if not texts:
        return tuple(Alternative(one.logprob, one.id) for one in top)
    if all(len(one.text or "") <= TEXT and len(one.data or b"") <= TEXT for one in top):
        return top
    return tuple(
        Alternative(one.logprob, one.id, one.text and short(one.text, TEXT), one.data and one.data[:TEXT])
        for one in top
    )


def _cut(texts: Sequence[str]) -> tuple[str, ...]:
    longest = max(map(len, texts), default=0)
    return tuple(texts) if longest <= TEXT else tuple(short(text, TEXT) for text in texts)


def _partial(tokens: Sequence[Token]) -> list[Partial]:
    """Bytes of the tokens that are not what their text says."""
    return [
        Partial(index, token.data[:TEXT])
        for index, token in enumerate(tokens)
        if token.data is not None and token.data != token.text.encode("utf-8", "surrogatepass")
    ]


def _runs(tokens: Sequence[Token]) -> list[Run]:
    before = Channel.CONTENT
    runs = []
    for index, token in enumerate(tokens):
        if token.channel is not before:
            before = token.channel
            runs.append(Run(index, before))
    return runs


def _concerned(comparison: Comparison, sent: tuple[tuple[Call, ...], ...]) -> tuple[Call, ...]:
    """Return the calls that show the first difference: an engine that scores step by step was sent one for each position."""
    number, flip = next(
        ((number, choice.flips[0]) for number, choice in enumerate(comparison.choices) if choice.flips), (0, None)
    )
    calls = sent[number] if number < len(sent) else ()
    if len(calls) < 2 or flip is None:
        return calls[:1]
    lengths = [len(_prompt_of(call)) for call in calls]
    return tuple(call for call, length in zip(calls, lengths, strict=True) if length == min(lengths) + flip.index)[-1:]


def _prompt_of(call: Call) -> list[object]:
    prompt = (call.body or {}).get("prompt")
    return prompt if isinstance(prompt, list) else []


def _sent(call: Call | None) -> Sent | None:
    return None if call is None or call.body is None else Sent(call.path, orjson.dumps(call.body).decode())


def _prompt(seen: Seen) -> tuple[int, ...] | None:
    replies = (reply for reply in (seen.tokens, seen.shadow) if reply is not None)
    return next((choice.prompt_ids for reply in replies for choice in reply.choices if choice.prompt_ids), None)
