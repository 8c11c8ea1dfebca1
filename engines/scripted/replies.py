"""Scripted replies: which token a script wants next, given only the ids so far.

House rules. Pure. A reply begins where a template opens the assistant's turn (the script's or the planted one: ids that are given may be of either), or,
in a bare completion, right after the rule's own text; as long as what follows is the beginning of the rule's tokens, the next of them is wanted. So the
model stays a function of its context, and scoring agrees.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from engines.scripted.render import template_of
from engines.scripted.script import ChosenReply, ChosenToken, Script
from engines.scripted.vocabulary import CALL, CALLED, END, THINK, THOUGHT, Table, table

Ids = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Wanted:
    """The token that comes next; ``values`` are the script's logprobs by id, none where it leaves them to the model."""

    token: int
    values: dict[int, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Rule:
    after: str
    ids: Ids
    tokens: tuple[Wanted, ...]


@dataclass(frozen=True, slots=True)
class Replies:
    """All rules of a script; the first whose text the prompt holds applies."""

    words: Table
    opens: tuple[Ids, ...]
    rules: tuple[_Rule, ...]

    def next(self, context: Ids) -> Wanted | None:
        """Return what a rule wants after these ids, None where none applies or the reply has left its path."""
        if not self.rules:
            return None
        start = max((at for opened in self.opens if (at := _after_last(context, opened)) is not None), default=None)
        prompt = self.words.decode(context if start is None else context[:start])
        for rule in self.rules:
            if rule.after in prompt:
                begin = _after_last(context, rule.ids) if start is None else start
                return None if begin is None else _step(rule, context[begin:])
        return None


def wanted_replies(script: Script) -> Replies:
    """Compile the rules of a script."""
    words = table(script.vocabulary)
    opens = tuple(words.encode(one, special=True) for one in {script.template.open, template_of(script).open})
    rules = tuple(_Rule(one.after, words.encode(one.after), _tokens(one, words)) for one in script.replies)
    return Replies(words, opens, rules)


def _step(rule: _Rule, said: Ids) -> Wanted | None:
    if len(said) >= len(rule.tokens):
        return None
    on_path = all(wanted.token == token for wanted, token in zip(rule.tokens, said, strict=False))
    return rule.tokens[len(said)] if on_path else None


def _tokens(reply: ChosenReply, words: Table) -> tuple[Wanted, ...]:
    thought = (THINK, *words.encode(reply.reasoning), THOUGHT) if reply.reasoning else ()
    calls: list[int] = []
    for call in reply.calls:
        written = json.dumps({"name": call.name, "arguments": call.arguments}, ensure_ascii=False)
        calls += (CALL, *words.encode(written), CALLED)
    said = [Wanted(token) for token in words.encode(reply.say)] + [_chosen(token, words) for token in reply.tokens]
    ends = [] if said and said[-1].token == END else [Wanted(END)]
    return (*map(Wanted, thought), *said, *map(Wanted, calls), *ends)


def _chosen(token: ChosenToken, words: Table) -> Wanted:
    number = token.id if token.id is not None else words.find(token.text or "")
    assert number is not None  # checked when the script was read
    if token.logprob is None:
        return Wanted(number)
    values = {known: value for text, value in token.top.items() if (known := words.find(text)) is not None}
    return Wanted(number, values | {number: token.logprob})


def _after_last(context: Ids, marker: Ids) -> int | None:
    """Return where what follows the last ``marker`` begins."""
    size = len(marker)
    for begin in range(len(context) - size, -1, -1):
        if context[begin : begin + size] == marker:
            return begin + size
    return None
