"""Probing played engines: what is found, what is a finding, what makes an engine unusable."""

import asyncio
import json

import pytest

from engines.capabilities import remedy
from engines.dialect import Answer, Defaults, DialectError
from engines.probe import probe, stack_of
from engines.registry import dialect

MODELS = {"data": [{"id": "m", "owned_by": "vllm", "max_model_len": 2048}]}
IDS = [504, 3575, 282, 4649]


def logits(at, temperature=1.0, mode="raw"):
    spread = [0.0, 1.25, 2.5, 4.0, 4.25][: 5 if at >= 0 else 1]
    scale = 1 / temperature if mode == "processed" else 1.0
    return [-0.75 - value * scale for value in spread]


class Played:
    """A small vLLM with the faults that are asked for."""

    def __init__(self, *, logprobs=True, most=20, mode="raw", offset=0.0, prompt=36, chat=True, bf16=True):
        self.logprobs, self.most, self.mode, self.offset = logprobs, most, mode, offset
        self.prompt, self.with_chat, self.bf16 = prompt, chat, bf16

    def routes(self):
        return {
            "/v1/models": MODELS,
            "/version": {"version": "0.32.0"},
            "/tokenize": lambda body: {"tokens": list(range(36))},
            "/v1/chat/completions": self.chat if self.with_chat else Answer(404),
            "/v1/completions": self.completions,
        }

    def chat(self, body):
        top = body.get("top_logprobs", 0)
        if top > self.most:
            return Answer(400, (), ((0, b'{"error": {"message": "too many"}}'),))
        ids = IDS[: min(4, body["max_tokens"])]
        rows = [self.row(known, top, body) for known in ids] if self.logprobs else None
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": "abcd"},
            "logprobs": {"content": rows} if rows else None,
            "token_ids": ids if body.get("return_token_ids") else None,
            "finish_reason": "length",
        }
        usage = {"prompt_tokens": self.prompt, "completion_tokens": len(ids)}
        if not body.get("stream"):
            return {"choices": [choice], "usage": usage, "system_fingerprint": "vllm-0.32.0-3623c1d2"}
        choice["delta"] = choice.pop("message")
        event = json.dumps({"choices": [choice]})
        headers = (("content-type", "text/event-stream"),)
        return Answer(200, headers, ((0, f"data: {event}\n\ndata: [DONE]\n\n".encode()),))

    def row(self, known, top, body):
        values = logits(0, body.get("temperature") or 1.0, self.mode)[:top] or [-0.75]
        if self.mode == "logits":
            values = [value + 20 for value in values]
        listed = [
            {"token": f"token_id:{known + at}", "logprob": value, "bytes": None} for at, value in enumerate(values)
        ]
        return {**listed[0], "bytes": [97], "top_logprobs": listed if top else []}

    def completions(self, body):
        if "prompt_logprobs" not in body:
            return Answer(404)
        rows = [None] + [{str(known): {"logprob": -0.75 + self.offset}} for known in body["prompt"][1:]]
        return {"choices": [{"index": 0, "text": "", "prompt_logprobs": rows}]}


def run(played, scripted, *, name="vllm", model=None, declared=None):
    return asyncio.run(probe(scripted(played.routes()), dialect(name), model, declared))


def names(found):
    return [finding.finding for finding in found.findings]


def test_a_healthy_engine(scripted):
    found = run(Played(offset=0.03), scripted, declared={"gpu": "H200", "temperature": 0.6})
    seen = found.capabilities
    assert (found.model, found.dialect, found.findings) == ("m", "vllm", ())
    assert (seen.token_ids, seen.forced, seen.prompt_ids, seen.text_only) == (True, True, True, False)
    assert (seen.top_logprobs, seen.rows_per_token, seen.stream_same) == (5, True, True)
    assert (seen.logprob_mode, seen.logits_step, seen.context_length) == ("raw", "bf16", 2048)
    assert seen.self_noise == pytest.approx(0.03)
    assert found.defaults == Defaults(temperature=0.6, max_tokens_completions=16)
    assert found.footprint.value("gpu") == "H200"
    assert found.footprint.value("dtype") == "bf16"
    assert found.footprint.origins()["dtype"] == "inferred"
    assert found.footprint.value("config_hash") == "3623c1d2"
    assert found.footprint.value("chat_template_hash")


def test_the_footprint_of_two_probes_of_one_stack_is_the_same(scripted):
    assert run(Played(), scripted).footprint.id == run(Played(), scripted).footprint.id


