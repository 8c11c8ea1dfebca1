"""What is known before replies are compared: other defaults, and whether the shadow's copy says the primary's; modes; earlier doubts."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from engines.dialect import Defaults, Endpoint
from engines.registry import dialect
from proxy.compare.comparison import Comparison, Mode
from proxy.judge.arm import Arm
from proxy.judge.beforehand import beforehand, defaults_findings, differing, remember
from proxy.judge.request import Asked, asked
from proxy.traffic.shadow_client import Client

COLD = Defaults(temperature=0.0, top_p=1.0, max_tokens_completions=16, repetition_penalty=1.0)
WARM = Defaults(temperature=0.8, top_p=0.95, max_tokens_completions=32, repetition_penalty=1.1)


def arm(defaults: Defaults, mode: str = "raw", engine: str = "vllm", context: int | None = None) -> Arm:
    client = Client("http://127.0.0.1:1", api_key=None, connections=1, connect_timeout=1.0, max_bytes=1)
    return Arm(
        "x",
        client,
        1.0,
        asyncio.Semaphore(1),
        dialect=dialect(engine),
        defaults=defaults,
        logprob_mode=mode,
        context=context,
    )


def request(endpoint: Endpoint = Endpoint.CHAT, **body: Any) -> Asked:
    return asked(endpoint, "/v1/x", body)


def seen(primary: Defaults, shadow: Arm, one: Asked) -> dict[str, dict[str, Any]]:
    return {found.name: found.evidence for found in defaults_findings(one, primary, shadow)}


def test_another_default_temperature_is_named_and_neutralised() -> None:
    assert seen(COLD, arm(WARM), request()) == {
        "sampling_defaults": {
            "temperature_primary": 0.0, "temperature_shadow": 0.8, "repetition_penalty_primary": 1.0,
            "repetition_penalty_shadow": 1.1, "neutralised": True,
        }
    }  # fmt: skip


def test_what_the_client_says_itself_is_no_default() -> None:
    assert seen(COLD, arm(WARM), request(temperature=0, repetition_penalty=1.0)) == {}
    assert set(seen(COLD, arm(WARM), request(temperature=0.5, repetition_penalty=1.0))["sampling_defaults"]) == {
        "top_p_primary", "top_p_shadow", "neutralised",
    }  # fmt: skip


def test_another_default_length_is_of_the_length() -> None:
    said = {"temperature": 0, "repetition_penalty": 1.0}
    found = seen(COLD, arm(WARM), request(Endpoint.COMPLETIONS, **said))
    assert found == {"output_length": {"max_tokens_primary": 16, "max_tokens_shadow": 32, "neutralised": True}}
    assert seen(COLD, arm(WARM), request(Endpoint.COMPLETIONS, max_tokens=5, **said)) == {}


def test_an_unknown_default_of_the_primary_cannot_be_made_explicit() -> None:
    found = seen(Defaults(), arm(WARM), request())["sampling_defaults"]
    assert (found["temperature_primary"], found["temperature_shadow"], found["neutralised"]) == (None, 0.8, False)


def test_a_field_that_the_shadow_does_not_take_is_not_neutralised() -> None:
    assert seen(COLD, arm(Defaults(repetition_penalty=1.1), engine="openai"), request(temperature=0)) == {
        "sampling_defaults": {"repetition_penalty_primary": 1.0, "repetition_penalty_shadow": 1.1, "neutralised": False}
    }


@pytest.mark.parametrize(
    ("engines", "body", "said"),
    [
        (("vllm", "tgi"), {"presence_penalty": 0.5}, {"presence_penalty_shadow": "misread"}),
        (("transformers", "vllm"), {"frequency_penalty": 0.5}, {"frequency_penalty_primary": "misread"}),
        (("vllm", "ollama"), {"n": 2, "logit_bias": {"5": 1}}, {"logit_bias_shadow": "misread", "n_shadow": "misread"}),
        (("lmdeploy", "vllm"), {"presence_penalty": 0.5}, {"presence_penalty_primary": "misread"}),
        (("vllm", "tgi"), {"presence_penalty": 0.0, "n": 1}, {}),
        (("vllm", "ollama"), {"temperature": 0, "top_k": 20}, {}),  # greedy decoding does not look at it
        (("tgi", "tgi"), {"presence_penalty": 0.5}, {}),  # both take it for the same
        (("vllm", "sglang"), {"presence_penalty": 0.5}, {}),
    ],
)
def test_a_field_that_one_engine_takes_for_something_else_is_named(
    engines: tuple[str, str], body: dict[str, Any], said: dict[str, Any]
) -> None:
    one, other = (arm(Defaults(), engine=name) for name in engines)
    _, known = beforehand(request(**body), one, other, Mode.FREE)
    found = {found.name: found.evidence for found in known.noted}
    assert found == ({"sampling_defaults": {**said, "neutralised": False}} if said else {})


def test_a_misread_field_stands_beside_other_defaults() -> None:
    _, known = beforehand(request(presence_penalty=0.5), arm(COLD), arm(WARM, engine="tgi"), Mode.FREE)
    (found,) = known.noted
    assert found.evidence["temperature_shadow"] == 0.8
    assert (found.evidence["presence_penalty_shadow"], found.evidence["neutralised"]) == ("misread", False)


def test_equal_and_unknown_engines_have_nothing_to_name() -> None:
    assert differing(WARM, WARM) == differing(Defaults(), Defaults()) == differing(WARM, Defaults()) == ()
    assert differing(Defaults(), Defaults(repetition_penalty=1.0, max_tokens_completions=16)) == ()
    assert beforehand(request(), arm(WARM), arm(WARM), Mode.FREE)[1].noted == ()


@pytest.mark.parametrize(
    ("modes", "reason", "named"),
    [
        (("raw", "raw"), None, False),
        (("raw", "processed"), "logprob_mode", True),
        (("raw", "unknown"), "logprob_mode", True),
        (("unknown", "unknown"), "logprob_mode", False),
    ],
)
def test_modes(modes: tuple[str, str], reason: str | None, named: bool) -> None:
    found, known = beforehand(request(), arm(WARM, modes[0]), arm(WARM, modes[1]), Mode.FREE)
    assert found == reason
    assert [one.evidence for one in known.noted] == ([{"primary": modes[0], "shadow": modes[1]}] if named else [])


def test_an_arm_that_gives_text_only_has_no_values_of_another_kind() -> None:
    silent = arm(WARM, "unknown")
    silent.alternatives = 0
    for pair in ((arm(WARM), silent), (silent, arm(WARM))):
        reason, known = beforehand(request(), *pair, Mode.FREE)
        assert (reason, known.noted) == ("logprob_mode", ())


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({}, None),  # greedy by default: no temperature to scale by
        ({"temperature": 0}, None),
        ({"temperature": 0.7}, "logprob_mode"),
        ({"presence_penalty": 0.5}, "logprob_mode"),
        ({"tools": [{}]}, None),
        ({"tools": [{}], "tool_choice": "required"}, "logprob_mode"),
    ],
)
def test_processed_values_of_a_plain_greedy_request_are_raw_ones(body: dict[str, Any], reason: str | None) -> None:
    assert beforehand(request(**body), arm(COLD), arm(COLD, "processed"), Mode.FREE)[0] == reason
    assert beforehand(request(**body), arm(COLD), arm(COLD, "logits"), Mode.FREE)[0] == "logprob_mode"


@pytest.mark.parametrize(
    ("primary", "shadow", "reason"),
    [
        ("raw", "processed", None),  # its scoring draws nothing, so that nothing is scaled
        ("processed", "raw", "logprob_mode"),  # the primary's own values are those of its sampled reply
        ("processed", "processed", "logprob_mode"),
    ],
)
def test_scores_of_a_sampled_reply_are_raw(primary: str, shadow: str, reason: str | None) -> None:
    sampled = request(temperature=0.7)
    assert beforehand(sampled, arm(COLD, primary), arm(COLD, shadow), Mode.FORCED)[0] == reason


def test_contexts_and_the_clients_limit_go_along() -> None:
    primary, shadow = arm(COLD, context=8192), arm(COLD, context=4096)
    known = beforehand(request(max_tokens=7), primary, shadow, Mode.FREE)[1]
    assert (known.contexts, known.max_tokens, known.chat) == ((8192, 4096), 7, True)
    assert not beforehand(request(Endpoint.COMPLETIONS), primary, shadow, Mode.FREE)[1].chat


def test_a_fault_once_shown_is_taken_for_granted_for_a_while_in_its_mode() -> None:
    primary, shadow = arm(COLD), arm(COLD)
    remember(shadow, Mode.FREE, None, Comparison(mode=Mode.FREE, values_incomparable="logprob_alignment"))
    assert beforehand(request(), primary, shadow, Mode.FORCED)[0] is None
    for _ in range(32):
        reason, known = beforehand(request(), primary, shadow, Mode.FREE)
        assert reason == "logprob_alignment"
        assert known.noted[0].evidence == {"seen": "in an earlier reply"}
        remember(shadow, Mode.FREE, reason, Comparison(mode=Mode.FREE, values_incomparable=reason))
    assert beforehand(request(), primary, shadow, Mode.FREE)[0] is None  # looked at anew
