"""Every target on what was kept, and for a while on what two drivers make of it; half an hour of it under ``make soak``."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from tests.figures import Figure
from tests.fuzz import CORPUS, NAMES, kept, target
from tests.fuzz.drive import atheris_here, with_atheris, with_hypothesis
from tests.fuzz.target import Target

#: Seconds of each driver for each target: in all tests together under two minutes.
QUICK = (2.0, 5.0)
#: Half an hour for all targets together.
LONG = (1800 * 0.2 / len(NAMES), 1800 * 0.8 / len(NAMES))
_RUNS = re.compile(r"stat::number_of_executed_units:\s+(\d+)")


def drive(name: str, seconds: tuple[float, float], found: Path) -> str:
    """Run both drivers, or one for the time of both; what they did."""
    there = atheris_here()
    if os.environ.get("CI") == "true":
        wheels = os.uname().machine == "x86_64" and sys.version_info < (3, 14)
        assert there or not wheels, "CI=true and atheris is not installed"
    slow, fast = seconds
    tried = with_hypothesis(target(name), kept(name), slow if there else slow + fast, seed=20261130)
    said = f"{name}: {tried} inputs by hypothesis"
    if there:
        status, output = with_atheris(name, fast, found)
        assert status == 0, (output, [(path.name, path.read_bytes()) for path in found.glob("*-*") if path.is_file()])
        runs = _RUNS.search(output)
        assert runs is not None, output
        assert int(runs[1]) > 10, output
        said += f", {runs[1]} by atheris"
    return f"{said}, nothing found"


@pytest.mark.parametrize("name", NAMES)
def test_what_was_kept_holds(name: str) -> None:
    chosen = target(name)
    inputs = [*chosen.seeds, *kept(name), b""]
    assert len(kept(name)) >= 5
    for data in inputs:
        chosen.check(data)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_target_holds_for_a_while(name: str, tmp_path: Path, figure: Figure) -> None:
    figure("row 15", drive(name, QUICK, tmp_path))


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", NAMES)
def test_a_target_holds_for_long(name: str, tmp_path: Path, figure: Figure) -> None:
    figure("row 15", drive(name, LONG, tmp_path))


def test_what_does_not_hold_is_found_and_shown() -> None:
    def check(data: bytes) -> None:
        assert b"\n\r" not in data

    broken = Target(check, seeds=(b"a line\n and\r another",), words=(b"\r", b"\n"))
    with pytest.raises(AssertionError) as raised:
        with_hypothesis(broken, [], 60.0, seed=1)
    assert "\\n\\r" in "".join(raised.value.__notes__)


@pytest.mark.skipif(not atheris_here(), reason="atheris is not installed: PyPI has wheels for Linux on x86-64")
def test_what_does_not_hold_ends_atheris_with_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tmp_path / "broken"
    module.mkdir()
    (module / "sitecustomize.py").write_text(
        "import tests.fuzz\n"
        "from tests.fuzz.target import Target\n"
        "def check(data):\n    assert b'xy' not in data\n"
        "tests.fuzz.target = lambda name: Target(check, seeds=(b'x',), words=(b'xy',))\n"
    )
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(module), str(CORPUS.parents[2]), os.environ.get("PYTHONPATH", "")])
    )
    status, output = with_atheris("sse", 20.0, tmp_path)
    assert status != 0, output
    assert list(tmp_path.glob("crash-*")), output


def test_every_target_says_what_it_holds() -> None:
    for name in NAMES:
        text = (CORPUS.parent / f"{name}.py").read_text(encoding="utf-8")
        assert text.startswith('"""Invariant: '), name
    assert {path.name for path in CORPUS.iterdir()} == set(NAMES)
