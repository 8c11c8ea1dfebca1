"""``parhelion rollouts`` as a user runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.running import ROOT, scripted


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "proxy.cli", "rollouts", *words]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, cwd=ROOT, env={"PYTHONPATH": str(ROOT), "COLUMNS": "200", "PATH": "/usr/bin"} | environment, check=False
    )  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "step.jsonl"
    lines = [
        {"uid": f"r{number}\x1b[31m", "prompt_ids": [1], "response_ids": [3, 4], "rollout_log_probs": [-1.0, -2.0], "old_log_probs": [-1.1, -2.0 - number / 100]}
        for number in range(12)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"response_ids": [1')
    return path


def test_a_file_is_compared_and_gated(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    done = run(str(file), "--json", str(out), "--unfiltered", "--max-k3", "0.01")
    assert done.returncode == 0, done.stderr
    assert "12 rollouts compared over 24 tokens" in done.stdout
    assert "line 13: the file ends in the middle" in done.stderr
    assert "\x1b[31m" not in done.stdout
    found = json.loads(out.read_text())
    assert (found["schema"], found["rollouts"], found["unusable"]) == ("parhelion.rollouts/1", 12, {"truncated": 1})
    mean = (12 * 0.1 + sum(number / 100 for number in range(12))) / 24
    assert found["numbers"]["k1_nats"]["raw"] == pytest.approx(mean)
    assert found["worst"][0]["difference"] == pytest.approx(-0.11)
    over = run(str(file), "--max-rms", "0.001", "--max-unusable", "0")
    assert over.returncode == 1
    assert "over the limit: rms_difference_nats" in over.stderr
    assert "over the limit: unusable rollouts" in over.stderr


def test_an_engine_scores_what_no_trainer_has(tmp_path: Path) -> None:
    path = tmp_path / "step.jsonl"
    line = {"prompt_ids": [1, 300, 301], "response_ids": [302, 303], "rollout_logprobs": [-1.0, -2.0]}
    path.write_text(json.dumps(line) + "\n")
    alone = run(str(path))
    assert alone.returncode == 2
    assert "no rollout could be compared" in alone.stderr
    with scripted("vllm") as url:
        done = run(str(path), "--shadow", url)
    assert done.returncode == 0, done.stderr
    assert "1 rollouts compared over 2 tokens" in done.stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--engine", "nonesuch", "--shadow", "http://127.0.0.1:1"], "--engine: 'nonesuch' is not known"),
        (["--clip-low", "1.5"], "--clip-low is from 0 to below 1"),
        (["--concurrency", "0"], "--concurrency: at least 1"),
        (["--shadow", "http://127.0.0.1:1"], "--shadow: refused"),
        (["--max-k3", "nan"], "--max-k3: give a number"),
        (["--clip-high", "nan"], "--clip-low is from 0"),
        (["--api-key-env", "KEY"], "--api-key-env: is for the engine of --shadow"),
        (["--shadow", "http://127.0.0.1:1", "--api-key-env", "sk-given-by-mistake"], "--api-key-env: there is no such"),
    ],
)
def test_mistakes_are_one_line(file: Path, words: list[str], says: str) -> None:
    done = run(str(file), *words)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith(f"parhelion: {says}")
    assert "sk-given" not in done.stderr


def test_whoever_has_read_enough_is_no_failure(file: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-m", "proxy.cli", "rollouts", str(file), "--json", str(tmp_path / "out.json")]
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, timeout=60, env={"PYTHONPATH": str(ROOT)}, check=False)  # fmt: skip
    os.close(writer)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "out.json").read_text())["rollouts"] == 12


def test_the_engines_key_comes_out_of_the_environment(tmp_path: Path) -> None:
    path, script = tmp_path / "step.jsonl", tmp_path / "s.yaml"
    path.write_text('{"prompt_ids": [1, 300], "response_ids": [302, 303], "rollout_logprobs": [-1.0, -2.0]}\n')
    script.write_text("api_key: sk-of-this-engine\n")
    with scripted("vllm", script) as url:
        assert "it wants a key" in run(str(path), "--shadow", url, "--engine", "vllm").stderr
        done = run(str(path), "--shadow", url, "--api-key-env", "ENGINE_KEY", ENGINE_KEY="sk-of-this-engine")
    assert (done.returncode, "1 rollouts compared over 2 tokens" in done.stdout) == (0, True), done.stderr
    assert "sk-of-this-engine" not in done.stdout + done.stderr
    assert "--api-key-env ENGINE_KEY" in done.stdout
