"""What each finding means for a person: how grave it is and what to do, in one sentence.

House rules. One entry for each finding name of the contract; a name that is not here is shown all the same, without advice. ``severity``:
``explains`` (every later difference may come from this: mend it first), ``functional`` (a user can notice it), ``notice``.
"""

from __future__ import annotations

from typing import NamedTuple


class Advice(NamedTuple):
    """How grave a finding is, and the remedy."""

    severity: str
    remedy: str


ADVICE: dict[str, Advice] = {
    "prompt_tokens": Advice("explains", "The arms read another prompt: use the same chat template, tokenizer and system defaults on both."),
    "prompt_template": Advice("explains", "The chat templates differ: give both engines the same template file."),
    "prompt_double_bos": Advice("explains", "One arm puts the begin token twice: turn off add_bos or take it out of the template."),
    "context_truncated": Advice("explains", "One arm cut the prompt: give both the same maximum model length."),
    "sampling_defaults": Advice("explains", "The engines' sampling defaults differ: set temperature and top_p in the requests, or the same generation config on both."),
    "tokenizer": Advice("explains", "The tokenizers differ: serve the same tokenizer revision on both."),
    "logprob_mode": Advice("explains", "The arms report logprobs at other stages (raw or processed): set the same mode, for vLLM --logprobs-mode."),
    "logprob_alignment": Advice("explains", "One arm's logprobs are shifted against its tokens: a fault of that engine; report it there."),
    "alternatives_incomplete": Advice("notice", "An arm lists fewer alternatives than asked for: raise its limit, or lower top_logprobs for both."),
    "stream_misaligned": Advice("notice", "An arm's rows are not one a token: such replies are left out, never called different."),
    "stop_handling": Advice("functional", "The arms treat stop strings differently: compare their stop and include_stop settings."),
    "output_length": Advice("functional", "One arm's replies are longer: look at end tokens, length limits and stop settings."),
    "finish_reason": Advice("functional", "The arms end for other reasons: look at end tokens and length limits."),
    "channel_split": Advice("functional", "The same tokens are split otherwise into reasoning and content: use the same reasoning parser."),
    "tool_call_name": Advice("functional", "The arms call other tools: use the same tool parser and chat template."),
    "tool_call_arguments": Advice("functional", "The arms give other tool arguments: use the same tool parser, then look at the flips."),
    "json_structure": Advice("functional", "One arm's JSON is malformed or of another shape: use the same guided-decoding backend."),
    "footprint_changed": Advice("notice", "A stack changed while records were collected: look at the records before and after apart."),
    "transport_errors": Advice("notice", "A shadow failed to answer: look at parhelion_shadow_errors_total and the engine's log."),
}  # fmt: skip


def advice(finding: str) -> Advice:
    """Return how grave a finding is and its remedy; an unknown name is a notice without one."""
    return ADVICE.get(finding, Advice("notice", ""))
