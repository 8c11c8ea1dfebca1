"""What the scripted engine writes for SGLang and LMDeploy is what their own reply models hold: no key of its own, none left out."""

import json

import pytest

from engines.dialect import Call
from engines.scripted.writers.registry import writer
from tests.engines.scripted.playing import answer, engine, script

RULE = {"after": "weather", "reasoning": "Hm.", "say": "Rain.", "calls": [{"name": "look", "arguments": {"a": 1}}]}
PLAYED = engine(script(replies=[RULE]))
CHAT = {"model": "toy", "messages": [{"role": "user", "content": "x"}], "temperature": 0, "max_tokens": 3}
TOOLS = {
    "messages": [{"role": "user", "content": "weather"}],
    "tools": [{"type": "function", "function": {"name": "look"}}],
    "max_tokens": 200,
}
LOGPROBS = {"logprobs": True, "top_logprobs": 3}
IDS = {"return_token_ids": True}


def tree(value, out, at="", *, nulls):
    if isinstance(value, dict):
        for key, inner in value.items():
            if inner is not None or nulls:
                out.add(f"{at}.{key}")
            tree(inner, out, f"{at}.{key}", nulls=nulls)
    elif isinstance(value, list):
        for inner in value:
            tree(inner, out, at, nulls=nulls)


def replies(name, path, body):
    seen = answer(PLAYED, writer(name), Call(path, body))
    assert seen.status == 200, seen.body
    if not body.get("stream"):
        return [json.loads(seen.body)]
    lines = [line.removeprefix(b"data: ") for line in seen.body.split(b"\n\n") if line]
    assert lines.pop() == b"[DONE]"
    return [json.loads(line) for line in lines]


CASES = [
    ("/v1/chat/completions", CHAT, "ChatCompletion"),
    ("/v1/chat/completions", CHAT | LOGPROBS, "ChatCompletion"),
    ("/v1/chat/completions", CHAT | TOOLS, "ChatCompletion"),
    ("/v1/completions", {"model": "toy", "prompt": "x", "temperature": 0, "max_tokens": 3}, "Completion"),
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("path", "body", "model"), CASES)
@pytest.mark.parametrize("name", ["sglang", "lmdeploy"])
def test_replies_hold_their_keys(request, name, path, body, model, stream):
    models = request.getfixturevalue(name)
    kind = f"{model}StreamResponse" if stream else f"{model}Response"
    if stream:
        body = body | {"stream": True, "stream_options": {"include_usage": True}}
    ours, theirs = set(), set()
    for reply in replies(name, path, body):
        seen = models("accept", model=kind, body=reply)
        assert seen["ignored"] == []
        # Which nulls stand in an event depends on how it is written out, not on the model.
        tree(reply, ours, nulls=not stream)
        tree(seen["value"], theirs, nulls=not stream)
    assert ours == theirs


SCORING = {"input_ids": [20, 21, 22], "return_logprob": True, "logprob_start_len": 1, "top_logprobs_num": 2}


@pytest.mark.parametrize(
    ("name", "path", "body", "model"),
    [
        ("sglang", "/tokenize", {"prompt": "x"}, "TokenizeResponse"),
        ("sglang", "/tokenize", {"messages": CHAT["messages"]}, "TokenizeResponse"),
        ("sglang", "/detokenize", {"tokens": [20, 21]}, "DetokenizeResponse"),
        ("lmdeploy", "/v1/encode", {"input": "x"}, "EncodeResponse"),
        ("lmdeploy", "/generate", SCORING | {"max_tokens": 0}, "GenerateReqOutput"),
        ("lmdeploy", "/generate", {"prompt": "x", "max_tokens": 2}, "GenerateReqOutput"),
    ],
)
def test_replies_of_other_routes_hold_their_keys(request, name, path, body, model):
    (reply,) = replies(name, path, body)
    seen = request.getfixturevalue(name)("accept", model=model, body=reply)
    assert seen["ignored"] == []
    ours, theirs = set(), set()
    tree(reply, ours, nulls=False)
    tree(seen["value"], theirs, nulls=False)
    assert ours == theirs
