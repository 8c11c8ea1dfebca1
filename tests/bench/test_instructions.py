"""The ratchet: user instructions a request beside nginx-mirror's, in the same run, must not rise over what is committed.

``python -m tests.bench.instructions --renew`` commits new figures, to be done when they fall.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import programs
from tests.bench.instructions import CASES, RATCHET, measured

pytestmark = pytest.mark.slow
_SLACK = 1.03


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, float]]:
    programs.need(programs.debian, "valgrind", "valgrind")
    programs.need(programs.debian, "nginx-light", "nginx")
    folder: Path = tmp_path_factory.mktemp("callgrind")
    return measured(folder)


@pytest.mark.parametrize("case", [case.name for case in CASES])
def test_the_live_path_needs_no_more_instructions_than_it_did(case: str, found: dict[str, dict[str, float]]) -> None:
    one, committed = found[case], json.loads(RATCHET.read_text())[case]
    said = (
        f"{case}: parhelion {one['parhelion']:,.0f}, nginx-mirror {one['nginx-mirror']:,.0f} user instructions a request:"
        f" ratio {one['ratio']:.3f}, committed {committed:.3f}"
    )
    print(said)
    assert one["ratio"] <= committed * _SLACK, said
    assert one["nginx-mirror"] > 10_000  # that it counted
