"""Whatever goes wrong with telling it, the exit status of a report never says FAIL (1) where nothing failed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from proxy.app.reporting import expense
from proxy.ledger.store import Store
from tests.ledger.conftest import compared, record
from tests.running import ROOT

BREAKS = """
import sys
from proxy.app import reporting
def broken(*_, **__):
    raise ZeroDivisionError
reporting.build_report = broken
from proxy.cli import main
sys.argv = ["parhelion", *sys.argv[1:]]
main()
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A configuration whose records are there, without any."""
    file = tmp_path / "p.yaml"
    file.write_text(
        f"state: {tmp_path / 'state'}\nprimary: {{url: 'http://127.0.0.1:1'}}\n"
        f"shadows: [{{name: candidate, url: 'http://127.0.0.1:2'}}]\nrecords: {{url: 'sqlite:///{tmp_path / 'r.db'}'}}\n"
    )
    Store.open(f"sqlite:///{tmp_path / 'r.db'}").close()
    return file


def report(config: Path, stdout: int, *python: str, words: tuple[str, ...] = ()) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-P", *python, "report", "-c", str(config), *words],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=60,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    return done.returncode, done.stderr


def test_a_reader_that_has_heard_enough_is_no_fail(config: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        assert report(config, writing, "-m", "proxy.cli") == (3, "")
    finally:
        os.close(writing)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is full")
def test_a_full_disk_under_the_report_is_named(config: Path) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        status, said = report(config, full.fileno(), "-m", "proxy.cli")
    assert (status, said) == (2, "parhelion: standard output: the report cannot be written: No space left on device\n")


def test_a_defect_of_ours_is_no_fail(config: Path) -> None:
    status, said = report(config, subprocess.DEVNULL, "-c", BREAKS)
    assert status == os.EX_SOFTWARE
    assert said.rstrip().endswith("ZeroDivisionError")


def test_the_html_is_written_beside_what_is_printed_or_its_absence_named(config: Path, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    assert report(config, subprocess.DEVNULL, "-m", "proxy.cli", words=("--html", str(file))) == (3, "")
    assert "No conversation has been counted towards this verdict yet." in file.read_text()
    missing = tmp_path / "none" / "report.html"
    status, said = report(config, subprocess.DEVNULL, "-m", "proxy.cli", words=("--html", str(missing)))
    assert (status, said) == (2, f"parhelion: --html: {missing} cannot be written: No such file or directory\n")


def test_a_report_that_will_take_long_says_so_first(tmp_path: Path) -> None:
    with Store.open(f"sqlite:///{tmp_path / 'many.db'}") as store:
        store.settle([compared(record(number)) for number in range(400)])
        assert expense(store, None) is None
        assert expense(store, 1_700_000_000.0 + 399, unsaid=store.used_bytes() // 2) is None
        said = expense(store, None, unsaid=1)
    assert said is not None
    assert said.startswith("400 records: this takes about 0 GB of memory and 0 minutes; --since")
