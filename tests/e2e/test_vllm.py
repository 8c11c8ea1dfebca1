"""Real vLLM behind the real proxy, the fp32 reference engine beside it: exact ties, the lowest-id rule, how far fp32 is from fp32, and what the verdict is."""

from __future__ import annotations

from math import log
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.e2e.moment import Moment, command, consistent, look
from tests.engine_fixtures import MODEL
from tests.figures import Figure
from tests.known_truth.real.arms import TERMS, foretold, planted
from tests.ledger import agreement
from tests.running import parhelion, post, until

pytestmark = [pytest.mark.slow, pytest.mark.vllm, pytest.mark.torch, pytest.mark.timeout(600)]

QUESTIONS = (
    "What happened in 1969 that was important for space travel?",
    "Name three things a lighthouse keeper does on a foggy night.",
    "Explain in two sentences why ice floats on water.",
    "Write a Python function that counts the vowels in a word.",
    "Plan a trip to Iceland for a week.",
    "Repeat exactly: 🌞 naïve café 日本語",
    "Give me a short recipe for lentil soup.",
    "Why do cats purr?",
    "Summarise the story of the tortoise and the hare.",
    "Write a haiku about a slow computer.",
    "How do I boil an egg so that the yolk stays soft?",
    "Name the planets in order from the sun.",
    "What does a conductor of an orchestra do?",
)
#: As many as are asked where nothing is to be proved.
TEN = 10


def ask(number: int) -> dict[str, Any]:
    """A greedy chat that asks for ids; every second one streamed."""
    body: dict[str, Any] = {
        "model": MODEL, "messages": [{"role": "user", "content": QUESTIONS[number]}], "max_tokens": 40, "temperature": 0,
        "logprobs": True, "top_logprobs": 5, "return_token_ids": True,
    }  # fmt: skip
    return body | ({"stream": True} if number % 2 else {})


class Seen(NamedTuple):
    """What a proxy said of the traffic, and the records that it says it of."""

    moment: Moment
    records: Path


def see(tmp_path: Path, primary: str, shadows: list[dict[str, Any]], bodies: list[dict[str, Any]]) -> Seen:
    """Send the traffic one by one through a proxy, wait until all is settled."""
    with parhelion(tmp_path, primary, shadows, limits={"in_flight": 1}) as proxy:
        proxy.wait_known(["primary", *(shadow["name"] for shadow in shadows)], 120)
        for body in bodies:
            assert post(f"{proxy.clients}/v1/chat/completions", body)[0] == 200
        until(lambda: proxy.open_work() == 0, 240, "the settling")
        records = tmp_path / "records.jsonl"
        exported = command(proxy.config, "export", str(records))
        assert exported.returncode == 0, exported.stderr
        return Seen(look(proxy.admin, proxy.config, tmp_path), records)


def mode(report_: dict[str, Any], name: str, which: str) -> dict[str, Any]:
    return next(shadow for shadow in report_["shadows"] if shadow["name"] == name)["modes"][which]


