"""Whether two engines read the same prompt: by ids, by counts, or not to be told."""

from __future__ import annotations

import pytest

from engines.parity import Parity, Prompt, parity

IDS = (1, 5, 9, 12)


@pytest.mark.parametrize(
    ("one", "other", "same", "findings"),
    [
        (Prompt(IDS, 4, "t"), Prompt(IDS, 4, "t"), True, ()),
        (Prompt(IDS, 4), Prompt(None, 4), True, ()),
        (Prompt(IDS), Prompt(None, 5), False, ("prompt_tokens",)),
        (Prompt(IDS, 4, "t"), Prompt((1, *IDS), 5, "t"), False, ("prompt_double_bos", "prompt_tokens")),
        (Prompt(IDS, 4, "t"), Prompt((1, 5, 9, 13), 4, "t"), False, ("prompt_template", "prompt_tokens")),
        (Prompt(IDS, 4, "t"), Prompt((7, 8), 2, "u"), False, ("tokenizer",)),
        (Prompt(IDS, 4), Prompt(), None, ()),
        (Prompt(IDS, 4), Prompt(IDS, 4, chat=False), None, ()),
    ],
)
def test_parity(one, other, same, findings):
    found = parity(one, other)
    assert (found.same, found.findings) == (same, findings)
    assert parity(other, one).same == same


def test_what_was_seen_is_said():
    assert parity(Prompt(IDS), Prompt(IDS)) == Parity(True, "the same 4 token ids")
    assert parity(Prompt(IDS), Prompt(None, 6)).text == "other prompts: 4 and 6 tokens"
