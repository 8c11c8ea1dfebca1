"""Faults of prompts, defaults, rows, channels and structure planted in scripted engines, through the whole judge: each under its own name, and nothing else.

All shadows of a run answer the same requests, so a fault must be silent where a request does not touch it.
"""

from __future__ import annotations

import math
from typing import Any

import pytest

from engines.scripted.model import vector
from engines.scripted.render import plain_ids
from engines.scripted.script_load import read
from proxy.compare.comparison import Mode
from tests.judged import Judged, judged
from tests.known_truth.watched import no_numbers, said

WEATHER = """
toy: {length: 80}
replies:
  - after: weather
    reasoning: The user asks for the weather in Paris, so look it up.
    say: It will rain.
    calls: [{name: look, arguments: {place: Paris, days: 2}}, {name: look, arguments: {place: Rome, days: 3}}]
"""
TOOLS = [{"type": "function", "function": {"name": "look"}}]


def body(question: str, **more: Any) -> dict[str, Any]:
    asked = {
        "model": "toy", "temperature": 0, "max_tokens": 24, "logprobs": True, "top_logprobs": 8, "return_token_ids": True,
        "messages": [{"role": "user", "content": question}],
    }  # fmt: skip
    return {name: value for name, value in (asked | more).items() if value is not None}


def planted(differences: str) -> str:
    return f"{WEATHER}differences: {{{differences}}}\n"


#: Two of each: plain, streamed, with tools, with a stop string, without a limit.
ASKED = {
    "plain": [body(f"Tell me about halos {number}.") for number in range(2)],
    "streamed": [body(f"Tell me of suns, {number} of them.", stream=True) for number in range(2)],
    "tools": [body(f"What is the weather {number}?", tools=TOOLS, max_tokens=200) for number in range(2)],
    "stopped": [body(f"The weather, please {number}.", stop=["rain"], max_tokens=200) for number in range(2)],
    "unlimited": [body(f"Of two suns tell me {number}.", max_tokens=None) for number in range(2)],
}
BODIES = [one for some in ASKED.values() for one in some]
ALL, REPLIED = len(BODIES), 4  # those that the script has a reply for reason and call

#: Of each: what is planted, what must be said, and what makes how many conversations bad.
FAULTS: dict[str, tuple[str, dict[str, dict[str, int]], str, int]] = {
    "second begin token": ("double_bos: true", {"prompt_double_bos": {"free": ALL}}, "prompt_double_bos", ALL),
    "no begin token": ("template: {bos: false}", {"prompt_missing_bos": {"free": ALL}}, "prompt_missing_bos", ALL),
    "other template": (
        'template: {turn: "[{role}] {content}\\n", open: "[assistant] "}', {"prompt_template": {"free": ALL}}, "prompt_template", ALL,
    ),
    # Once seen in a stream it is taken for granted for a while: the six requests after the streams are doubted, too.
    "rows one behind": ("shifted_rows: true", {"logprob_alignment": {"free": 8}}, "", 0),
    "first list repeated": ("alternatives: first_repeated", {"alternatives_incomplete": {"free": 2}}, "", 0),
    "no reasoning parser": ("reasoning_in_content: true", {"channel_split": {"free": REPLIED}}, "channel_split", REPLIED),
    "broken arguments": ("tool_arguments: broken", {"tool_call_arguments": {"free": 2}}, "tool_call_arguments", 2),
    "arguments in another order": ("tool_arguments: reordered", {}, "", 0),
    "another tool name": ("tool_name: look_up", {"tool_call_name": {"free": 2}}, "tool_call_name", 2),
    "no tool parser": ("tool_calls_in_content: true", {"tool_call_name": {"free": 2}, "finish_reason": {"free": 2}}, "tool_call_name", 2),
    "stop string kept": ("keep_stop: true", {"stop_handling": {"free": 2}}, "stop_handling", 2),
    "other default length": ("max_tokens: 5", {"output_length": {"free": 2}}, "output_length", 2),
}  # fmt: skip


@pytest.fixture(scope="module")
def run() -> Judged:
    """One run for all of them."""
    judged(WEATHER, {"control": WEATHER}, [])  # so that a healthy engine is what is known
    names = {name.replace(" ", "-"): planted(differences) for name, (differences, *_) in FAULTS.items()}
    return judged(WEATHER, {"control": WEATHER, **names}, BODIES)


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_named_and_nothing_else(run, fault, tell):
    _, names, bad, conversations = FAULTS[fault]
    shadow = run.shadow(fault.replace(" ", "-"))
    assert said(run.shadow("control")) == {}
    prompt = any(name.startswith("prompt_") for name in names)
    expected = {name: sum(by_mode.values()) for name, by_mode in names.items()}
    if prompt:
        expected |= {"prompt_tokens": ALL}
    found = said(shadow)
    assert found.pop("findings", {}) == expected
    # Scores are of the primary's own ids, so that the shadow's template is not asked.
    assert found == ({"incomparable": {"prompt_tokens": ALL}} if prompt else {})
    for mode in Mode:
        block = shadow["modes"][mode.value]
        assert "onset" not in block
        if prompt and mode is Mode.FREE:
            assert no_numbers(block)
        else:
            assert block["logprob_error_nats"]["max"] == 0.0
        for name, by_mode in names.items():
            if name != "prompt_tokens":
                named = [one for one in run.of(fault.replace(" ", "-"), mode) if name in one.findings]
                assert len(named) == by_mode.get(mode.value, 0)
    tally = shadow["verdict"]["tally"]
    assert (tally["worse"], tally["neither"]) == (conversations, ALL - conversations)
    assert [one["by"] for one in shadow["verdict"]["bad_by"]] == ([bad] if bad else [])
    told = ", ".join(names) or "nothing"
    tell(
        f"whole judge: {fault}",
        f"{ALL} requests of five kinds",
        f"{told}; no token flip",
        f"{conversations} conversations bad" if bad else "none bad",
    )


