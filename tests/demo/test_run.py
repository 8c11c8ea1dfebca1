"""What the demo refuses before it starts anything, and what it says can be tried when it is left running."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from proxy.demo.run import _kept, _settings, run
from proxy.demo.trio import Trio


def test_no_requests_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(requests=0, json_file=None, keep=False, vllm=False) == 2
    assert capsys.readouterr().err == "parhelion: --requests: give at least 1\n"


def test_a_report_that_could_not_be_written_is_said_before_the_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(requests=1, json_file=tmp_path, keep=False, vllm=False) == 2
    assert capsys.readouterr().err == f"parhelion: --json: {tmp_path} cannot be written: Is a directory\n"


def test_what_is_left_running_can_be_changed_by_who_started_it(tmp_path: Path) -> None:
    trio = Trio("t", "http://127.0.0.1:1", ({"name": "f32", "role": "candidate", "url": "http://127.0.0.1:2"},))
    settings = _settings(trio, tmp_path)
    proxy = SimpleNamespace(clients="http://127.0.0.1:3", admin="http://127.0.0.1:4")
    said = {line.split()[0]: line.split()[1] for line in _kept(proxy, trio, settings, tmp_path)}
    assert said["token"] == settings["admin_token"] != _settings(trio, tmp_path)["admin_token"]
    assert len(said["token"]) == 16
    assert said["config"] == str(tmp_path / "parhelion.yaml")
    assert (said["pages"], said["f32"]) == ("http://127.0.0.1:4/", "http://127.0.0.1:2")
