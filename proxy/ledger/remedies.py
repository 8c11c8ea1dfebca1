"""What each finding means for a person: what is seen, how grave it is and what to do about it, on which engine.

House rules. One entry for each finding of the comparison's layers; a name that is not here is shown all the same, without advice. ``severity``:
``explains`` (every later difference may come from this: mend it first), ``functional`` (a user can notice it), ``notice``. The options of each engine stand in
``knobs``; the table in ``proxy/compare/README.md`` is made of these (``python -m proxy.ledger.findings_table``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from proxy.compare.layers import Evidence
from proxy.ledger.knobs import knob


class Advice(NamedTuple):
    """What a finding is made of, how grave it is, and the remedy."""

    seen: str
    severity: str
    remedy: str


class Engine(NamedTuple):
    """One arm as a person knows it: its name in the configuration, and the dialect it speaks ("" where that is not known)."""

    name: str
    dialect: str = ""


ADVICE: dict[str, Advice] = {
    "transport_errors": Advice(
        "the shadow gave no usable answer; `error` says how",
        "notice",
        "A shadow failed to answer: look at parhelion_shadow_errors_total and the engine's log.",
    ),
    "footprint_changed": Advice(
        "an arm's stack is another one than before",
        "notice",
        "A stack changed while records were collected: look at the records before and after apart.",
    ),
    "context_truncated": Advice(
        "a part of the prompt is missing on `arm`, which has no room for it",
        "explains",
        "One arm cut the prompt: give both the same maximum model length.",
    ),
    "prompt_double_bos": Advice(
        "the prompts are the same but for a second begin token on `arm`",
        "explains",
        "One arm puts the begin token twice, its tokenizer and its template each once: take it out of one of them.",
    ),
    "prompt_missing_bos": Advice(
        "the prompts are the same but for the first token, which `arm` lacks",
        "explains",
        "One arm leaves the begin token out: let its tokenizer add it, or put it into the template.",
    ),
    "prompt_template": Advice(
        "other token ids around the same ones",
        "explains",
        "The chat templates differ: give both engines the same template file.",
    ),
    "prompt_tokens": Advice(
        "the prompts differ, in ids or (where an arm gives none) in number",
        "explains",
        "The arms read another prompt: use the same chat template, tokenizer and system defaults on both.",
    ),
    "sampling_defaults": Advice(
        "the engines fill in other values where a client says nothing, or one of them takes a field of the request for something else (`misread`); `neutralised`: the shadow was sent the primary's",
        "explains",
        "The engines' sampling defaults differ: set the values in the requests, or the same generation config on both.",
    ),
    "logprob_mode": Advice(
        "values of another kind: as probed or declared, or as seen (gaps `scale` times as large, all `renormalised`)",
        "explains",
        "The arms report logprobs at other stages (raw or processed): set the same mode on both.",
    ),
    "logprob_alignment": Advice(
        "the values fit the tokens `rows` further on, and not their own",
        "explains",
        "One arm's logprobs are shifted against its tokens: a fault of that engine; report it there.",
    ),
    "alternatives_incomplete": Advice(
        "lists that lack a likely token or show no rival where the other arm's do, hold one twice, or repeat the row before",
        "notice",
        "An arm lists fewer alternatives than asked for, or repeats them: raise its limit, or lower top_logprobs for both.",
    ),
    "stream_misaligned": Advice(
        "an arm's rows are not one a token",
        "notice",
        "An arm's rows are not one a token: such replies are left out, never called different.",
    ),
    "tokenizer": Advice(
        "the same token ids spell another text, or fixed texts have other ids",
        "explains",
        "The tokenizers differ: serve the same tokenizer revision on both.",
    ),
    "channel_split": Advice(
        "the same output, divided otherwise into reasoning and content",
        "functional",
        "The same tokens are split otherwise into reasoning and content: use the same reasoning parser.",
    ),
    "tool_call_name": Advice(
        "other tools are called, or in another order",
        "functional",
        "The arms call other tools, or one calls none: use the same tool parser and chat template, then look at the flips.",
    ),
    "tool_call_arguments": Advice(
        "other arguments after JSON canonicalisation (order of keys and blanks do not count)",
        "functional",
        "The arms give other tool arguments: use the same tool parser, then look at the flips.",
    ),
    "json_structure": Advice(
        "an arm's JSON is not what the request asked for and the other's is",
        "functional",
        "One arm's JSON is malformed or of another shape: use the same guided-decoding backend.",
    ),
    "stop_handling": Advice(
        "a stop string ends one arm and not the other, or stands in one text alone",
        "functional",
        "The arms treat stop strings differently: compare their stop and include_stop settings.",
    ),
    "finish_reason": Advice(
        "the same output with another reason for its end",
        "functional",
        "The arms end for other reasons: look at end tokens and length limits.",
    ),
    "output_length": Advice(
        "the same tokens as far as both go, and one goes on; `max_tokens`: what the client set",
        "functional",
        "One arm's replies are longer: look at end tokens, stop settings and, where the client sets no max_tokens, the engines' default for it.",
    ),
}


_ONE_SIDED = Advice(
    ADVICE["sampling_defaults"].seen,
    "notice",
    "The primary does not tell its sampling defaults, so they may be others than the shadow's: set the values in the requests, or the same generation config on both.",
)


def _one_sided(evidence: Evidence) -> bool:
    """Tell that no default is known of the primary, and no field misread."""
    mine = [value for name, value in evidence.items() if name.endswith("_primary")]
    return bool(mine) and all(value is None for value in mine) and "misread" not in evidence.values()


def advice(finding: str, evidence: Evidence | None = None, arms: Mapping[str, Engine] | None = None) -> Advice:
    """Return what to make of a finding; an unknown name is a notice without a remedy.

    ``arms`` ("primary", "shadow") name the engines: the remedy then says what to change on which. Defaults that were made explicit on the shadow's
    copy explain nothing any more and are a notice; so are those that only the shadow tells of, for they may be the primary's too.
    """
    known = ADVICE.get(finding)
    if known is None:
        return Advice("", "notice", "")
    if finding == "sampling_defaults" and evidence and _one_sided(evidence):
        known = _ONE_SIDED
    severity = "notice" if evidence and evidence.get("neutralised") is True else known.severity
    guilty = (evidence or {}).get("arm")
    hints = []
    for arm, engine in (arms or {}).items():
        right = finding == "logprob_mode" and (evidence or {}).get(arm) == "raw"  # what every option sets
        option = knob(finding, engine.dialect) if guilty in (None, arm) and not right else ""
        if option:
            kind = "" if engine.name == engine.dialect else f" ({engine.dialect})"
            hints.append(f"On {engine.name}{kind}: {option}.")
    return Advice(known.seen, severity, " ".join((known.remedy, *hints)))


def evidence_line(evidence: Evidence) -> str:
    """Say what was seen in one line: ``primary tokens 31, shadow tokens 32``."""
    return ", ".join(f"{name.replace('_', ' ')} {_plain(value)}" for name, value in evidence.items())


def _plain(value: float | str | bool | None) -> str:
    match value:
        case None:
            return "unknown"
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.4g}"
        case _:
            return str(value)
