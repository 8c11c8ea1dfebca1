"""``parhelion serve`` and ``check`` over scripted engines: a healthy pair is identical and nothing is found, across dialects too."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from tests.running import ROOT, parhelion, post, scripted
from tests.whole import law, settle

BODY = {"model": "toy", "messages": [{"role": "user", "content": "What of the world?"}], "temperature": 0}
KINDS = ({}, {"stream": True}, {"logprobs": True, "top_logprobs": 3}, {"messages": [{"role": "user", "content": "Hi"}]})


def test_a_healthy_pair_of_two_dialects_is_identical(tmp_path: Path) -> None:
    with scripted("vllm") as primary, scripted("sglang") as candidate, scripted("llama_cpp") as other:
        shadows = [{"name": "sglang", "url": candidate}, {"name": "llama", "url": other}]
        with parhelion(tmp_path, primary, shadows) as proxy:
            proxy.wait_known(["primary", "sglang", "llama"], 60)
            for change in KINDS:
                asked = BODY | {"max_tokens": 10} | change
                assert (
                    post(f"{proxy.clients}/v1/chat/completions", asked)[2]
                    == post(f"{primary}/v1/chat/completions", asked)[2]
                )
            settle(proxy, len(KINDS))
            law(proxy, [(name, mode) for name in ("sglang", "llama") for mode in ("free", "forced")])
            report = proxy.report()
            for shadow in report["shadows"]:
                assert shadow["findings"] == [], shadow["name"]
                modes = shadow["modes"]
                assert modes["free"]["identical"] == modes["free"]["requests"] == len(KINDS)
                assert modes["forced"]["requests"] == len(KINDS)
                assert sum(modes["forced"]["flips"].values()) == 0
                assert modes["forced"]["logprob_error_nats"]["max"] == 0.0


def test_check_says_what_each_can_do_and_finds_nothing(tmp_path: Path) -> None:
    with scripted("vllm") as primary, scripted("sglang") as candidate:
        words = ["check", "--primary", primary, "--shadow", f"sglang={candidate}", "--json"]
        done = subprocess.run(
            [sys.executable, "-m", "proxy.cli", *words], cwd=ROOT, capture_output=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
        found = orjson.loads(done.stdout)
        assert found


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
