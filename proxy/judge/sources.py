"""Where the primary's tokens come from when the client asked for none: the ways of the contract, best first.

House rules. Decides, does not talk: whatever has to be asked of an engine is asked by the examiner and handed in. A way is taken only
when its own proof holds (the same text, byte for byte); nothing is guessed.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from proxy.compare.comparison import Source
from proxy.compare.token_stream import Reply, Token, TokenStream


class Tokens(Struct, frozen=True):
    """The primary's reply as it may be compared, and how its tokens were come by."""

    reply: Reply
    source: Source


def readable(reply: Reply) -> bool:
    """Whether every choice that says anything carries its tokens, one row each."""
    return bool(reply.choices) and all(_readable(choice) for choice in reply.choices)


def _readable(choice: TokenStream) -> bool:
    return not choice.rows_missing and (bool(choice.tokens) or not says_something(choice))


def says_something(choice: TokenStream) -> bool:
    """Whether a choice has any output at all."""
    return bool(choice.text or choice.reasoning or choice.tool_calls)


def same_text(one: Reply, other: Reply) -> bool:
    """Whether two replies show a client exactly the same: text, reasoning, tool calls and how each choice ended."""
    return len(one.choices) == len(other.choices) and all(
        (a.text, a.reasoning, a.finish_reason) == (b.text, b.reasoning, b.finish_reason)
        and [(call.name, call.arguments) for call in a.tool_calls]
        == [(call.name, call.arguments) for call in b.tool_calls]
        for a, b in zip(one.choices, other.choices, strict=True)
    )


def own(reply: Reply, *, injected: bool) -> Tokens | None:
    """(a) and (b): the reply itself carries them."""
    if not readable(reply) or not any(choice.tokens for choice in reply.choices):
        return None
    return Tokens(reply, Source.INJECT if injected else Source.REPLY)


def by_twin(reply: Reply, twin: Reply | None, source: Source) -> Tokens | None:
    """(c) and (d): a greedy answer of the same stack with the same text. The primary's usage figures are kept."""
    if twin is None or twin.error is not None or not readable(twin) or not same_text(reply, twin):
        return None
    merged = replace(
        reply,
        choices=twin.choices,
        prompt_tokens=reply.prompt_tokens if reply.prompt_tokens is not None else twin.prompt_tokens,
        completion_tokens=reply.completion_tokens if reply.completion_tokens is not None else twin.completion_tokens,
    )
    return Tokens(merged, source)


def with_ids(tokens: Tokens, twin: Reply | None) -> Tokens:
    """Lend the ids of a twin to rows that have values but no ids, where both have the same rows byte for byte."""
    if twin is None or len(twin.choices) != len(tokens.reply.choices):
        return tokens
    choices = tuple(_lend(mine, its) for mine, its in zip(tokens.reply.choices, twin.choices, strict=True))
    return Tokens(replace(tokens.reply, choices=choices), tokens.source)


def _lend(mine: TokenStream, its: TokenStream) -> TokenStream:
    if mine.has_ids or not its.has_ids or len(mine.tokens) != len(its.tokens):
        return mine
    if any((a.data, a.text) != (b.data, b.text) for a, b in zip(mine.tokens, its.tokens, strict=True)):
        return mine
    tokens = tuple(_named(a, b) for a, b in zip(mine.tokens, its.tokens, strict=True))
    return replace(mine, tokens=tokens, prompt_ids=mine.prompt_ids or its.prompt_ids)


def _named(mine: Token, its: Token) -> Token:
    """The primary's values under the twin's ids; an alternative whose text the twin does not list, or lists twice, stays without."""
    names: dict[tuple[bytes | None, str | None], int | None] = {}
    for other in its.top:
        key = (other.data, other.text)
        names[key] = None if key in names else other.id
    top = tuple(replace(other, id=names.get((other.data, other.text))) for other in mine.top)
    return replace(mine, id=its.id, top=top)
