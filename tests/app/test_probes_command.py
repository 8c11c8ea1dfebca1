"""``parhelion probes`` as a user runs it: mined, learned, unchanged, changed; a real llama.cpp with other weights' kernels."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.probes.recorded import fill
from tests.running import ROOT, scripted


def run(*words: object, seconds: float = 90) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "proxy.cli", "probes", *map(str, words)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=seconds, cwd=ROOT, env={"PYTHONPATH": str(ROOT), "COLUMNS": "160", "PATH": "/usr/bin"}, check=False
    )  # fmt: skip


def configured(folder: Path, url: str) -> Path:
    path = folder / "c.yaml"
    path.write_text(f"primary: {{url: '{url}'}}\nrecords: {{url: 'sqlite:///{folder}/s.db', content: text}}\n")
    return path


def test_from_records_to_a_change(tmp_path: Path) -> None:
    probes, out = tmp_path / "p.json", tmp_path / "found.json"
    with scripted("vllm") as url:
        fill(url, "vllm", "toy", tmp_path / "s.db", tokens=8)
        mined = run("mine", "-c", configured(tmp_path, url), "--out", probes, "--number", 12)
        assert mined.returncode == 0, mined.stderr
        assert len(json.loads(probes.read_text())["probes"]) == 12
        assert probes.stat().st_mode & 0o777 == 0o600
        learned = run("run", probes, url)
        assert (learned.returncode, "learned: 20 runs of 12 probes" in learned.stdout) == (0, True), learned.stderr
        same = run("run", probes, url, "--json", out)
        assert same.returncode == 0
        assert same.stdout.startswith("unchanged: p = 1 ")
        found = json.loads(out.read_text())
        assert (found["schema"], found["changed"], found["runs"]) == ("parhelion.probe_run/1", False, [20, 6])
        assert found["footprint"]["differ"] == {}
    script = tmp_path / "s.yaml"
    script.write_text("differences: {noise: 0.02}\n")
    with scripted("vllm", script) as url:
        changed = run("run", probes, url, "--json", out)
        assert changed.returncode == 1
        assert changed.stdout.startswith("CHANGED: p = 4.34e-06")
        assert 0.002 < json.loads(out.read_text())["shift"] < 0.2
        watched = run("run", probes, url, "--every", "1s")
        assert watched.returncode == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run", "none.json", "http://127.0.0.1:1"], "none.json: No such file"),
        (["run", "README.md", "http://127.0.0.1:1"], "not a file of `parhelion probes mine`"),
        (["run", "none.json", "http://127.0.0.1:1", "--every", "soon"], "--every: 'soon' is not an interval"),
        (["run", "none.json", "http://127.0.0.1:1", "--alpha", "2"], "--alpha is above 0"),
        (["mine", "--number", "0"], "--number is from 1 to 512"),
    ],
)
def test_mistakes_are_one_line(words: list[str], says: str) -> None:
    done = run(*words)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert says in done.stderr


def test_records_without_text_say_what_would_help(tmp_path: Path) -> None:
    from proxy.ledger.store import Store

    Store.open(f"sqlite:///{tmp_path}/s.db").close()
    done = run("mine", "-c", configured(tmp_path, "http://127.0.0.1:1"))
    assert done.returncode == 1
    assert "no near tie in 0 records" in done.stderr
    assert "`records.content: text` keeps what is needed" in done.stderr
