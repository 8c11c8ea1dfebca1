"""A difference planted in an engine, found by the whole judge: under its own name, with what was seen, and not as numeric drift.

Scripted engines are the same model to the last bit but for what a script plants, so whatever else is found would be false.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from proxy.compare.comparison import Comparison, Mode
from proxy.compare.layers import LAYER_OF
from proxy.compare.summary import summarise_forced, summarise_free
from tests.judged import judged as whole

ASKED: dict[str, Any] = {
    "model": "toy", "temperature": 0, "max_tokens": 24, "logprobs": True, "top_logprobs": 8, "return_token_ids": True,
}  # fmt: skip
QUESTIONS = ("Tell me about halos, the sun's.", "What is the weather?", "Count to ten and stop there, please.")
REPLIES = """
replies:
  - after: weather
    reasoning: The user asks for the weather in Paris, so look it up.
    say: It will rain.
    calls: [{name: look, arguments: {place: Paris, days: 2}}]
"""


def body(question: str, **more: Any) -> dict[str, Any]:
    asked = ASKED | {"messages": [{"role": "user", "content": question}]} | more
    return {name: value for name, value in asked.items() if value is not None}


def script(differences: str = "", extra: str = "") -> str:
    return REPLIES + extra + (f"differences: {{{differences}}}\n" if differences else "")


def judged(
    shadow: str,
    *bodies: dict[str, Any],
    primary: str = REPLIES,
    engines: tuple[str, str] = ("vllm", "vllm"),
    probed: bool = False,
) -> list[Comparison]:
    """Have the requests judged; what forced mode cannot do is not our subject."""
    return whole(primary, {"candidate": shadow}, bodies, engines=engines, probed=probed).comparisons["candidate"]


def quiet(found: Sequence[Comparison]) -> None:
    """Nothing of it is counted as numeric drift."""
    free = summarise_free([one for one in found if one.mode is Mode.FREE])
    forced = summarise_forced([one for one in found if one.mode is Mode.FORCED])
    assert sum(free["divergences"].values()) == sum(forced["flips"].values()) == 0
    assert free.get("hazard_per_1000_tokens", {"raw": 0.0})["raw"] == 0.0
    for summary in (free, forced):
        assert summary.get("logprob_error_nats", {"max": 0.0})["max"] < 1e-9
        assert summary.get("kl_lower_bound_nats", {"max": 0.0})["max"] < 1e-6


ALL = tuple(body(question) for question in QUESTIONS)
STREAMED = tuple(body(question, stream=True) for question in QUESTIONS)
STOPPED = (body(QUESTIONS[1], stop=["rain"], max_tokens=200),)
WEATHER = (body(QUESTIONS[1], tools=[{"type": "function", "function": {"name": "look"}}], max_tokens=200),)
#: What most clients send: no logprobs, so that there is text alone.
PLAIN = tuple(one | {"logprobs": False, "top_logprobs": None, "return_token_ids": False} for one in WEATHER)
SILENT = tuple(body(question, temperature=None) for question in QUESTIONS)
COLD = "defaults: {temperature: 0}\n"
COMPLETION = ({"model": "toy", "prompt": "The sea", "temperature": 0, "logprobs": 4, "return_token_ids": True},)


@pytest.mark.parametrize("engines", [("vllm", "vllm"), ("vllm", "sglang"), ("llama_cpp", "llama_cpp")], ids="-".join)
def test_an_identical_pair_gives_no_finding_at_all(engines):
    found = judged(REPLIES, *ALL, *STREAMED, *STOPPED, *WEATHER, *COMPLETION, engines=engines, probed=True)
    assert [(one.findings, one.evidence) for one in found] == [((), {})] * len(found)
    assert {one.outcome for one in found if one.mode is Mode.FREE} <= {"identical"}
    quiet(found)


@pytest.mark.parametrize(
    ("name", "differences", "bodies"),
    [
        ("prompt_double_bos", "double_bos: true", ALL),
        ("prompt_template", 'template: {turn: "[{role}] {content}\\n", open: "[assistant] "}', ALL[::2]),
        ("context_truncated", "context_cut: 20", (body("word " * 600),)),
        ("logprob_alignment", "shifted_rows: true", STREAMED),
        ("alternatives_incomplete", "alternatives: duplicated", ALL),
        ("alternatives_incomplete", "alternatives: missing", ALL),
        ("alternatives_incomplete", "alternatives: first_repeated", STREAMED),
        ("channel_split", "reasoning_in_content: true", WEATHER),
        ("channel_split", "reasoning_in_content: true", PLAIN),
        ("tool_call_arguments", "tool_arguments: broken", WEATHER),
        ("tool_call_name", "tool_name: look_up", WEATHER),
        ("tool_call_name", "tool_calls_in_content: true", WEATHER),
        ("stop_handling", "keep_stop: true", STOPPED),
    ],
)
def test_each_is_named_and_is_no_drift(name, differences, bodies):
    found = judged(script(differences), *bodies)
    free = [one for one in found if one.mode is Mode.FREE]
    assert any(name in one.findings for one in free), [one.findings for one in free]
    named = next(one for one in free if name in one.findings)
    assert named.evidence[name]
    others = {LAYER_OF[other] for one in free for other in one.findings} - {LAYER_OF[name]}
    assert not others, [one.findings for one in free]
    quiet(found)


@pytest.mark.parametrize("arm", ["primary", "shadow"])
@pytest.mark.parametrize(
    ("how", "seen"), [("first_repeated", "repeated"), ("duplicated", "doubled"), ("missing", "left_out")]
)
def test_lists_that_are_wrong_are_blamed_on_the_arm_that_shows_them(arm, how, seen):
    faulty = script(f"alternatives: {how}")
    scripts = {"shadow": REPLIES, "primary": REPLIES} | {arm: faulty}
    found = judged(scripts["shadow"], *STREAMED, primary=scripts["primary"])
    free = [one.evidence["alternatives_incomplete"] for one in found if one.mode is Mode.FREE]
    assert [one.keys() for one in free] == [{f"{arm}_{seen}", "positions"}] * len(STREAMED)
    for one in free:
        assert one[f"{arm}_{seen}"] >= 0.4 * one["positions"]


def test_arguments_in_another_order_are_no_finding():
    found = judged(script("tool_arguments: reordered"), *WEATHER, *PLAIN)
    assert {one.findings for one in found} == {()}
    quiet(found)


def test_values_after_temperature_are_named_where_there_is_one_and_their_tokens_compared():
    drawn = tuple(one | {"temperature": 0.6, "seed": 3} for one in ALL[::2])
    found = judged(REPLIES, *ALL[::2], *drawn, primary=script("processed_logprobs: true"), probed=True)
    named = [one for one in found if one.findings]
    assert [one.findings for one in named] == [("logprob_mode",)] * 2
    assert all((one.mode, one.outcome, one.greedy) == (Mode.FORCED, "scored", False) for one in named)
    assert named[0].evidence == {"logprob_mode": {"primary": "processed", "shadow": "raw"}}
    assert {one.outcome for one in found if one.mode is Mode.FREE and one.incomparable is None} == {"identical"}
    quiet(found)


def test_another_default_temperature_is_named_and_made_explicit():
    found = judged(
        script("temperature: 0.9"), *SILENT, primary=REPLIES + COLD, engines=("llama_cpp", "llama_cpp"), probed=True
    )
    free = [one for one in found if one.mode is Mode.FREE]
    assert all(one.findings == ("sampling_defaults",) for one in free), [one.findings for one in free]
    assert {one.outcome for one in free} == {"identical"}
    seen = free[0].evidence["sampling_defaults"]
    assert (seen["temperature_primary"], seen["temperature_shadow"], seen["neutralised"]) == (0.0, 0.9, True)
    quiet(found)


def test_another_default_length_is_of_the_length():
    found = judged(script("max_tokens: 5"), body(QUESTIONS[0], max_tokens=None))
    (free,) = [one for one in found if one.mode is Mode.FREE]
    assert free.findings == ("output_length",)
    assert (free.evidence["output_length"]["shadow_tokens"], free.evidence["output_length"]["max_tokens"]) == (
        5,
        "not set",
    )
    quiet(found)
