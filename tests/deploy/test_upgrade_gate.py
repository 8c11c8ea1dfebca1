"""The example workflow is one, and its commands are ours."""

from __future__ import annotations

import inspect
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from proxy.app.replay_command import replay

FILE = Path(__file__).parents[2] / "deploy" / "ci" / "upgrade-gate.yml"


@pytest.fixture
def workflow() -> dict[Any, Any]:
    """The workflow; YAML 1.1 reads its key `on` as true."""
    found: dict[Any, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return found


def steps(workflow: dict[Any, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = workflow["jobs"]["gate"]["steps"]
    return found


def test_it_is_a_workflow_by_hand_that_may_only_read(workflow: dict[Any, Any]) -> None:
    assert workflow.keys() == {"name", True, "permissions", "concurrency", "jobs"}
    assert list(workflow[True]) == ["workflow_dispatch"]
    assert workflow["permissions"] == {"contents": "read"}
    job = workflow["jobs"]["gate"]
    assert job.keys() == {"runs-on", "timeout-minutes", "env", "steps"}
    assert all(("uses" in step) != ("run" in step) for step in job["steps"])
    assert all(step.keys() <= {"name", "uses", "run", "with", "env", "if"} for step in job["steps"])


def test_it_replays_with_flags_that_exist_and_gates_on_the_status(workflow: dict[Any, Any]) -> None:
    step = next(one for one in steps(workflow) if "parhelion replay" in one.get("run", ""))
    words = shlex.split(step["run"])
    assert words[:2] == ["parhelion", "replay"]
    flags = {f"--{name.replace('_', '-')}" for name in inspect.signature(replay).parameters}
    assert {word for word in words if word.startswith("--")} <= flags
    assert "if" not in step
    assert "continue-on-error" not in FILE.read_text(encoding="utf-8")


def test_no_input_becomes_part_of_a_script_and_every_script_parses(workflow: dict[Any, Any]) -> None:
    for step in steps(workflow):
        script = step.get("run", "")
        assert "${{" not in script
        subprocess.run(["bash", "-n"], input=script.encode(), check=True)


def test_the_engines_listen_on_loopback_and_texts_stay_on_the_runner(workflow: dict[Any, Any]) -> None:
    started = next(one["run"] for one in steps(workflow) if "docker run" in one.get("run", ""))
    assert re.search(r'--publish "127\.0\.0\.1:', started)
    kept = next(one["with"]["path"] for one in steps(workflow) if "upload-artifact" in one.get("uses", ""))
    assert kept == "report.json"
    assert steps(workflow)[-1]["if"] == "always()"