@pytest.fixture(scope="module")
def bf16(vllm_bf16: str, reference_fp32: str, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """The trio of `make demo-vllm`, with the primary itself as control; and a second candidate, whose fault nobody could overlook."""
    shadows = [
        {"name": "reference", "url": reference_fp32, "modes": ["forced"]},
        {"name": "faulty", "url": planted(reference_fp32, "logit-noise=2.0,noise-seed=1"), "modes": ["forced"]},
        {"name": "control", "role": "control", "url": vllm_bf16},
    ]
    return see(tmp_path_factory.mktemp("bf16"), vllm_bf16, shadows, [ask(number) for number in range(len(QUESTIONS))])


def test_bf16_ties_go_to_the_lowest_id_and_fp32_shows_how_far_bf16_is(bf16: Seen) -> None:
    found = bf16.moment.report
    assert found["primary"]["tokens_source"]["reply"] == len(QUESTIONS)
    forced = mode(found, "reference", "forced")
    assert forced["requests"] == len(QUESTIONS)
    assert forced["tokens_compared"] > 200
    assert 3e-3 < forced["logprob_error_nats"]["median"] < 3e-2
    ties = found["shadows"][0]["ties"]
    assert ties["exact"] >= 3  # 3 % of positions, as measured
    assert ties["primary_pick"]["lowest"] >= 3
    assert ties["primary_pick"]["highest"] == ties["primary_pick"]["other"] == 0
    # The control is the primary's own instance here, so that its batch changes with the traffic: in bf16 it may part from itself, and then
    # where two tokens are nearly the same. Scoring is another kernel than decoding, which is the floor of forced mode.
    free = mode(found, "control", "free")
    assert free["requests"] == len(QUESTIONS)
    assert free["logprob_error_nats"]["median"] < 3e-2
    floor = mode(found, "control", "forced")["logprob_error_nats"]["median"]
    assert 3e-3 < floor < 3e-2


def test_the_verdict_on_bf16_follows_from_the_records_and_is_the_same_wherever_it_is_said(
    bf16: Seen, figure: Figure
) -> None:
    agreement.check_verdicts(bf16.moment.report, bf16.records)
    consistent(bf16.moment)
    verdict = bf16.moment.verdicts()["reference"]
    figure("verdict on the demo's engines", f"fp32 reference beside vLLM bf16: {verdict['state']} after {verdict['conversations']}, log e {verdict['log_e_fail']:.1f}, {verdict['tally']}")  # fmt: skip
    assert (verdict["floor"], verdict["coverage"]) == ("control", 1.0)
    assert verdict["conversations"] == len(QUESTIONS)
    # bf16 against fp32 differs where two tokens are nearly the same, and that is no flip beyond the control's.
    assert verdict["state"] == "KEEP WATCHING"
    assert verdict["conversations_needed"] > len(QUESTIONS)


def test_a_fault_that_nobody_could_overlook_fails_in_the_conversations_that_are_foretold(
    bf16: Seen, figure: Figure
) -> None:
    verdict = bf16.moment.verdicts()["faulty"]
    figure("verdict on the demo's engines", f"noise of 2 beside vLLM bf16: {verdict['state']} after {verdict['conversations']}, {foretold()} foretold, log e {verdict['log_e_fail']:.1f}, {verdict['tally']}")  # fmt: skip
    assert verdict["state"] == "FAIL"
    assert verdict["log_e_fail"] >= log(1 / TERMS.alpha)
    assert verdict["bad_by"][0]["by"] == "genuine_flip"
    assert verdict["conversations"] <= foretold() + 3  # one or another may be good by chance
    assert bf16.moment.status == 1


def test_fp32_against_fp32(vllm_fp32: str, reference_fp32: str, tmp_path: Path) -> None:
    found = see(
        tmp_path,
        vllm_fp32,
        [{"name": "reference", "url": reference_fp32}],
        [ask(number) for number in range(TEN)],
    ).moment.report
    free, forced = mode(found, "reference", "free"), mode(found, "reference", "forced")
    assert free["identical"] == free["requests"] == TEN
    assert free["logprob_error_nats"]["median"] < 1e-5
    assert forced["logprob_error_nats"]["median"] < 1e-5
    assert forced["logprob_error_nats"]["max"] < 1e-3
    assert sum(forced["flips"].values()) == 0


def test_what_vllm_answers_to_bad_requests_passes_through(vllm_fp32: str, tmp_path: Path) -> None:
    import json

    with parhelion(tmp_path, vllm_fp32, []) as proxy:
        for body, kind in (
            (b"{", "application/json"),
            (b"", "application/json"),
            (
                json.dumps({"model": "unknown", "messages": [{"role": "user", "content": "x"}]}).encode(),
                "application/json",
            ),
            (json.dumps({"model": MODEL}).encode(), "application/json"),
            (
                json.dumps({"model": MODEL, "messages": [{"role": "user", "content": "x"}], "max_tokens": -1}).encode(),
                "application/json",
            ),
            (
                json.dumps({"model": MODEL, "messages": [{"role": "user", "content": "word " * 4000}]}).encode(),
                "application/json",
            ),
            (json.dumps({"model": MODEL, "messages": []}).encode(), "text/plain"),
        ):
            through, direct = (
                post(f"{url}/v1/chat/completions", body, content_type=kind) for url in (proxy.clients, vllm_fp32)
            )
            assert through == direct
