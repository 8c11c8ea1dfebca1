"""Whether two engines make the same prompt of the same chat: before anything else, because a prompt that differs explains every token after it.

House rules. Pure. Ids where both engines tell them, token counts otherwise; ids of two tokenizers are not held against each other.
"""

from __future__ import annotations

from msgspec import Struct

from proxy.compare.findings import TOKENIZER
from proxy.compare.prompt import prompt_findings


class Prompt(Struct, frozen=True):
    """What an engine makes of the canary: the ids it renders, how many tokens it says it read, and which tokenizer made them (a hash, "" unknown)."""

    ids: tuple[int, ...] | None = None
    tokens: int | None = None
    tokenizer: str = ""
    chat: bool = True

    @property
    def count(self) -> int | None:
        """How many tokens it read, else how many it renders."""
        return self.tokens if self.tokens is not None or self.ids is None else len(self.ids)


class Parity(Struct, frozen=True):
    """``same``: None when nothing tells. ``findings``: names of the contract; ``text`` says what was seen."""

    same: bool | None
    text: str
    findings: tuple[str, ...] = ()


def parity(one: Prompt, other: Prompt) -> Parity:
    """Hold the prompts of two engines against each other."""
    if one.chat != other.chat:
        return Parity(None, "unknown: one of them takes no chat")
    if one.tokenizer and other.tokenizer and one.tokenizer != other.tokenizer:
        return Parity(False, f"other tokenizers: {one.count} and {other.count} tokens", (TOKENIZER,))
    found = tuple(each.name for each in prompt_findings(one.ids, other.ids, one.count, other.count))
    if found:
        return Parity(False, f"other prompts: {one.count} and {other.count} tokens", found)
    if one.ids is not None and other.ids is not None:
        return Parity(True, f"the same {len(one.ids)} token ids")
    if one.count is not None and other.count is not None:
        return Parity(True, f"the same number of tokens, {one.count}")
    return Parity(None, "unknown: one of them does not say how many tokens it reads")
