"""A replay on real llama.cpp: killed under way and gone on with, it says what one says that was left alone; and so does the replay of its own export."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.demo.prompts import traffic
from proxy.demo.trio import MODEL, Trio, light
from proxy.ledger.export import export_jsonl
from proxy.ledger.store import Store
from tests.replay.replaying import replay, report, settled, timeless
from tests.replay.test_traffic import lines
from tests.running import ROOT, until

pytestmark = [pytest.mark.slow, pytest.mark.llama, pytest.mark.timeout(600)]
REQUESTS, TOKENS = 4, 12


@pytest.fixture(scope="module")
def trio(smollm2_q4: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trio]:
    """Q4_1 as primary and control, F32 as candidate."""
    assert smollm2_q4.exists()
    with light(tmp_path_factory.mktemp("engines"), print) as found:
        yield found


def test_killed_and_gone_on_with_and_replayed_from_its_export(trio: Trio, tmp_path: Path) -> None:
    file = tmp_path / "asked.jsonl"
    file.write_bytes(lines(*(ask.arguments | {"max_tokens": TOKENS} for ask in traffic(REQUESTS, MODEL))))
    f32, control = (shadow["url"] for shadow in trio.shadows)
    flags = ["--primary", trio.primary, "--shadow", f"f32={f32}", "--control", control, "--concurrency", "1"]
    assert replay(file, *flags, "--json", tmp_path / "whole.json", "--out", tmp_path / "whole.db").returncode == 3

    out = tmp_path / "killed.db"
    words = [str(file), *flags, "--json", str(tmp_path / "killed.json"), "--out", str(out)]
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "proxy.cli", "replay", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    until(lambda: settled(out) > 1, 120, "some requests to be settled")
    process.send_signal(signal.SIGKILL)
    process.wait(20)
    part = settled(out)
    assert 1 < part < REQUESTS
    ended = replay(*words)
    assert f"{part} of them settled before: going on" in ended.stderr
    whole = report(tmp_path / "whole.json")
    assert timeless(report(tmp_path / "killed.json")) == timeless(whole)

    with Store.open_read_only(f"sqlite:///{out}") as store:
        assert export_jsonl(store.records(), tmp_path / "export.jsonl") == 4 * REQUESTS
    again = replay(tmp_path / "export.jsonl", *flags, "--json", tmp_path / "again.json")
    assert f"{REQUESTS} requests ({3 * REQUESTS} more lines are records of the same requests)" in again.stderr
    assert timeless(report(tmp_path / "again.json"))["shadows"][0]["modes"] == timeless(whole)["shadows"][0]["modes"]
