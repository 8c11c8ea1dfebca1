"""``parhelion serve`` and ``check`` over scripted engines: a healthy pair is identical and nothing is found, across dialects too."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from tests.running import ROOT, parhelion, post, scripted
from tests.whole import law, settle, shadows

BODY = {"model": "toy", "messages": [{"role": "user", "content": "What of the world?"}], "temperature": 0}
KINDS = ({}, {"stream": True}, {"logprobs": True, "top_logprobs": 3}, {"messages": [{"role": "user", "content": "Hi"}]})


def test_a_healthy_pair_of_two_dialects_is_identical(tmp_path: Path) -> None:
    with scripted("vllm") as primary, scripted("sglang") as candidate, scripted("llama_cpp") as other:
        arms = [*shadows(candidate, primary), {"name": "llama", "url": other}]
        with parhelion(tmp_path, primary, arms) as proxy:
            proxy.wait_known(["primary", "cand", "control", "llama"], 60)
            for change in KINDS:
                asked = BODY | {"max_tokens": 10} | change
                replies = [post(f"{url}/v1/chat/completions", asked) for url in (proxy.clients, primary)]
                assert replies[0] == replies[1]
            settle(proxy, len(KINDS))
            law(proxy, [(name, mode) for name in ("cand", "control", "llama") for mode in ("free", "forced")])
            for shadow in proxy.report()["shadows"]:
                assert shadow["findings"] == [], shadow["name"]
                free, forced = shadow["modes"]["free"], shadow["modes"]["forced"]
                assert free["identical"] == free["requests"] == len(KINDS), shadow["name"]
                assert forced["requests"] == len(KINDS), forced
                assert forced["tokens_compared"] == 10 * len(KINDS)
                assert sum(forced["flips"].values()) == 0
                assert forced["logprob_error_nats"]["max"] == 0.0


def test_check_says_what_each_can_do_and_finds_nothing(tmp_path: Path) -> None:
    found = tmp_path / "found.json"
    with scripted("vllm") as primary, scripted("tgi") as candidate:
        words = ["check", "--primary", primary, "--shadow", f"tgi={candidate}", "--json", str(found)]
        done = subprocess.run(
            [sys.executable, "-m", "proxy.cli", *words], cwd=ROOT, capture_output=True, timeout=120, check=False
        )
    assert done.returncode == 0, done.stderr.decode()
    mine, theirs = orjson.loads(found.read_bytes())["engines"]
    assert (mine["engine"], theirs["engine"]) == ("vllm", "tgi")
    assert mine["findings"] == []
    assert [one["finding"] for one in theirs["findings"]] == ["no_forced_scoring"]  # which TGI cannot do
    assert theirs["prompt_parity"]["same"]
    assert mine["capabilities"]["forced"]
    assert mine["capabilities"]["self_noise"] == 0.0
    assert mine["capabilities"]["logprob_mode"] == "raw"
    assert not theirs["capabilities"]["token_ids"]
    assert theirs["capabilities"]["top_logprobs"] == 5
    assert theirs["capabilities"]["logprob_mode"] == "processed"
    assert mine["capabilities"]["stream_same"]
    assert theirs["capabilities"]["stream_same"]


def test_what_cannot_be_started_is_said_in_one_line(tmp_path: Path) -> None:
    bad = tmp_path / "script.yaml"
    bad.write_text("differences: {noize: 1}")
    for words, said in (
        (["--script", str(bad)], r"script\.yaml: differences: unknown field noize, did you mean noise\?"),
        (["--dialect", "klingon"], r"--dialect: there is no klingon: choose one of llama_cpp, lmdeploy, .*vllm"),
        (["--host", "203.0.113.1"], r"cannot listen on 203\.0\.113\.1:8200: .*; choose another --port or --host"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "proxy.cli", "engine", "scripted", *words],
            cwd=ROOT,
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert done.returncode != 0
        (line,) = done.stderr.decode().splitlines()
        assert re.search(said, line), line


pytestmark = pytest.mark.slow
