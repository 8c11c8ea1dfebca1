"""A replay that was killed twenty times says what one says that was left alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from proxy.ledger.store import Store
from tests.replay.replaying import engines, replay, report, requests, timeless
from tests.running import ROOT

KILLS, REQUESTS = 20, 80


@pytest.mark.timeout(900)
def test_twenty_kills_make_no_difference(tmp_path: Path, seeds: tuple[int, ...]) -> None:
    file = requests(tmp_path / "a.jsonl", REQUESTS)
    whole, killed = tmp_path / "whole.json", tmp_path / "killed.json"
    with engines(tmp_path) as flags:
        common = [str(file), *flags, "--concurrency", "4"]
        assert replay(*common, "--json", whole, "--out", tmp_path / "whole.db").returncode == 1
        words = [*common, "--rate", "25", "--json", str(killed), "--out", str(tmp_path / "killed.db")]
        again = subprocess.run(
            [sys.executable, "-m", "tests.replay.killed", str(seeds[0]), str(KILLS), "0.4", *words],
            capture_output=True,
            text=True,
            check=True,
            timeout=400,
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )
    assert again.stdout.split() == [str(KILLS), "1"], again.stderr
    assert "settled before: going on" in again.stderr
    one, other = report(whole), report(killed)
    assert one["replay"]["replayed"] == other["replay"]["replayed"] == REQUESTS
    assert timeless(one) == timeless(other)
    assert one["shadows"][0]["modes"]["free"]["divergences"]["near_tie"] > 0  # thresholds were learned, and again
    with Store.open_read_only(f"sqlite:///{tmp_path / 'killed.db'}") as store:
        ids = [record.id for record in store.records()]
        assert len(ids) == len(set(ids)) == 4 * REQUESTS