def test_an_engine_without_logprobs_is_a_severe_finding_with_a_remedy(scripted):
    found = run(Played(logprobs=False), scripted, name="openai")
    assert names(found) == ["no_logprobs"]
    assert found.findings[0].severe
    assert "parhelion engine reference" in found.findings[0].remedy
    assert (found.capabilities.text_only, found.capabilities.forced) == (True, False)
    assert found.capabilities.logprob_mode == "unknown"


def test_fewer_alternatives_than_asked(scripted):
    found = run(Played(most=2), scripted)
    assert (found.capabilities.top_logprobs, found.capabilities.text_only) == (2, False)
    assert found.capabilities.forced is True


@pytest.mark.parametrize("mode", ["raw", "processed"])
def test_raw_and_processed_values_are_told_apart(scripted, mode):
    assert run(Played(mode=mode), scripted).capabilities.logprob_mode == mode


def test_logits_in_place_of_logprobs(scripted):
    found = run(Played(mode="logits"), scripted)
    assert found.capabilities.logprob_mode == "logits"
    assert "logprob_mode" in names(found)


def test_declared_mode_wins(scripted):
    assert run(Played(), scripted, declared={"logprob_mode": "processed"}).capabilities.logprob_mode == "processed"


def test_prompt_ids_that_are_not_what_it_uses(scripted):
    found = run(Played(prompt=37), scripted)
    assert names(found) == ["prompt_tokens"]
    assert "36" in found.findings[0].text
    assert "37" in found.findings[0].text
    assert found.capabilities.forced is False


def test_scoring_of_another_model(scripted):
    found = run(Played(offset=-5.0), scripted)
    assert names(found) == ["no_forced_scoring"]
    assert found.capabilities.forced is False


def test_an_engine_that_only_completes(scripted):
    class Base(Played):
        def completions(self, body):
            return super().completions(body) if "prompt_logprobs" in body else self.legacy(body)

        def legacy(self, body):
            ids = IDS[: min(4, body["max_tokens"])]
            labels = [f"token_id:{known}" for known in ids]
            arrays = {
                "tokens": labels,
                "token_logprobs": [-0.75] * len(ids),
                "top_logprobs": [{one: -0.75} for one in labels],
            }
            choice = {"index": 0, "text": "abcd", "logprobs": arrays, "token_ids": ids, "finish_reason": "length"}
            return {"choices": [choice], "usage": {"prompt_tokens": 36, "completion_tokens": len(ids)}}

    found = run(Base(chat=False), scripted)
    assert (found.capabilities.chat, found.capabilities.forced) == (False, True)
    assert names(found) == ["alternatives_incomplete"]


@pytest.mark.parametrize(
    ("routes", "model", "reason"),
    [
        ({"/v1/models": Answer(0, failure="refused")}, None, "refused"),
        ({"/v1/models": Answer(503)}, None, "status_503"),
        ({"/v1/models": Answer(401)}, None, "status_401"),
        ({"/v1/models": {"data": []}}, None, "no_model"),
        ({}, None, "not_an_engine"),
        ({"/v1/models": MODELS}, None, "status_404"),
        ({}, "m", "status_404"),
    ],
)
def test_unusable_engines_say_why_and_what_to_do(scripted, routes, model, reason):
    with pytest.raises(DialectError) as error:
        asyncio.run(probe(scripted(routes), dialect("vllm"), model))
    assert error.value.reason == reason
    assert remedy(reason) in str(error.value)


def test_an_engine_that_lists_no_model_is_asked_under_which_name_it_answers(scripted):
    class Pinned(Played):
        def routes(self):
            return super().routes() | {"/v1/models": {"data": []}}

        def chat(self, body):
            if "model" not in body:
                return {"model": "pinned@main", "choices": []}
            assert body["model"] == "pinned"
            return super().chat(body)

    assert run(Pinned(), scripted).model == "pinned"
    stack = asyncio.run(stack_of(scripted(Pinned().routes()), dialect("vllm")))
    assert stack.value("version") == "0.32.0"  # nothing is generated for it
    assert stack.value("model") == ""


def test_defaults_that_no_route_shows_can_be_declared(scripted):
    said = {"repetition_penalty": 1.1, "max_tokens_chat": 1024, "enable_thinking": False, "top_k": 40.0, "top_p": True}
    known = run(Played(), scripted, declared=said).defaults
    assert (known.repetition_penalty, known.max_tokens_chat, known.enable_thinking) == (1.1, 1024, False)
    assert (known.top_k, known.top_p) == (40, None)  # true is no number
