"""Two drivers of one target: hypothesis, which changes kept inputs at random and makes failures small, and atheris, which follows coverage."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.fuzz.target import Target

_ROOT = Path(__file__).parents[2]
_GRACE = 60.0
Edit = tuple[int, int, bytes]


def atheris_here() -> bool:
    """Whether atheris can be imported (PyPI has wheels for Linux on x86-64)."""
    return importlib.util.find_spec("atheris") is not None


def changed(data: bytes, edits: list[Edit]) -> bytes:
    """Each edit cuts out some bytes at a place and puts others there."""
    for place, cut, put in edits:
        at = place % (len(data) + 1)
        data = data[:at] + put + data[at + cut :]
    return data


def inputs(target: Target, kept: list[bytes]) -> st.SearchStrategy[bytes]:
    """Any bytes, and kept inputs with a few edits."""
    words = st.one_of(st.binary(max_size=6), *([st.sampled_from(target.words)] if target.words else []))
    edits = st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 12), words), max_size=5)
    mutated = st.builds(changed, st.sampled_from([*target.seeds, *kept]), edits)
    return st.one_of(mutated, mutated, st.binary(max_size=300)).map(lambda data: data[: target.longest])


def with_hypothesis(target: Target, kept: list[bytes], seconds: float, seed: int) -> int:
    """Run for a time; how many inputs were tried. Raises what the target raises, with the smallest input that does."""
    limit = time.monotonic() + seconds
    tried = 0

    def counted(data: bytes) -> None:
        nonlocal tried
        tried += 1
        target.check(data)

    while time.monotonic() < limit:
        _round(counted, inputs(target, kept), seed + tried)
    return tried


def _round(check: Callable[[bytes], None], strategy: st.SearchStrategy[bytes], seed: int) -> None:
    from hypothesis import seed as seeded

    @seeded(seed)
    @settings(
        max_examples=200,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def run(data: bytes) -> None:
        check(data)

    run()


def with_atheris(name: str, seconds: float, found: Path) -> tuple[int, str]:
    """Run in a process of its own, which libFuzzer ends; exit status and what it said. Inputs that fail are left in ``found``."""
    words = [sys.executable, "-m", "tests.fuzz", name, "--with", "atheris", "--seconds", str(int(seconds)), "--found", str(found)]  # fmt: skip
    done = subprocess.run(
        words, cwd=_ROOT, capture_output=True, text=True, errors="replace", timeout=seconds + _GRACE, check=False
    )
    return done.returncode, (done.stdout + done.stderr)[-4000:]
