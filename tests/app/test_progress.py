"""Progress is for people at a terminal: there it counts, elsewhere nothing is printed, and every value comes through."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

from proxy.app.progress import telling
from proxy.ledger.store import Store
from tests.ledger.conftest import compared, record
from tests.running import ROOT


def test_every_value_comes_through_and_is_told_of() -> None:
    told: list[int] = []
    assert list(telling(range(1203), told.append)) == list(range(1203))
    assert told == [500, 500, 203]


def _export(tmp_path: Path, stderr: int) -> subprocess.Popen[bytes]:
    with Store.open(f"sqlite:///{tmp_path / 'r.db'}") as store:
        store.settle([compared(record(number)) for number in range(700)])
    file = tmp_path / "p.yaml"
    file.write_text(f"primary: {{url: 'http://127.0.0.1:1'}}\nrecords: {{url: 'sqlite:///{tmp_path / 'r.db'}'}}\n")
    command = [sys.executable, "-m", "proxy.cli", "export", tmp_path / "out.jsonl", "--config", file]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TERM": "xterm"}
    return subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=stderr, env=environment)


def test_nothing_is_printed_where_nobody_looks(tmp_path: Path) -> None:
    out, err = _export(tmp_path, subprocess.PIPE).communicate(timeout=60)
    assert err == b""
    assert out.startswith(b"700 records written")


def test_a_terminal_is_told_how_many_there_were(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    running = _export(tmp_path, theirs)
    os.close(theirs)
    said = b""
    try:
        while more := os.read(ours, 4096):
            said += more
    except OSError:  # the other side is closed
        pass
    out, _ = running.communicate(timeout=60)
    os.close(ours)
    assert out.startswith(b"700 records written")
    assert b"700 records written" in said
