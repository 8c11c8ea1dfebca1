"""Every finding of the contract, and every one that the comparison can make, has its advice."""

from __future__ import annotations

from proxy.compare import findings
from proxy.ledger.remedies import ADVICE, advice

CONTRACT = [
    "prompt_tokens",
    "prompt_template",
    "prompt_double_bos",
    "context_truncated",
    "sampling_defaults",
    "logprob_mode",
    "logprob_alignment",
    "alternatives_incomplete",
    "stream_misaligned",
    "stop_handling",
    "output_length",
    "finish_reason",
    "channel_split",
    "tool_call_name",
    "tool_call_arguments",
    "json_structure",
    "tokenizer",
    "footprint_changed",
    "transport_errors",
]


def test_every_name_of_the_contract():
    assert set(ADVICE) == set(CONTRACT)


def test_every_name_that_the_comparison_uses():
    used = {value for name, value in vars(findings).items() if name.isupper() and isinstance(value, str)}
    assert used
    assert used <= set(ADVICE)


def test_each_is_a_sentence_that_says_what_to_do():
    for severity, remedy in ADVICE.values():
        assert severity in {"explains", "functional", "notice"}
        assert remedy.endswith(".")


def test_an_unknown_name_is_a_notice():
    assert advice("new") == ("notice", "")
