"""Replies have the keys that recorded replies of the real engines have, at every depth: none missing, none invented."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engines.dialect import Call
from engines.scripted.script import Script
from engines.scripted.writers.registry import writer
from tests.engines.scripted.playing import answer, engine, script

RECORDED = Path(__file__).parents[2] / "fixtures"
FOLDERS = {"vllm-cpu-bf16": "vllm", "llama.cpp-q4_1": "llama_cpp", "transformers-serve-fp32": "transformers"}
CASES = (
    "chat",
    "chat_logprobs",
    "chat_logprobs_no_top",
    "chat_logprobs_top0",
    "chat_eos_logprobs",
    "chat_return_token_ids",
    "chat_tokens_as_token_ids",
    "chat_prompt_logprobs",
    "chat_continue_final_message",
    "chat_n2_logprobs",
    "chat_stop_string",
    "chat_stream",
    "chat_stream_usage",
    "chat_stream_logprobs",
    "chat_stream_eos_logprobs",
    "chat_stream_return_token_ids",
    "completions",
    "completions_batch",
    "completions_logprobs",
    "completions_logprobs0",
    "completions_prompt_logprobs",
    "completions_echo_logprobs",
    "completions_return_token_ids",
    "completions_tokens_as_token_ids",
    "completions_stream_logprobs",
    "native_completion_n_probs",
    "native_completion_n_probs_stream",
    "native_completion_teacher_forced_step",
    "tokenize",
    "detokenize",
    "apply_template",
    "models",
    "version",
    "props",
    "err_top_logprobs_21",
    "err_not_found",
    "err_malformed_json",
)
#: Differs by what the model says: the keys of completions' dicts are tokens, those of prompt_logprobs ids.
_BY_TOKEN = {"top_logprobs", "prompt_logprobs"}
#: Values of a real machine that the scripted engine does not pretend to.
_LEFT_OUT = {
    "completion": {"generation_settings"},
    "props": {"default_generation_settings", "chat_template_caps"},
    "models": {"models", "data", "meta"},
}


def tree(value: Any, out: set[str], at: str = "") -> set[str]:
    """Every path of keys; list places and dict keys that are tokens are left out."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if at.rpartition(".")[2] in _BY_TOKEN and key not in ("logprob", "rank", "decoded_token"):
                named = key if {"token", "bytes", "id"} & value.keys() else "*"
            else:
                named = key
            out.add(f"{at}.{named}")
            tree(inner, out, f"{at}.{named}")
    elif isinstance(value, list):
        for inner in value:
            tree(inner, out, at)
    return out


def documents(data: bytes, *, stream: bool) -> list[Any]:
    if not stream:
        return [json.loads(data)]
    lines = [line[6:] for line in data.split(b"\n") if line.startswith(b"data: ") and line != b"data: [DONE]"]
    return [json.loads(line) for line in lines]


def events(parts: list[Any]) -> list[frozenset[str]]:
    """The trees of a stream's events in order, runs of equal ones as one."""
    trees = [frozenset(tree(part, set())) for part in parts]
    return [one for place, one in enumerate(trees) if place == 0 or one != trees[place - 1]]


def recorded(folder: str, name: str) -> Path | None:
    """Where the body of a recorded reply is, if there is one."""
    return next((path for kind in ("json", "sse") if (path := RECORDED / folder / f"{name}.{kind}").exists()), None)


ALL = [(folder, name) for folder in FOLDERS for name in CASES if recorded(folder, name)]


@pytest.mark.parametrize(("folder", "name"), ALL)
def test_keys_are_those_of_the_recorded_reply(folder: str, name: str) -> None:
    path = recorded(folder, name)
    assert path is not None
    head = json.loads((RECORDED / folder / f"{name}.headers.json").read_text())
    request, status = head["request"], head["response"]["status"]
    played = engine(_ending_early(name))
    body = request.get("body")
    if body is not None:
        body = _here(json.loads(json.dumps(body).replace("smollm2-135m", "toy")))
    got = answer(played, writer(FOLDERS[folder]), Call(request["path"], body, request["method"]))
    if "malformed" in name:
        assert got.status in (status, 400)
        return
    assert got.status == status, got.body
    stream = path.suffix == ".sse"
    ours, theirs = (documents(data, stream=stream) for data in (got.body, path.read_bytes()))
    left_out = next((names for part, names in _LEFT_OUT.items() if part in name), set())
    for part in (*ours, *theirs):
        for key in left_out:
            part.pop(key, None)
    if stream and "native" not in name:
        assert events(ours) == events(theirs)
    assert set().union(*events(ours)) == set().union(*events(theirs))


def _here(value: Any) -> Any:
    """The same body with ids that the toy has."""
    if isinstance(value, dict):
        return {key: _here(inner) if key in ("prompt", "tokens") else inner for key, inner in value.items()}
    if isinstance(value, list):
        return [_here(inner) for inner in value]
    return 7 + value % 256 if isinstance(value, int) else value


def _ending_early(name: str) -> Script:
    """The recorded replies to these ended with the end token, or at their stop string."""
    say = "The capital of France is Paris." if any(part in name for part in ("chat", "eos")) else ""
    rule = {"after": "user", "say": " of"} if "eos" in name else {"after": "capital", "say": say}
    return script(replies=[rule] if say else [], toy={"length": 1 << 20})