@pytest.mark.parametrize("kept", [100, 300])
def test_a_cut_prompt(kept, tell):
    judged(WEATHER, {"control": WEATHER}, [])
    question = " ".join(
        ["the", "and", "of", "to", "in", "is", "that", "for", "it", "as"][number % 10] for number in range(600)
    )
    run = judged(WEATHER, {"control": WEATHER, "candidate": planted(f"context_cut: {kept}")}, [body(question)])
    shadow = run.shadow("candidate")
    assert said(run.shadow("control")) == {}
    # Scoring, it answers fewer rows than it was given tokens: that is an answer nobody can use.
    assert said(shadow)["findings"] == {"context_truncated": 1, "prompt_tokens": 1, "transport_errors": 1}
    [free] = run.of("candidate", Mode.FREE)
    evidence = free.evidence["context_truncated"]
    assert (evidence["arm"], evidence["missing"]) == ("shadow", free.evidence["prompt_tokens"]["primary_tokens"] - kept)
    assert free.evidence["prompt_tokens"]["shadow_tokens"] == kept
    tell(
        "whole judge: truncated context",
        f"all but {kept} tokens cut",
        f"context_truncated, missing {evidence['missing']}",
        "prompt",
    )


def test_other_default_temperatures(tell):
    """Each shadow known by its own probe, as of an engine that tells its defaults."""
    cold = f"{WEATHER}defaults: {{temperature: 0}}\n"
    temperatures = (0.3, 0.9)
    bodies = [body(f"Tell me about halos {number}.", temperature=None) for number in range(2)]
    shadows = {f"t{value}": f"{WEATHER}differences: {{temperature: {value}}}\n" for value in temperatures}
    run = judged(cold, {"control": cold, **shadows}, bodies, engines=("llama_cpp", "llama_cpp"), probed=True)
    assert "findings" not in said(run.shadow("control"))
    for value in temperatures:
        shadow = run.shadow(f"t{value}")
        found = said(shadow)
        assert found["findings"].keys() == {"sampling_defaults"}
        assert found.keys() <= {"findings", "incomparable"}
        [evidence] = [one["evidence"] for one in shadow["findings"]]
        assert (
            evidence.items() >= {"temperature_primary": 0.0, "temperature_shadow": value, "neutralised": True}.items()
        )
        assert shadow["modes"]["free"]["identical"] == 2
        tell(
            "whole judge: other default temperature",
            f"0 against {value}",
            "sampling_defaults; answers identical, for it was told",
            "sampling",
        )


@pytest.mark.parametrize("noise", [0.001, 0.1, 1.0])
def test_embeddings_and_rankings(noise, tell):
    """Vectors moved by noise: the distance is that of the vectors themselves, and an order differs where the scores say so."""
    texts = ["The sea is deep.", "Two suns.", "A halo of ice.", "Count to ten."]
    shifted = f"differences: {{noise: {noise}}}\n"
    bodies = [
        {"model": "toy", "input": texts}, {"model": "toy", "query": "What is a parhelion?", "documents": texts * 4},
    ]  # fmt: skip
    run = judged("", {"control": "", "candidate": shifted}, bodies)
    assert said(run.shadow("control")) == said(run.shadow("candidate")) == {"incomparable": {"endpoint": 2}}  # forced
    [vectors, ranking] = run.of("candidate", Mode.FREE)
    scripts = read(b""), read(shifted.encode())
    for text, one in zip(texts, vectors.vectors, strict=True):
        left, right = (vector(script, plain_ids(script, text), one.dimensions) for script in scripts)
        dot = math.fsum(a * b for a, b in zip(left, right, strict=True))
        assert one.cosine_distance == pytest.approx(
            1 - dot / math.hypot(*left) / math.hypot(*right), abs=1e-9, rel=1e-6
        )
    assert ranking.ranking.order_differs == (ranking.ranking.discordant_pairs > 0)
    block = run.shadow("candidate")["modes"]["free"]
    assert block["embeddings"]["vectors"] == 4
    assert run.shadow("control")["modes"]["free"]["embeddings"]["cosine_distance"]["max"] == 0.0
    assert block["rerank"]["order_mismatches"] == ranking.ranking.order_differs
    tell(
        "whole judge: embeddings and rerank", f"noise {noise} on each element",
        f"cosine distance {block['embeddings']['cosine_distance']['median']:.2g}; {ranking.ranking.discordant_pairs} of {ranking.ranking.pairs} pairs in another order", "values",
    )  # fmt: skip
