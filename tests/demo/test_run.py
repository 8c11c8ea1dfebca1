"""What the demo refuses before it starts anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from proxy.demo.run import run


def test_no_requests_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(requests=0, json_file=None, keep=False, vllm=False) == 2
    assert capsys.readouterr().err == "parhelion: --requests: give at least 1\n"


def test_a_report_that_could_not_be_written_is_said_before_the_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(requests=1, json_file=tmp_path, keep=False, vllm=False) == 2
    assert capsys.readouterr().err == f"parhelion: --json: {tmp_path} cannot be written: Is a directory\n"
