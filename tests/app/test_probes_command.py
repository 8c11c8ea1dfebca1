"""``parhelion probes`` as a user runs it: mined, learned, unchanged, changed; a real llama.cpp with other weights' kernels."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from proxy.ledger.detail import Detail
from proxy.ledger.record import Settlement
from proxy.ledger.store import Store
from proxy.probes.probe import BadProbes, Named, Probe, ProbeSet, load, save
from tests.probes.recorded import fill
from tests.running import ROOT, scripted


def run(*words: object, seconds: float = 90, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "proxy.cli", "probes", *map(str, words)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=seconds, cwd=ROOT, env={"PYTHONPATH": str(ROOT), "COLUMNS": "160", "PATH": "/usr/bin"} | environment, check=False
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
    Store.open(f"sqlite:///{tmp_path}/s.db").close()
    done = run("mine", "-c", configured(tmp_path, "http://127.0.0.1:1"))
    assert done.returncode == 1
    assert "no near tie in 0 records" in done.stderr
    assert "`records.content: text` keeps what is needed" in done.stderr


def test_the_engines_key_comes_out_of_the_environment(tmp_path: Path) -> None:
    probes, script = tmp_path / "p.json", tmp_path / "s.yaml"
    one = {"name": "[/p1]", "ids": [1, 300], "first": {"id": 302}, "second": {"id": 303}, "gap": 0.1}
    probes.write_text(json.dumps({"model": "toy", "probes": [one], "floor": 0.01, "made": 0.0, "engine": "vllm", "schema": "parhelion.probes/1"}))  # fmt: skip
    script.write_text("api_key: sk-of-this-engine\n")
    with scripted("vllm", script) as url:
        refused = run("run", probes, url)
        assert (refused.returncode, "it wants a key" in refused.stderr) == (2, True), refused.stderr
        key = {"ENGINE_KEY": "sk-of-this-engine"}
        said = [run("run", probes, url, "--api-key-env", "ENGINE_KEY", **key) for _ in range(2)]
        mistaken = run("run", probes, url, "--api-key-env", "sk-of-this-engine")
    assert [one.returncode for one in said] == [0, 0], said
    assert "learned: 20 runs of 1 probes" in said[0].stdout
    assert "unchanged: p = 1 " in said[1].stdout
    assert "[/p1]" in said[1].stdout  # a name is text, not a rich tag
    assert mistaken.returncode == 2
    whole = "".join(each.stdout + each.stderr for each in (*said, mistaken, refused))
    assert "sk-of-this-engine" not in whole + (tmp_path / "p.json.baseline.json").read_text()


@pytest.mark.parametrize(("redacted", "status"), [(0, 0), (12, 1)])
def test_a_redacted_record_becomes_no_probe(tmp_path: Path, redacted: int, status: int) -> None:
    store = tmp_path / "s.db"
    with scripted("vllm") as url:
        fill(url, "vllm", "toy", store, tokens=8, prompts=12)
        with Store.open(f"sqlite:///{store}") as opened:
            kept = list(opened.records())
        store.unlink()
        with Store.open(f"sqlite:///{store}") as opened:
            details = [Detail(redacted=number < redacted) for number in range(len(kept))]
            opened.settle(
                [Settlement("one", "control", "free", "compared", record=one, detail=shown) for one, shown in zip(kept, details, strict=True)]
            )  # fmt: skip
        done = run("mine", "-c", configured(tmp_path, url), "--out", tmp_path / "p.json", "--number", 4)
    assert done.returncode == status, done.stderr
    assert (tmp_path / "p.json").exists() is (status == 0)


@pytest.mark.parametrize("ids", [[], [1 << 70], [-1]])
def test_ids_of_no_vocabulary_are_refused(tmp_path: Path, ids: list[int]) -> None:
    file = tmp_path / "p.json"
    one = Probe("p1", tuple(ids), Named(1), Named(2), 0.1)
    save(file, ProbeSet("toy", (one,), 0.01, 0.0, "vllm"))
    with pytest.raises(BadProbes, match="a probe has no prompt, or an id that is none of a vocabulary"):
        load(file)


def test_what_lies_where_probes_are_made_is_not_written_through(tmp_path: Path) -> None:
    elsewhere, file = tmp_path / "elsewhere", tmp_path / "p.json"
    elsewhere.write_text("of somebody")
    (tmp_path / "p.json.new").symlink_to(elsewhere)
    save(file, ProbeSet("toy", (Probe("p1", (1,), Named(1), Named(2), 0.1),), 0.01, 0.0, "vllm"))
    assert elsewhere.read_text() == "of somebody"
    assert (len(load(file).probes), file.is_symlink()) == (1, False)
