"""A difference planted in an engine, found by the whole judge: under its own name, with what was seen, and not as numeric drift.

Scripted engines are the same model to the last bit but for what a script plants, so whatever else is found would be false.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from aiohttp import ClientSession

from engines.http_fetch import connect
from engines.probe import Probe, probe
from engines.registry import dialect
from proxy.compare.comparison import Comparison, Mode
from proxy.compare.layers import LAYER_OF
from proxy.compare.summary import summarise_forced, summarise_free
from proxy.exchange import Ended, Exchange
from proxy.judge.arm import Arm
from proxy.judge.case import Mirrored, ShadowArm
from proxy.judge.examine import Examiner
from proxy.judge.noise import NoiseBook
from proxy.judge.settle import Policy
from proxy.judge.stacks import learn
from proxy.traffic.shadow_client import Client
from tests.planted import serving

CHAT = "/v1/chat/completions"
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


#: What the probe says of the healthy engine that speaks a dialect: asked once, it takes a second.
HEALTHY: dict[str, Probe] = {}


async def arm(name: str, url: str, engine: str, *, probed: bool) -> Arm:
    """One engine as the judge knows it after its probe; not ``probed``: as it knows a healthy one."""
    client = Client(url, api_key=None, connections=4, connect_timeout=5.0, max_bytes=1 << 22)
    made = Arm(name, client, 30.0, asyncio.Semaphore(4))
    if not probed and engine in HEALTHY:
        learn(made, HEALTHY[engine])
    else:
        async with connect(url, timeout=30) as fetch:
            known = await probe(fetch, dialect(engine))
        if name == "primary":
            HEALTHY.setdefault(engine, known)
        learn(made, known)
    made.dialect = dialect(engine)
    return made


async def examined(
    primary: str, shadow: str, bodies: Sequence[dict[str, Any]], engines: tuple[str, str], *, probed: bool
) -> list[Comparison]:
    found: list[Comparison] = []
    async with contextlib.AsyncExitStack() as stack:
        urls = [
            await stack.enter_async_context(serving(text, engine))
            for text, engine in zip((primary, shadow), engines, strict=True)
        ]
        arms = [
            await arm(name, url, engine, probed=probed)
            for name, url, engine in zip(("primary", "candidate"), urls, engines, strict=True)
        ]
        for one in arms:
            stack.push_async_callback(one.client.aclose)
        shadows = (ShadowArm(arms[1], "candidate", (Mode.FREE, Mode.FORCED), {}, 20),)
        examiner = Examiner(arms[0], shadows, Policy("none", b""), False, 1 << 20, NoiseBook(None))
        session = await stack.enter_async_context(ClientSession())
        for number, one in enumerate(bodies):
            path = "/v1/completions" if "prompt" in one else CHAT
            async with session.post(urls[0] + path, json=one) as reply:
                assert reply.status == 200, await reply.text()
                data = await reply.read()
                headers = tuple((name.lower().encode(), value.encode()) for name, value in reply.headers.items())
            exchange = Exchange(
                f"x{number}", "t0", 1000.0, 0.1, "POST", path, (), orjson.dumps(one), 200, headers, ((500, data),), 400, 500, Ended.COMPLETE,
            )  # fmt: skip
            mirrored: asyncio.Future[Mirrored] = asyncio.get_running_loop().create_future()
            examiner.mirror(exchange, mirrored.set_result)
            result = await examiner.judge(await mirrored)
            found += [outcome.comparison for outcome in result.outcomes if outcome.comparison is not None]
    return found


def judged(
    shadow: str,
    *bodies: dict[str, Any],
    primary: str = REPLIES,
    engines: tuple[str, str] = ("vllm", "vllm"),
    probed: bool = False,
) -> list[Comparison]:
    """Have the requests judged; what forced mode cannot do is not our subject."""
    return asyncio.run(examined(primary, shadow, bodies, engines, probed=probed))


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
